"""English text from two Debian packages: the King James Bible and WordNet's glosses."""

import dataclasses
import random
import re
import shutil
import subprocess
from pathlib import Path

WORDNET = Path("/usr/share/wordnet")
PARTS_OF_SPEECH = ("noun", "verb", "adj", "adv")
INSTALL = "apt-get install bible-kjv bible-kjv-text wordnet-base"
HELD_OUT_EVERY = 50  # line i of a source is held out where i % 50 == 0

SENTENCES = (
    ("animal", "The animal didn't cross the street because it was too tired."),
    ("cat", "The cat sat on the mat because it was tired."),
    ("mechanic", "The tired mechanic fixed the engine with a wrench."),
)


@dataclasses.dataclass(frozen=True)
class Gloss:
    """One WordNet synset: its first lemma, its definition and its example sentences."""

    lemma: str
    definition: str
    examples: tuple[str, ...]

    def lines(self) -> list[str]:
        return [f"{self.lemma}: {self.definition}.", *self.examples]


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Training and held-out text. Verses and glosses keep the order of their books."""

    train_verses: list[str]
    train_glosses: list[Gloss]
    held_out_verses: list[str]
    held_out_glosses: list[Gloss]

    def train_lines(self) -> list[str]:
        return self.train_verses + gloss_lines(self.train_glosses)

    def held_out_lines(self) -> list[str]:
        return self.held_out_verses + gloss_lines(self.held_out_glosses)


def gloss_lines(glosses: list[Gloss]) -> list[str]:
    return [line for gloss in glosses for line in gloss.lines()]


def read_verses() -> list[str]:
    """Reads every verse of the King James text, without its reference."""
    printed = subprocess.run(
        ["bible", "-f", "gen1:1-rev22:21"],
        capture_output=True, text=True, check=True, encoding="latin-1",
    ).stdout
    verses = [line.partition(" ")[2].strip() for line in printed.splitlines()]
    return [verse for verse in verses if verse]


def read_glosses() -> list[Gloss]:
    """Reads every synset of WordNet, in the order of its data files."""
    glosses = []
    for part in PARTS_OF_SPEECH:
        text = (WORDNET / f"data.{part}").read_text(encoding="latin-1")
        for record in text.splitlines():
            if record.startswith("  "):  # skip the licence at the beginning of each file
                continue
            fields, _, gloss = record.partition(" | ")
            lemma = re.sub(r"\(\w+\)$", "", fields.split()[4]).replace("_", " ")
            examples = tuple(as_sentence(e) for e in re.findall(r'"([^"]+)"', gloss) if " " in e)
            definition = re.split(r'[;:]?\s*"', gloss, maxsplit=1)[0].strip().rstrip(";:.,")
            if definition:
                glosses.append(Gloss(lemma, definition, examples))
    return glosses


def as_sentence(example: str) -> str:
    """Adds a capital and a full stop to an example of WordNet."""
    example = example.strip().rstrip(";,")
    if example[-1:] not in ".!?":
        example += "."
    return example[:1].upper() + example[1:]


def read_corpus(seed: int) -> Corpus:
    missing = [p for p in (WORDNET / f"data.{s}" for s in PARTS_OF_SPEECH) if not p.exists()]
    if shutil.which("bible") is None or missing:
        raise SystemExit(f"the texts are not installed; as root: {INSTALL}")
    verses, glosses = read_verses(), read_glosses()
    if len(verses) < 31_000 or len(glosses) < 110_000:
        raise SystemExit(
            f"expected 31102 verses and 117659 glosses, found {len(verses)} and {len(glosses)}; "
            f"reinstall the texts: {INSTALL}")
    random.Random(seed).shuffle(glosses)  # WordNet's files are in semantic order

    def split(items: list) -> tuple[list, list]:
        kept = [item for i, item in enumerate(items) if i % HELD_OUT_EVERY]
        return kept, items[::HELD_OUT_EVERY]

    train_verses, held_out_verses = split(verses)
    train_glosses, held_out_glosses = split(glosses)
    return Corpus(train_verses, train_glosses, held_out_verses, held_out_glosses)
