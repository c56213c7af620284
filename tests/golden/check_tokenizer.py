"""Compares `attnctl tokenize` with the `tokenizers` library: ids, offsets and words of every text.

venv/bin/python tests/golden/check_tokenizer.py --attnctl build/attnctl [DIR ...] [--pipelines N] [--text FILE ...]
                                                [--random COUNT] [--seed N] [--shown 3] [--keep DIR]

DIR holds a tokenizer. --pipelines adds N random compositions of all parts (tokenizer_pipelines.py), chosen by the
seed. Texts: the lines of a file, the `# text =` of a .conllu, the strings of a .json list, random texts
(tokenizer_text.py), and always strings.json. Prints one line per tokenizer: `exact`, `refused` with the reason, or
`different` with the first such texts. Ends with 1 if a tokenizer differs.
"""
import argparse
import json
import os
import pickle
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import tokenizer_pipelines
from make_tokenizers import open_tokenizer
from tokenizer_text import HERE, random_text, treebank_texts

MEMORY = 3 << 30  # memory limit of the library, in bytes
SECONDS = 30
OUT_OF_TIME = f"over {SECONDS} s"


def read_texts(arguments) -> list[str]:
    texts = [s["text"] for s in json.loads((HERE / "strings.json").read_text())["strings"]]
    for path in arguments.text:
        if path.suffix == ".conllu":
            texts += treebank_texts(path)
        elif path.suffix == ".json":
            texts += json.loads(path.read_text(encoding="utf-8"))
        else:
            texts += path.read_bytes().decode("utf-8").split("\n")
    return texts + [random_text(arguments.seed, i) for i in range(arguments.random)]


def reference(tokenizer, texts: list[str]) -> list[tuple | None]:
    """Returns None for texts on which the library panics."""

    def encode_one(text):
        try:
            return tokenizer.encode(text)
        except BaseException:  # a panic is a BaseException
            return None

    try:
        encodings = tokenizer.encode_batch(texts)
    except BaseException:
        encodings = [encode_one(text) for text in texts]
    return [None if e is None else (e.ids, [list(o) for o in e.offsets], e.word_ids) for e in encodings]


def found(attnctl: Path, directory: Path, file: Path) -> list[tuple] | str:
    command = [attnctl, "tokenize", directory, "--input", file, "--format", "jsonl"]
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    run = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", preexec_fn=limit, timeout=SECONDS)
    if run.returncode != 0:
        return f"status {run.returncode}: {run.stderr.strip()}"
    records = (json.loads(x) for x in run.stdout.splitlines())
    return [(r["ids"], r["offsets"], r["words"]) for r in records if "ids" in r]


def report(text: str, wanted: tuple, got: tuple) -> str:
    lines = [f"  {json.dumps(text)}"]
    for name, a, b in zip(("ids", "offsets", "words"), wanted, got):
        if a != b:
            lines.append(f"    {name}: expected {json.dumps(a)}\n    {' ' * len(name)}  found    {json.dumps(b)}")
    return "\n".join(lines)


def in_child(work) -> object:
    """Runs `work()` in a separate process, because the library may panic, abort, or use all memory."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        signal.alarm(SECONDS)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the caller reports panics
        with open(writer, "wb") as pipe:
            try:
                pickle.dump(work(), pipe)
            except BaseException as error:
                pickle.dump(f"{type(error).__name__}: {str(error)[:200]}", pipe)
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        data = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == -signal.SIGALRM:
        return OUT_OF_TIME
    return pickle.loads(data) if status == 0 else f"ended with status {status}"


def reference_in_parts(directory: Path, texts: list[str]) -> list[tuple | None] | str:
    """If the library aborts, runs it without the texts around those at which it does."""
    wanted = in_child(lambda: reference(open_tokenizer(directory), texts))
    if not isinstance(wanted, str) or len(texts) == 1:
        return wanted
    if wanted == OUT_OF_TIME:
        return wanted
    if len(texts) <= 256:
        return [None] * len(texts)
    size = -(-len(texts) // 8)
    parts = [reference_in_parts(directory, texts[i : i + size]) for i in range(0, len(texts), size)]
    parts = [[None] * size if isinstance(part, str) else part for part in parts]
    together = [each for part in parts for each in part]
    return together if any(together) else wanted


class Check:
    def __init__(self, arguments, folder: Path):
        self.attnctl, self.shown, self.texts = arguments.attnctl, arguments.shown, read_texts(arguments)
        self.file = folder / "texts.jsonl"
        self.file.write_text("".join(json.dumps({"text": t}) + "\n" for t in self.texts))
        self.counts = {"exact": 0, "refused": 0, "different": 0}

    def of_one_mind(self, directory: Path, differing: list[int], got: list[tuple]) -> list[int]:
        """Keeps only texts for which the library never returns the difference found. If two added tokens are equal
        after normalizing, the one that it uses differs between openings."""
        for _ in range(8 if differing else 0):
            texts = [self.texts[i] for i in differing]
            again = in_child(lambda: reference(open_tokenizer(directory), texts))
            differing = [i for i, wanted in zip(differing, again) if wanted != got[i]]
        return differing

    def compare(self, name: str, directory: Path) -> None:
        wanted = reference_in_parts(directory, self.texts)
        if isinstance(wanted, str):
            print(f"{name}: left out, the library fails: {wanted}")
            return
        got = found(self.attnctl, directory, self.file)
        if isinstance(got, str):
            self.counts["refused"] += 1
            print(f"{name}: refused, {got}")
            return
        if len(got) != len(wanted):
            raise SystemExit(f"{name}: {len(got)} records for {len(wanted)} texts")
        differing = [i for i in range(len(wanted)) if wanted[i] is not None and wanted[i] != got[i]]
        differing = self.of_one_mind(directory, differing, got)
        self.counts["different" if differing else "exact"] += 1
        if differing:
            print(f"{name}: different, {len(differing)} of {len(wanted)} texts")
            shortest = sorted(differing, key=lambda i: len(self.texts[i]))[: self.shown]
            print("\n".join(report(self.texts[i], wanted[i], got[i]) for i in shortest))
        else:
            print(f"{name}: exact, {len(wanted) - wanted.count(None)} texts")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("directories", type=Path, nargs="*")
    options.add_argument("--attnctl", type=Path, required=True)
    options.add_argument("--pipelines", type=int, default=0)
    options.add_argument("--text", type=Path, action="append", default=[])
    options.add_argument("--random", type=int, default=2000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--shown", type=int, default=3)
    options.add_argument("--keep", type=Path, help="where the random compositions are kept")
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        check = Check(arguments, Path(temporary))
        for directory in arguments.directories:
            check.compare(directory.resolve().name, directory)
        for i in range(arguments.pipelines):
            directory = folder / f"pipeline-{arguments.seed}-{i}"
            summary = tokenizer_pipelines.write(directory, arguments.seed, i)
            check.compare(f"{directory.name} ({summary})", directory)
    print(", ".join(f"{count} {what}" for what, count in check.counts.items()))
    sys.exit(1 if check.counts["different"] else 0)


if __name__ == "__main__":
    main()
