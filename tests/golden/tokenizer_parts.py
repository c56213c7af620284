"""Makes tokenizer_parts/ with the reference (Hugging Face tokenizers, requirements.txt).

- normalizers.json: the result of each normalizer for strings, with the origin of every character, and hashes of its results for
  every code point and for pairs with marks.
- regex.json: matches of regular expressions in strings, and hashes of the sets of code points that they match.
- classes.json: hashes of the sets of code points that other parts use.

    python tests/golden/tokenizer_parts.py
"""

import base64
import json
import pathlib
import random
import unicodedata

from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers

import charsmap

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
    replace("Regex", "^", "é"),
    replace("Regex", "$", "é"),
    replace("Regex", "b*", "X"),
    replace("Regex", "[a-z]+", ""),
    replace("Regex", " {2,}", " "),
    {"type": "Prepend", "prepend": "▁"},
    {"type": "Prepend", "prepend": "éab"},
    {"type": "Prepend", "prepend": ""},
    {"type": "ByteLevel"},
    {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap.sample()).decode()},
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
         "\U0002b820\U0002b81f\uf900", "\x01ab", "a\x01b\x01", "½\x01x", "\x01\x07é½z", "A\u030a\u0301x", "a\r\nb",
         "½\u1acf", "plain text, long enough\x01½", "\u1112\u1161\u11abx", "©\u200d…\u0301"]


def strings():
    """The fixed strings, and random mixtures of letters, marks, and characters with decompositions."""
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
    """A tokenizer with one token per character, whose offsets are the origin of the character."""
    return Tokenizer.from_str(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": config,
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "[\\s\\S]"}, "behavior": "Isolated",
                          "invert": False},
        "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": {"u": 0}, "unk_token": "u"}}))


def fnv(texts):
    """FNV-1a, 64 bits, over the bytes of each text and a 0xFF after it."""
    value = 0xCBF29CE484222325
    for text in texts:
        for byte in text.encode() + b"\xff":
            value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def normalizer_goldens(points):
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
    return {"marks": MARKS, "normalizers": rows}


CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LETTERS = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
SMALL = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
BEFORE = r"[^\r\n\p{L}\p{N}]?"
END = r"|\s+(?!\S)|\s+"
# Pre-tokenizer expressions of well-known models.
KNOWN = [
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+" + END,
    CONTRACTIONS + "|" + BEFORE + r"\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+" + END,
    CONTRACTIONS + "|" + BEFORE + r"\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+" + END,
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]" + END,
    BEFORE + LETTERS + "*" + SMALL + "+" + CONTRACTIONS + "?|" + BEFORE + LETTERS + "+" + SMALL + "*" + CONTRACTIONS
    + r"?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+" + END,
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
    r"|\s*[\r\n]+" + END,
    r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",
    r" ?[^(\s|[.,!?…。，、।۔،])]+",
    r"\s?[!-/:-~！-／：-～‘-‟　-。]+",
    r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", "[0-9][0-9][0-9]", "[\r\n]", r"\s+", " {2,}", r"[^\s]+", r"\s+$", r"\d",
]
PATTERNS = KNOWN + [
    "", "a", "b*", "(?=b)", "b*?", "a|", "^", "$", r"\A", r"\z", r"\Z", r"\s+\Z", r"^\s*\w", r"\w+$", r"a\z",
    ".", "(?m:.)", ".*", r"\N", r"\O", r"\R", r"\h+", r"\b\w+\b", r"\B.", r"\w", r"\W+", r"[\w]", r"[^\w]", r"[\W]",
    r"\p{^L}+", r"\P{L}+", r"\P{^L}+", r"\p{ l }", r"\p{lu}", r"\p{Uppercase_Letter}",
    "(?i:[sdmt])", "(?i:[a-z]+)", "(?i:[^a-z]+)", "(?i:k|s)", "(?i)É", "(?i)[äöü]", "a(?i)b|c", "(?-i:a)", "(?im)a.",
    "(?i-m:a)", r"(?i)\p{Lu}", r"(?i)\w",
    "a{,2}", "a{2}", "a{2}?", "a{2}?b?", "a{2,3}?", "a{1,2}+", "a{,}", "a{", "a{b}", "a++a", "a*+", "a?+a", "(?>a+)a",
    "(?:a*)*b", "()*a", "(?:a+)?b", "(?:ab|a)(?:c|bcd)", "(?:a|b)*?c", r"(a)\1", r"(\w)\1", "(?<w>a)(b)|c",
    "(?#comment)a", r"(?<=\s)\S+", r"(?<!\w)\d+", "(?<=a|bc)d", "(?<!a|bc)d", r"\d{3}(?=\d)", r"(?=(\d{3})+(?!\d))",
    r"\x41\u0042\x{43}", r"\0", r"\t\v\f\a\e", r"[\b]", r"\/\-\é", "[a-c-e]", "[]a]", "[^]a]", "[a[bc]d]", "[[^a]b]",
    "[a&&b]", "[a-c&&b-d]", "[^a-c&&b-d]", "[&&]", "[a-z&&[^aeiou]]", "[a-c&&b&&b-d]", "[-a]", "[a-]", "[--a]",
    "[[.a.]]", r"[\w&&[^a]]", r"[^\s\S]", r"[\x41-\x43]", r"[\p{Lu}\p{Lo}&&[^\p{Han}]]+", "[[:^alpha:][:digit:]]",
]
SETS = [rf"\p{{{name}}}" for name in (
    "L", "M", "N", "P", "S", "Z", "C", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Nd", "No", "So", "LC", "Cn", "Han",
    "Latin", "Common", "Arabic", "Cyrillic", "Hiragana", "Inherited", "Assigned", "Alphabetic", "Punct")]
SETS += [f"[[:{name}:]]" for name in ("alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print",
                                      "punct", "space", "upper", "word", "xdigit")]
SETS += [r"\w", r"\s", r"\d", r"\h", r"[\w]", "."]
TEXTS = ["abba", "a\nb\n", "\n\n", "aaaaa", "abcabcd", "ad bcd d", "-a-c.&[]", "'s'S'ſ'K it's IT'LL we'Re",
         "1234567 12²½Ⅷ", "A1\r\nB \r\n\r\n  c", "\x00\x07\x08\t\v\f\x1b", "ABC/-é", "straße KÅÉé ÄÖÜ", "漢字かなABC!",
         "<|startoftext|>x", "a{,}a{b}a{"]
LETTERS_OF_TEXTS = "aabbccdsStTreREveVElLLMmkK ''\u2019  \t\n\n\r\r\n\x0b\x0c\x85\u00a0\u2028\u3000123４٣²½Ⅷ①éÉßſKÅ" \
                   "\u0301\u0308漢字かカ한!?.,-_/\\()[]{}<>|@#$%^&*+=~`\"。、！😀\u200dÀΣσςžДд\u01c5\u02b0ª\u0915\u094d" \
                   "\u0937\x00\x7f\ufeff\u200b\u0378\u0897\U00010d50\U0002ebf0xyz"
MATCH = "\U0010FFFD"  # replaces each match


def members(split, text, points):
    """Returns 0 or 1 for each character of the text: 1 if a Split that removes its matches removes the character."""
    found = bytearray(b"1" * len(points))
    for _, (begin, end) in split.pre_tokenize_str(text):
        found[begin:end] = b"0" * (end - begin)
    return found.decode()


def regex_goldens(points):
    random.seed(11)
    texts = list(TEXTS)
    for _ in range(24):
        texts.append("".join(random.choice(LETTERS_OF_TEXTS) for _ in range(random.randint(4, 20))))
    rows = [{"pattern": pattern,
             "replaced": [normalizers.Replace(Regex(pattern), MATCH).normalize_str(text) for text in texts]}
            for pattern in PATTERNS]
    sets = []
    text = "".join(points)
    for pattern in SETS:
        split = pre_tokenizers.Split(Regex(pattern), "removed")
        sets.append({"pattern": pattern, "members": fnv([members(split, text, points)])})
    return {"match": MATCH, "texts": texts, "patterns": rows, "sets": sets}


def class_goldens(points):
    def ends(split, expected):
        """Returns 1 if the character begins a new piece after `a`."""
        return fnv(["".join("1" if len(split.pre_tokenize_str("a" + x)) == expected else "0" for x in points)])

    def of_regex(pattern):
        return fnv([members(pre_tokenizers.Split(Regex(pattern), "removed"), "".join(points), points)])

    words = pre_tokenizers.Whitespace()
    return {
        "white_space": fnv([members(pre_tokenizers.WhitespaceSplit(), "".join(points), points)]),
        "bert_punctuation": ends(pre_tokenizers.Punctuation(), 2),
        "word": fnv(["".join("1" if words.pre_tokenize_str("a" + x)[0][1] == (0, 2) else "0" for x in points)]),
        "number": ends(pre_tokenizers.Digits(), 2),
        "regex_letter": of_regex(r"\p{L}"),
        "regex_number": of_regex(r"\p{N}"),
        "regex_capital": of_regex(LETTERS),
        "regex_small": of_regex(SMALL),
    }


def write(name, document):
    """Writes a list with one line per row."""
    parts = []
    for key, value in document.items():
        if isinstance(value, list):
            lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in value)
            parts.append(f"{json.dumps(key)}:[\n{lines}\n]")
        else:
            parts.append(f"{json.dumps(key)}:{json.dumps(value)}")
    (HERE / name).write_text("{" + ",\n".join(parts) + "}\n")


def main():
    HERE.mkdir(exist_ok=True)
    points = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    write("regex.json", regex_goldens(points))
    write("classes.json", class_goldens(points))
    write("normalizers.json", normalizer_goldens(points))


if __name__ == "__main__":
    main()
