"""Random compositions of all parts of tokenizer.json with the models of the small tokenizers, for check_tokenizer.py.
They find unexpected combinations.
"""
import base64
import json
import random
from pathlib import Path

import charsmap
from tokenizer_cases import CLIP, GPT2, LLAMA3, O200K, QWEN
from tokenizer_text import HERE

MODELS = [json.loads(p.read_text()) for p in sorted(HERE.glob("*/tokenizer.json"))]
CHARSMAP = base64.b64encode(charsmap.sample()).decode()
BEHAVIOURS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
REGEXES = [GPT2, LLAMA3, QWEN, O200K, CLIP, r"\s+", r"\w+|[^\w\s]+", r"\p{L}+", r"\p{M}", r"\p{N}{1,3}", r"^.", r".$", "[aeiou]+",
           r"(?i:the|dog)", r"\d", r"\S+", r"[^a-z]", r"\p{Lu}\p{Ll}*", r"\b", r"(?=[A-Z])", r"\n|\r\n", r"x*", r"(\w)\1",
           r"[\p{P}\p{S}]", r"\p{Han}|\p{Hiragana}|\p{Katakana}", r"(?<=\d)\D", r"\s+$", r" ?[^ ]+", r"\p{Thai}+", r".",
           r"\W", r"[[:alpha:]]+", r"\R", r"[\u4e00-\u9fff]", r" ?[^(\s|[.,!?…。，、।۔،])]+", r"[0-9][0-9][0-9]",
           r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
           r"[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+", r"[一-龥぀-ゟ゠-ヿ]+",
           r"[\p{Lu}\p{Lo}&&[^\p{Han}]]+[\p{Ll}\p{M}]*", r"(?=(\d{3})+(?!\d))", r"\b\w+\b", r"(?>a+)b|[a-z&&[^aeiou]]+",
           r"(?:\r?\n)+(?!\r?\n)", r"\p{^L}+?"]  # fmt: skip
# If Replace inserts text and removes none, the library's offsets become wrong, until it panics.
ZERO_WIDTH = {r"\b", r"(?=[A-Z])", r"x*", r"(?=(\d{3})+(?!\d))"}
STRINGS = [" ", "e", "ab", "\n", "-", ",", "▁", "the", "中", "\u0301", "``", "é", "  ", "."]


class Composer:
    def __init__(self, seed: int, number: int):
        self.random = random.Random(f"{seed}/{number}")
        self.pick, self.summary = self.random.choice, []

    def flag(self) -> bool:
        return self.random.random() < 0.5

    def pattern(self, without=frozenset()) -> dict:
        regexes = [r for r in REGEXES if r not in without]
        return {"Regex": self.pick(regexes)} if self.flag() else {"String": self.pick(STRINGS)}

    def normalizer(self) -> dict:
        kind = self.pick(["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "Strip", "Prepend", "Replace",
                          "Replace", "Precompiled", "BertNormalizer", "BertNormalizer", "ByteLevel"])  # fmt: skip
        options = {
            "Strip": lambda: {"strip_left": self.flag(), "strip_right": self.flag()},
            "Prepend": lambda: {"prepend": self.pick(["▁", " ", "x", "é", "<s>", "\u0301"])},
            "Replace": lambda: {"pattern": self.pattern(ZERO_WIDTH), "content": self.pick(["▁", " ", "", "xyz", "$1", "é", "中中", "\n"])},
            "Precompiled": lambda: {"precompiled_charsmap": CHARSMAP},
            "BertNormalizer": lambda: {"clean_text": self.flag(), "handle_chinese_chars": self.flag(),
                                       "strip_accents": self.pick([None, True, False]), "lowercase": self.flag()},
        }  # fmt: skip
        return {"type": kind} | options.get(kind, dict)()

    def pre_tokenizer(self) -> dict:
        kind = self.pick(["BertPreTokenizer", "ByteLevel", "ByteLevel", "Metaspace", "Metaspace", "Whitespace",
                          "WhitespaceSplit", "Punctuation", "Digits", "Split", "Split", "Split", "CharDelimiterSplit",
                          "UnicodeScripts", "FixedLength"])  # fmt: skip
        options = {
            "ByteLevel": lambda: {"add_prefix_space": self.flag(), "trim_offsets": self.flag(), "use_regex": self.flag()},
            "Metaspace": lambda: {"replacement": self.pick("▁▁_"), "split": self.flag(),
                                  "prepend_scheme": self.pick(["always", "first", "never"])},
            "Punctuation": lambda: {"behavior": self.pick(BEHAVIOURS)},
            "FixedLength": lambda: {"length": self.pick([1, 2, 5])},
            "Digits": lambda: {"individual_digits": self.flag()},
            "Split": lambda: {"pattern": self.pattern(), "behavior": self.pick(BEHAVIOURS), "invert": self.flag()},
            "CharDelimiterSplit": lambda: {"delimiter": self.pick(" -e中▁")},
        }  # fmt: skip
        return {"type": kind} | options.get(kind, dict)()

    def sequence(self, make, key: str, most: int) -> dict | None:
        count = self.random.randint(0, most)
        parts = [make() for _ in range(count)]
        self.summary.append("+".join(p["type"] for p in parts) or "-")
        if count == 0:
            return None
        return parts[0] if count == 1 and self.flag() else {"type": "Sequence", key: parts}

    def post_processor(self, known: list) -> dict | None:
        kind = self.pick([None, "BertProcessing", "RobertaProcessing", "ByteLevel", "Sequence"])
        trim = {"trim_offsets": self.flag(), "add_prefix_space": self.flag()}
        ends = {"sep": self.pick(known), "cls": self.pick(known)}
        byte_level = {"type": "ByteLevel", "use_regex": True} | trim
        made = {
            None: None,
            "BertProcessing": {"type": kind} | ends,
            "RobertaProcessing": {"type": kind} | ends | trim,
            "ByteLevel": byte_level,
            "Sequence": {"type": kind, "processors": [byte_level, {"type": "BertProcessing"} | ends]},
        }[kind]
        self.summary.append(kind or "-")
        return made

    def added_tokens(self, vocabulary: set) -> list:
        names = ["DOG", "dog", "newtoken", "stripleft", "stripright", "stripboth", "ab", "▁ab", "café!", "A\u030angstro\u0308m",
                 "你好", "new token", "<mask>", "[MASK]", "<|endoftext|>", "the", " it"]  # fmt: skip
        names += self.pick([[], [], [], ["  ", "\n"]])  # some normalizers remove them completely; then the library aborts
        chosen = [n for n in names if self.random.random() < 0.4 and n not in vocabulary]
        return [{"id": len(vocabulary) + i, "content": name, "special": self.flag(), "normalized": self.flag(),
                 "lstrip": self.random.random() < 0.3, "rstrip": self.random.random() < 0.3,
                 "single_word": self.random.random() < 0.3} for i, name in enumerate(chosen)]  # fmt: skip

    def model(self, base: dict) -> dict:
        model = dict(base)
        if model["type"] == "BPE":
            refused = not model["unk_token"] or model["continuing_subword_prefix"] or model["end_of_word_suffix"]
            model |= {"fuse_unk": self.flag(), "byte_fallback": self.flag() and not refused, "ignore_merges": self.flag()}
        if model["type"] == "WordPiece":
            model["max_input_chars_per_word"] = self.pick([3, 9, 100])
        if model["type"] == "Unigram":
            model["byte_fallback"] = self.flag()
        self.summary.append(model["type"])
        return model

    def compose(self) -> dict:
        base = self.pick(MODELS)
        vocabulary = base["model"]["vocab"]
        if isinstance(vocabulary, list):
            vocabulary = {piece: i for i, (piece, _) in enumerate(vocabulary)}
        own = [t for t in base["added_tokens"] if t["content"] in vocabulary]
        return {
            "version": "1.0", "truncation": None, "padding": None,
            "added_tokens": own + self.added_tokens(set(vocabulary)),
            "normalizer": self.sequence(self.normalizer, "normalizers", 3),
            "pre_tokenizer": self.sequence(self.pre_tokenizer, "pretokenizers", 3),
            "post_processor": self.post_processor([[t, i] for t, i in list(vocabulary.items())[:4]]),
            "decoder": None, "model": self.model(base["model"]),
        }  # fmt: skip


def write(directory: Path, seed: int, number: int) -> str:
    """Writes composition `number` of a seed. Returns its parts."""
    composer = Composer(seed, number)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "tokenizer.json").write_text(json.dumps(composer.compose()))
    return ", ".join(composer.summary)
