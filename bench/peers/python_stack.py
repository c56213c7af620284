#!/usr/bin/env python3
"""python_stack.py MODEL TEXT OUT THREADS: writes the patterns of a sentence and the entropy of every head as JSON.
"""
import json
import sys

import torch
from transformers import AutoModel, AutoTokenizer


def main() -> None:
    path, text, out, threads = sys.argv[1:]
    torch.set_num_threads(int(threads))
    tokenizer = AutoTokenizer.from_pretrained(path)
    model = AutoModel.from_pretrained(path, attn_implementation="eager").eval()
    inputs = tokenizer(text, return_tensors="pt")
    with torch.inference_mode():
        attentions = model(**inputs, output_attentions=True).attentions
    patterns = torch.cat(attentions)  # [layers, heads, n, n]
    entropy = torch.special.entr(patterns).sum(-1).mean(-1)
    document = {"tokens": tokenizer.convert_ids_to_tokens(inputs["input_ids"][0]), "entropy": entropy.tolist(),
                "patterns": patterns.tolist()}  # fmt: skip
    with open(out, "w", encoding="utf-8") as file:
        json.dump(document, file)


if __name__ == "__main__":
    main()
