#!/usr/bin/env python3
"""Write data/dna-attention.json, data/dna.jsonl and data/dna-grid.npy. Needs only Python.

An example of sequences other than text: two strands of DNA of different lengths, and a layer of two heads. Head 0 is
constructed so that each base attends to the bases with which it pairs. Head 1 is random. Nothing is trained.
"""

import argparse
import json
import random
import struct
from pathlib import Path

from make_attention_demo import normal_matrix, one_row_per_line

SEED = 16
VOCABULARY = ["[PAD]", "[CLS]", "A", "C", "G", "T"]
PAIRS = {"A": "T", "C": "G", "G": "C", "T": "A"}
D_HEAD = 4
GAIN = 3.0  # size of the constructed queries and keys: the score of a pair is GAIN * GAIN / sqrt(D_HEAD) = 4.5
NOTE = ("Head 0 is built so that a base looks at those it pairs with; head 1 and the values are random "
        "draws of a seeded generator (scripts/make_dna_attention.py). Nothing is trained.")
STRANDS = {"tata": "TATAAAGGCGCC", "gc": "GGGCGG"}
GRID = ["TATAAA", "TATATA", "TTTAGC"]  # three strands of one length below each other, for axial attention


def pairing(read: dict[str, int]) -> list[list[float]]:
    """Returns [V, D_HEAD]: GAIN if a token reads a channel, otherwise 0."""
    return [[GAIN if read.get(token) == channel else 0.0 for channel in range(D_HEAD)]
            for token in VOCABULARY]


def beside(first: list[list[float]], second: list[list[float]]) -> list[list[float]]:
    return [a + b for a, b in zip(first, second)]


def model() -> dict:
    """The embedding is the identity, so each row of a projection belongs to a token."""
    draw = random.Random(SEED)
    size = len(VOCABULARY)
    channel = {base: number for number, base in enumerate(PAIRS)}
    asked = {base: channel[pair] for base, pair in PAIRS.items()}
    return {"config": {"model_type": "attention", "heads": 2, "cls_token_id": 1, "pad_token_id": 0, "note": NOTE,
                       "vocab": VOCABULARY},
            "W_q": beside(pairing(asked), normal_matrix(draw, size, D_HEAD, 0.5)),
            "W_k": beside(pairing(channel), normal_matrix(draw, size, D_HEAD, 0.5)),
            "W_v": normal_matrix(draw, size, 2 * D_HEAD, 0.5),
            "W_o": normal_matrix(draw, 2 * D_HEAD, size, 0.5),
            "embedding": [[float(row == column) for column in range(size)] for row in range(size)]}


def sequences() -> str:
    """Pads the sequences to the same length. The mask is 0 for padding keys."""
    longest = 1 + max(len(strand) for strand in STRANDS.values())
    lines = []
    for name, strand in STRANDS.items():
        tokens = ["[CLS]", *strand]
        padding = longest - len(tokens)
        lines.append(json.dumps({"id": name, "tokens": tokens + ["[PAD]"] * padding,
                                 "mask": [1] * len(tokens) + [0] * padding}) + "\n")
    return "".join(lines)


def grid() -> bytes:
    """Returns an .npy file of shape [rows, columns, V] (float32): the embeddings of GRID, which are one-hot."""
    shape = (len(GRID), len(GRID[0]), len(VOCABULARY))
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
    header = header.ljust(128 - 10 - 1) + "\n"  # magic, version and length take 10 bytes
    numbers = [float(token == base) for row in GRID for base in row for token in VOCABULARY]
    return (b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
            + struct.pack(f"<{len(numbers)}f", *numbers))


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the DNA example.")
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parent.parent / "data")
    folder = parser.parse_args().data
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dna-attention.json").write_text(one_row_per_line(model()), encoding="utf-8")
    (folder / "dna.jsonl").write_text(sequences(), encoding="utf-8")
    (folder / "dna-grid.npy").write_bytes(grid())


if __name__ == "__main__":
    main()
