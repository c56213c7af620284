"""Makes tokenizer_parts/normalizers.json with the reference (Hugging Face tokenizers, requirements.txt): what
each normalizer makes of strings, with the origin of every character, and a hash of what it makes of every
code point by itself, and of pairs with marks.

    python tests/golden/tokenizer_parts.py
"""

import json
import pathlib
import random
import unicodedata

from tokenizers import Tokenizer

HERE = pathlib.Path(__file__).resolve().parent / "tokenizer_parts"

BERT = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
        "lowercase": True}


def replace(kind, pattern, content):
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


def sequence(*parts):
    return {"type": "Sequence", "normalizers": list(parts)}


FORMS = [{"type": name} for name in ("NFC", "NFD", "NFKC", "NFKD")]
CONFIGS = FORMS + [
    {"type": "Lowercase"},
    {"type": "StripAccents"},
    {"type": "Nmt"},
    {"type": "Strip", "strip_left": True, "strip_right": True},
    {"type": "Strip", "strip_left": False, "strip_right": True},
    {"type": "Strip", "strip_left": True, "strip_right": False},
    BERT,
    BERT | {"clean_text": False},
    BERT | {"handle_chinese_chars": False},
    BERT | {"strip_accents": False},
    BERT | {"strip_accents": True, "lowercase": False},
    BERT | {"lowercase": False},
    replace("String", "a", "漢字"),
    replace("String", " ", "▁"),
    replace("String", "", "X"),
    replace("String", "a.", "$1"),
    replace("Regex", "a.", "$1\\0"),
    replace("Regex", "b*", "X"),
    replace("Regex", "[a-z]+", ""),
    replace("Regex", " {2,}", " "),
    {"type": "Prepend", "prepend": "▁"},
    {"type": "Prepend", "prepend": "éab"},
    {"type": "Prepend", "prepend": ""},
    {"type": "ByteLevel"},
    sequence(),
    sequence({"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"}),
    sequence({"type": "Prepend", "prepend": "▁"}, replace("String", " ", "▁")),
    sequence({"type": "NFD"}, sequence({"type": "NFC"}, BERT), replace("Regex", "a|e", "ß")),
]

# Goldens of every code point by itself.
SINGLE = [x for x in CONFIGS if x["type"] not in ("Replace", "Prepend", "Sequence")]
MARKS = "\u0301\u0327\u0345\u3099\u1161\u11a8\u0338"

ALPHABET = "abcABC xyzéÉüñ  \t\n\r\x00\x01.,!?漢字カか가각각①ﬁﬃ²ΣσςİıſßẞÅÅ\u200b\u200d\ufeff\ufffd\u2581" \
           "\u1680\u0344\u0f73\u0f81\u1734\u1171e😀👍🏽"
FIXED = ["a", "é", " ", "\n", "e\u0301x", "e\u0316\u0301x", "a\u0301\u0316b", "\u0344x", "\uac00\u11a8x",
         "\u1100\u1161\u11a8x", "ﬁx①", "\ufdfa\u0301x", "  a b ", "İxΣ", "Ae\u0301\u4e00\u4e01\x00b İ",
         "e\u200d\u0301\u0344x", "\u0301\u302e\u0301ab", "a\x01\ufeff\u200bb", "1abc2", "abba", "a\nb\n",
         "\U0002b820\U0002b81f\uf900"]


def strings():
    """The fixed ones, and random mixtures of letters, marks, and characters with decompositions."""
    random.seed(7)
    marks = [chr(c) for c in range(0x30000) if unicodedata.category(chr(c))[0] == "M"]
    decomposed = [chr(c) for c in range(0x30000) if unicodedata.decomposition(chr(c))]
    texts = list(FIXED)
    for _ in range(40):
        text = ""
        for _ in range(random.randint(1, 10)):
            kind = random.random()
            if kind < 0.5:
                text += random.choice(ALPHABET)
            elif kind < 0.75:
                text += random.choice(marks)
            else:
                text += random.choice(decomposed)
        texts.append(text)
    return texts


def tokenizer(config):
    """One token for each character: its offsets are where the character came from."""
    return Tokenizer.from_str(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": config,
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "[\\s\\S]"}, "behavior": "Isolated",
                          "invert": False},
        "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": {"u": 0}, "unk_token": "u"}}))


def fnv(texts):
    """FNV-1a, 64 bits, over the bytes of each text and a 0xFF behind it."""
    value = 0xCBF29CE484222325
    for text in texts:
        for byte in text.encode() + b"\xff":
            value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def main():
    points = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    texts = strings()
    rows = []
    for config in CONFIGS:
        made = tokenizer(config)
        row = {"config": config, "cases": []}
        for text, encoding in zip(texts, made.encode_batch(texts)):
            row["cases"].append({"text": text, "result": made.normalizer.normalize_str(text),
                                 "origins": [x for pair in encoding.offsets for x in pair]})
        if config in SINGLE:
            row["code_points"] = fnv(map(made.normalizer.normalize_str, points))
        if config in FORMS:
            row["pairs"] = fnv(made.normalizer.normalize_str(x + mark) for x in points[:0x2fa20] for mark in MARKS)
        rows.append(row)
    HERE.mkdir(exist_ok=True)
    lines = ",\n".join(json.dumps(row, ensure_ascii=True, separators=(",", ":")) for row in rows)
    document = f'{{"marks":{json.dumps(MARKS)},"normalizers":[\n{lines}\n]}}\n'
    (HERE / "normalizers.json").write_text(document)


if __name__ == "__main__":
    main()
