"""Trains small SentencePiece models (sentencepiece/NAME.model) and writes the library's results for texts
(sentencepiece/golden.json).

    python tests/golden/make_sentencepiece.py
"""

import json
import os
import random
from pathlib import Path

import sentencepiece

HERE = Path(__file__).parent
OUT = Path("sentencepiece")
SEED = 7
EVERYWHERE = {"input": "tokenizers/training.txt", "minloglevel": 2, "hard_vocab_limit": False}
MODELS = {
    "bpe-bytes": {
        "model_type": "bpe",
        "vocab_size": 560,
        "byte_fallback": True,
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
        "split_digits": True,
        "character_coverage": 0.99,
    },
    "bpe-defined": {
        "model_type": "bpe",
        "vocab_size": 300,
        "normalization_rule_name": "identity",
        "user_defined_symbols": ["@@", "<sep>"],
        "control_symbols": ["<ctl>"],
        "character_coverage": 0.98,
    },
    "unigram": {"model_type": "unigram", "vocab_size": 320, "normalization_rule_name": "identity"},
    "unigram-bytes": {
        "model_type": "unigram",
        "vocab_size": 560,
        "byte_fallback": True,
        "normalization_rule_name": "identity",
        "add_dummy_prefix": False,
        "character_coverage": 0.99,
    },
    "unigram-spaces": {
        "model_type": "unigram",
        "vocab_size": 340,
        "normalization_rule_name": "identity",
        "split_by_whitespace": False,
        "remove_extra_whitespaces": False,
    },
    "unigram-rules": {"model_type": "unigram", "vocab_size": 320, "normalization_rule_tsv": "rules.tsv"},
}
# Maps code points: a ligature, a full-width letter, an accent to compose, some spaces.
RULES = "FB01\t66 69\nFF21\t41\n65 301\tE9\n9\t20\nA\t20\n3000\t20\nA0\t20\nBD\t31 2044 32\nAD\t\n"
FIXED = ["", " ", "   ", "a", " a", "a ", "  two  spaces  ", "a@@b@@ c<sep>d", "café e\u0301 ﬁ Ａ ½ \u3000x", "中文😀", "aaa"]


def texts() -> list[str]:
    lines = (HERE / "tokenizers" / "training.txt").read_text().splitlines()
    generator = random.Random(SEED)
    made = []
    for _ in range(60):
        line = generator.choice(lines)
        begin = generator.randrange(len(line))
        text = line[begin : begin + generator.randrange(1, 60)]
        place = generator.randrange(len(text) + 1)
        text = text[:place] + generator.choice(["", "", "  ", "é", "Ж", "▁", "🤖", " ", "1234"]) + text[place:]
        made.append(text)
    return FIXED + made


def main() -> None:
    os.chdir(HERE)  # the models contain their file names
    OUT.mkdir(exist_ok=True)
    rules = OUT / "rules.tsv"
    rules.write_text(RULES)
    rows = {}
    for name, options in MODELS.items():
        if "normalization_rule_tsv" in options:
            options = {**options, "normalization_rule_tsv": str(rules)}
        sentencepiece.SentencePieceTrainer.train(**EVERYWHERE, **options, model_prefix=str(OUT / name))
        (OUT / f"{name}.vocab").unlink()
        model = sentencepiece.SentencePieceProcessor(model_file=str(OUT / f"{name}.model"))
        rows[name] = [model.encode(text) for text in texts()]
    rules.unlink()
    given = json.dumps(texts(), ensure_ascii=False)
    lines = [f'"texts": {given}'] + [f"{json.dumps(name)}: {json.dumps(ids)}" for name, ids in rows.items()]
    (OUT / "golden.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
