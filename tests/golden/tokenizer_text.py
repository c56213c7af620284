"""Random texts for tokenizers, and the result of a tokenizer as a line. tests/support/tokenizer_golden.cpp is the
same in C++.

Random text I of a seed: a SplitMix64 generator that starts at mix(seed + I) draws every number, modulo its range.
First 1 to 12 parts. For each part an alphabet of alphabets.json (texts of even number use only the first 9), then 1
to 4 draws from it: from "pieces" one entry of the list; from "ranges" [first, last] one range, then a code point in
it (a surrogate becomes U+FFFD).

A line has one entry per token, separated by spaces: ID@BEGIN-END, then /WORD if it has a word, :TYPE if its token
type is not 0, * if the post-processor added it. Above 16 tokens: "#COUNT HASH", with the FNV-1a hash (64 bits, 16
hexadecimal digits) of the bytes of the line. A list of texts is hashed in blocks of 50: FNV-1a of their whole lines,
each ended by a line feed.
"""
import json
from pathlib import Path

HERE = Path(__file__).parent / "tokenizers"
MASK = (1 << 64) - 1
PLAIN_ALPHABETS, MOST_PARTS, LONGEST_RUN = 9, 12, 4
BLOCK, LONGEST_LINE = 50, 16


def mix(value: int) -> int:
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


class SplitMix64:
    def __init__(self, state: int):
        self.state = state

    def below(self, bound: int) -> int:
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        return mix(self.state) % bound


ALPHABETS = json.loads((HERE / "alphabets.json").read_text())


def draw(alphabet: dict, random: SplitMix64) -> str:
    if "pieces" in alphabet:
        return alphabet["pieces"][random.below(len(alphabet["pieces"]))]
    first, last = alphabet["ranges"][random.below(len(alphabet["ranges"]))]
    code = first + random.below(last - first + 1)
    return chr(0xFFFD if 0xD800 <= code <= 0xDFFF else code)


def random_text(seed: int, number: int) -> str:
    random = SplitMix64(mix((seed + number) & MASK))
    known = PLAIN_ALPHABETS if number % 2 == 0 else len(ALPHABETS)
    pieces = []
    for _ in range(1 + random.below(MOST_PARTS)):
        alphabet = ALPHABETS[random.below(known)]
        pieces += [draw(alphabet, random) for _ in range(1 + random.below(LONGEST_RUN))]
    return "".join(pieces)


def fnv1a(data: bytes) -> str:
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & MASK
    return f"{value:016x}"


def line(encoding) -> str:
    """Returns the line of a tokenizers.Encoding."""
    tokens = zip(encoding.ids, encoding.offsets, encoding.word_ids, encoding.type_ids, encoding.special_tokens_mask)
    return " ".join(
        f"{token}@{begin}-{end}" + (f"/{word}" if word is not None else "") + (f":{kind}" if kind else "")
        + ("*" if special else "") for token, (begin, end), word, kind, special in tokens)  # fmt: skip


def shortened(text: str) -> str:
    count = text.count("@")
    return text if count <= LONGEST_LINE else f"#{count} {fnv1a(text.encode())}"


def block_hashes(lines: list[str]) -> str:
    blocks = [lines[i : i + BLOCK] for i in range(0, len(lines), BLOCK)]
    return " ".join(fnv1a("".join(f"{x}\n" for x in block).encode()) for block in blocks)


def treebank_texts(path: Path) -> list[str]:
    """Returns the texts after `# text = ` in a CoNLL-U file."""
    mark = "# text = "
    return [x[len(mark) :] for x in path.read_text(encoding="utf-8").split("\n") if x.startswith(mark)]
