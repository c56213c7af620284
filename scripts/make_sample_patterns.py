#!/usr/bin/env python3
"""Write data/patterns.npz: the attention patterns of data/tiny-bert on one sentence, computed by transformers.

Needs torch 2.13, transformers 5.23 and NumPy 2.4 (the versions that made the bundled file). Building and testing attnctl
do not need this script. The arrays are arr_0, arr_1, ... [batch, heads, queries, keys], one per layer, and tokens.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

DATA = Path(__file__).resolve().parent.parent / "data"
TEXT = "The animal didn't cross the street because it was too tired."


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the bundled file of attention patterns.")
    parser.add_argument("--out", type=Path, default=DATA / "patterns.npz")
    out = parser.parse_args().out
    tokenizer = AutoTokenizer.from_pretrained(DATA / "tiny-bert")
    model = AutoModel.from_pretrained(DATA / "tiny-bert", attn_implementation="eager", dtype=torch.float32).eval()
    inputs = tokenizer(TEXT, return_tensors="pt")
    with torch.no_grad():
        attentions = model(**inputs, output_attentions=True).attentions
    tokens = tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])
    np.savez_compressed(out, *[layer.numpy() for layer in attentions], tokens=np.array(tokens))


if __name__ == "__main__":
    main()
