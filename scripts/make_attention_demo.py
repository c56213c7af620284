#!/usr/bin/env python3
"""Write data/attention-demo.json, data/sentences.jsonl and data/sentences.txt. Needs only Python.

The demo is bare multi-head attention in a readable file: four heads over the words of three sentences, with random
weights.
"""

import argparse
import json
import math
import random
import re
from pathlib import Path

from sample_models.corpus import SENTENCES

SEED = 7
HEADS = 4
D_MODEL = 16
NOTE = ("Embedding and projections are random draws of a seeded generator "
        "(scripts/make_attention_demo.py): they show the mechanism and have learned nothing.")


def words(sentence: str) -> list[str]:
    """Splits text into words (contractions stay whole) and punctuation marks."""
    return re.findall(r"\w+(?:'\w+)?|[^\w\s]", sentence)


def normal_matrix(draw: random.Random, rows: int, columns: int, deviation: float) -> list[list[float]]:
    return [[round(draw.gauss(0.0, deviation), 4) for _ in range(columns)] for _ in range(rows)]


def demo() -> dict:
    """Uses the row-vector convention: W_q, W_k, W_v [d, heads * k], W_o [heads * k, d], embedding [V, d]."""
    draw = random.Random(SEED)
    vocabulary = list(dict.fromkeys(word for _, text in SENTENCES for word in words(text)))
    spread = math.sqrt(2 / (D_MODEL + D_MODEL // HEADS))  # initialisation of the textbooks
    weights = {"config": {"model_type": "attention", "heads": HEADS, "position": "sinusoidal",
                          "note": NOTE, "vocab": vocabulary}}
    for name in ("W_q", "W_k", "W_v", "W_o"):
        weights[name] = normal_matrix(draw, D_MODEL, D_MODEL, spread)
    weights["embedding"] = normal_matrix(draw, len(vocabulary), D_MODEL, 1.0)
    return weights


def one_row_per_line(weights: dict) -> str:
    parts = []
    for name, value in weights.items():
        if name == "config":
            lines = (f"  {json.dumps(key)}: {json.dumps(one)}" for key, one in value.items())
            body = "{\n" + ",\n".join(lines) + "\n}"
        else:
            body = "[\n" + ",\n".join("  " + json.dumps(row) for row in value) + "\n]"
        parts.append(f"{json.dumps(name)}: {body}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the bare-attention demo.")
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parent.parent / "data")
    folder = parser.parse_args().data
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "attention-demo.json").write_text(one_row_per_line(demo()), encoding="utf-8")
    lines = [json.dumps({"id": name, "tokens": words(text)}) + "\n" for name, text in SENTENCES]
    (folder / "sentences.jsonl").write_text("".join(lines), encoding="utf-8")
    (folder / "sentences.txt").write_text("".join(text + "\n" for _, text in SENTENCES), encoding="utf-8")


if __name__ == "__main__":
    main()
