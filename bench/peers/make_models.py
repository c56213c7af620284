#!/usr/bin/env python3
"""Makes models with random float32 weights in the compared shapes, as `transformers` saves them.

    make_models.py FOLDER NAME...      writes FOLDER/NAME

NAME-changed is the model NAME after a small random change of all weights, as by a training.
"""
import sys
from pathlib import Path

import torch
from transformers import BertConfig, GPT2Config, LlamaConfig, AutoModel

CONFIGS = {
    "bert-base": lambda: BertConfig(max_position_embeddings=1024),
    "minilm": lambda: BertConfig(hidden_size=384, num_hidden_layers=6, intermediate_size=1536),
    "gpt2-small": lambda: GPT2Config(),
    "llama": lambda: LlamaConfig(hidden_size=768, num_hidden_layers=12, num_attention_heads=12,
                                 num_key_value_heads=4, intermediate_size=2048, vocab_size=32000,
                                 max_position_embeddings=32768),
}  # fmt: skip


def config_of(name: str):
    """Returns one of CONFIGS, or for bert-D-L: L layers of width D, with heads of 64."""
    if name in CONFIGS:
        return CONFIGS[name]()
    d, layers = map(int, name.split("-")[1:])
    return BertConfig(max_position_embeddings=1024, vocab_size=2000, hidden_size=d, num_hidden_layers=layers,
                      num_attention_heads=d // 64, intermediate_size=4 * d)


def main() -> None:
    folder, *names = sys.argv[1:]
    torch.set_num_threads(2)
    for name in names:
        torch.manual_seed(7)
        model = AutoModel.from_config(config_of(name.removesuffix("-changed")), dtype=torch.float32)
        if name.endswith("-changed"):
            with torch.no_grad():
                for weight in model.parameters():
                    weight += 0.002 * torch.randn_like(weight)
        model.save_pretrained(Path(folder) / name)


if __name__ == "__main__":
    main()
