"""Writes tokenizer_files.json: directories of tokenizer files with the results of transformers: added tokens, and,
for directories without tokenizer.json, the parts of the tokenizer.json that it makes.

    python tests/golden/make_tokenizer_files.py
"""

import json
import tempfile
from pathlib import Path

from transformers import AutoTokenizer, BertTokenizer, GPT2Tokenizer, RobertaTokenizer

LINES = "[PAD]\n[UNK] \nab\r\n[CLS]\n[SEP]\nc\nab\n x\nd\n"
GENERATOR = {"a": 0, "b": 1, "ab": 2, "c": 3, "Ġ": 4, "X": 5, "Y": 6, "<|endoftext|>": 7}
ENCODER = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "a": 4, "b": 5, "ab": 6, "c": 7, "Ġ": 8, "<mask>": 9}


def token(content: str, **flags) -> dict:
    usual = dict.fromkeys(["single_word", "lstrip", "rstrip", "normalized", "special"], False)
    return {"content": content, **usual, **flags}


TOKENIZER = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [{"id": 4, **token("X", special=True)}],
    "normalizer": None,
    "pre_tokenizer": None,
    "post_processor": None,
    "decoder": None,
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "c": 3}, "merges": ["a b"]},
}


def typed(content: str, **flags) -> dict:
    return {"__type": "AddedToken", **token(content, **flags)}


CASES = [
    ("vocab.txt alone", BertTokenizer, {"vocab.txt": LINES}),
    (
        "vocab.txt with options and a map",
        BertTokenizer,
        {
            "vocab.txt": LINES,
            "tokenizer_config.json": {
                "do_lower_case": False,
                "strip_accents": True,
                "tokenize_chinese_chars": False,
                "cls_token": "c",
                "chat_template": "{% for x in range(10**9) %}{{ raise_exception() }}{% endfor %}",
            },
            "special_tokens_map.json": {
                "mask_token": {
                    "content": "<m>",
                    "lstrip": True,
                    "normalized": True,
                    "rstrip": False,
                    "single_word": False,
                }
            },
        },
    ),
    (
        "vocab.json of a generator",
        GPT2Tokenizer,
        {"vocab.json": GENERATOR, "merges.txt": "#version: 0.2\na b\n"},
    ),
    (
        "vocab.json of a generator, with tokens around the text",
        GPT2Tokenizer,
        {
            "vocab.json": GENERATOR,
            "merges.txt": "a b\r\n",
            "tokenizer_config.json": {
                "tokenizer_class": "GPT2Tokenizer",
                "bos_token": "X",
                "add_bos_token": True,
                "add_eos_token": True,
                "add_prefix_space": True,
            },
        },
    ),
    ("vocab.json of an encoder", RobertaTokenizer, {"vocab.json": ENCODER, "merges.txt": "a b\n"}),
    (
        "vocab.json of an encoder, whose mask takes the space",
        RobertaTokenizer,
        {
            "vocab.json": ENCODER,
            "merges.txt": "a b\n",
            "tokenizer_config.json": {
                "tokenizer_class": "RobertaTokenizerFast",
                "add_prefix_space": True,
                "trim_offsets": False,
                "mask_token": typed("<mask>", lstrip=True, special=True),
            },
        },
    ),
    ("tokenizer.json alone", AutoTokenizer, {"tokenizer.json": TOKENIZER}),
    (
        "tokenizer.json whose ids of added tokens do not count, nor those of the vocabulary in a row",
        AutoTokenizer,
        {
            "tokenizer.json": {
                **TOKENIZER,
                "model": {"type": "BPE", "vocab": {"a": 0, "b": 9, "ab": 20}, "merges": ["a b"]},
                "added_tokens": [
                    {"id": 30, **token("X", special=True)},
                    {"id": 9, **token("b")},
                    {"id": 31, **token("Y", rstrip=True)},
                    {"id": 32, **token("")},
                    {"id": 33, **token("X", lstrip=True)},
                    {"id": 34, **token("Z", special=True)},
                ],
            }
        },
    ),
    (
        "added_tokens_decoder, and a map that does not count then",
        AutoTokenizer,
        {
            "tokenizer.json": TOKENIZER,
            "tokenizer_config.json": {
                "added_tokens_decoder": {
                    "10": token("Y"),
                    "4": token("X", special=True),
                    "8": token("Z", special=True, rstrip=True),
                },
                "eos_token": "Y",
                "bos_token": "Q",
                "image_token": "I",
                "additional_special_tokens": ["E", typed("F", single_word=True)],
            },
            "special_tokens_map.json": {"pad_token": "P"},
        },
    ),
    (
        "a map that goes before the options, and added_tokens.json",
        AutoTokenizer,
        {
            "tokenizer.json": TOKENIZER,
            "tokenizer_config.json": {"eos_token": "Y", "bos_token": typed("Q")},
            "special_tokens_map.json": {
                "pad_token": "P",
                "eos_token": {
                    "content": "Z",
                    "lstrip": True,
                    "normalized": True,
                    "rstrip": False,
                    "single_word": False,
                },
                "additional_special_tokens": ["E"],
                "cls_token": "ab",
            },
            "added_tokens.json": {"W": 7, "V": 6},
        },
    ),
    (
        "extra tokens by name",
        AutoTokenizer,
        {
            "tokenizer.json": TOKENIZER,
            "tokenizer_config.json": {"extra_special_tokens": {"image_token": "I"}, "unk_token": None},
        },
    ),
]


def golden(name: str, kind: type, files: dict) -> dict:
    texts = {k: v if isinstance(v, str) else json.dumps(v, ensure_ascii=False) for k, v in files.items()}
    with tempfile.TemporaryDirectory() as directory:
        for file, text in {**texts, "config.json": "{}"}.items():
            (Path(directory) / file).write_bytes(text.encode())
        made = json.loads(kind.from_pretrained(directory).backend_tokenizer.to_str())
    row = {"name": name, "files": texts, "added_tokens": made["added_tokens"]}
    if "tokenizer.json" not in files:
        row["parts"] = {k: made[k] for k in ["normalizer", "pre_tokenizer", "post_processor"]}
    return row


def main() -> None:
    rows = [golden(*case) for case in CASES]
    out = Path(__file__).parent / "tokenizer_files.json"
    out.write_text("[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]\n")


if __name__ == "__main__":
    main()
