"""Writes rotary.json: inverse frequencies and attention factors computed by transformers, in float32.

venv/bin/python tests/golden/make_rotary.py

torch's vector kernels round a few powers differently (5 of 128 at theta 150000), depending on the CPU. Its scalar
kernels use powf of the C library, as attnctl does.
"""
import json
import os
from pathlib import Path

os.environ["ATEN_CPU_CAPABILITY"] = "default"  # must be set before torch is imported
import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=8192)  # fmt: skip
LONG = dict(rope_type="longrope", short_factor=[1 + j / 7 for j in range(8)], long_factor=[2 + j**1.5 for j in range(8)])


def sizes(heads=2, d_head=64, positions=2048):
    return dict(hidden_size=heads * d_head, num_attention_heads=heads, max_position_embeddings=positions)


def case(theta=10000.0, heads=2, d_head=64, positions=2048, **scaling):
    return sizes(heads, d_head, positions) | dict(
        rope_parameters=dict(rope_theta=theta, **(scaling or dict(rope_type="default"))))  # fmt: skip


def keys(**config):
    """Returns old and new keys together, unchanged."""
    return sizes(d_head=8) | config


NEW = dict(rope_type="linear", factor=4.0, rope_theta=81.0)


CASES = [
    case(d_head=8), case(d_head=48), case(d_head=128), case(theta=500000.0, d_head=128), case(theta=333.0, d_head=10),
    case(theta=1000000.0, d_head=80), case(theta=10000000.0, d_head=256), case(theta=1.5, d_head=6),
    case(rope_type="linear", factor=4.0), case(rope_type="linear", factor=2.5, d_head=80),
    case(theta=500000.0, d_head=128, positions=131072, **LLAMA3),
    case(theta=500000.0, d_head=64, positions=131072, **(LLAMA3 | dict(factor=32.0))),
    case(rope_type="yarn", factor=4.0, original_max_position_embeddings=2048, d_head=128, positions=8192),
    case(rope_type="yarn", factor=32.0, original_max_position_embeddings=4096, theta=150000.0, truncate=False),
    case(rope_type="yarn", factor=40.0, mscale=0.707, mscale_all_dim=1.0, original_max_position_embeddings=4096),
    case(rope_type="yarn", factor=1.0, original_max_position_embeddings=16, d_head=10, beta_fast=8, beta_slow=0.5),
    case(d_head=16, positions=4096, original_max_position_embeddings=256, **LONG),
    case(d_head=16, positions=4096, original_max_position_embeddings=256, factor=3.0, **LONG),
    case(d_head=16, positions=4096, original_max_position_embeddings=256, attention_factor=1.25, **LONG),
    keys(), keys(rope_theta=16.0), keys(rope_theta=16.0, rope_parameters={}, rope_scaling=None),
    keys(rope_theta=16.0, rope_parameters=dict(rope_theta=81.0)),
    keys(rope_theta=16.0, rope_parameters=dict(rope_type="linear", factor=2)),
    keys(rope_theta=16.0, rope_scaling=dict(type="linear", factor=2)),
    keys(rope_parameters=NEW, rope_scaling=None), keys(rope_parameters=NEW, rope_scaling={}, rope_theta=16.0),
    keys(rope_parameters=NEW, rope_scaling=dict(type="default")),
    keys(rope_parameters=NEW, rope_scaling=dict(type="linear", factor=2.0)),
    keys(rope_parameters=NEW, rope_scaling=dict(type="linear", factor=2.0), rope_theta=16.0),
    keys(rope_parameters=NEW, rope_scaling=dict(rope_type="linear", type="default", factor=2.0, rope_theta=256.0)),
]  # fmt: skip


def reference(config: dict) -> dict:
    resolved = LlamaConfig(**json.loads(json.dumps(config)))
    rotary = LlamaRotaryEmbedding(resolved)
    result = dict(
        config=config, inverse_frequency=rotary.inv_freq.double().tolist(),
        attention_factor=torch.tensor(rotary.attention_scaling, dtype=torch.float32).item(),
    )  # fmt: skip
    if rotary.rope_type == "longrope":
        original = resolved.rope_parameters["original_max_position_embeddings"]
        long, _ = ROPE_INIT_FUNCTIONS["longrope"](resolved, seq_len=original + 1)
        result |= dict(long_inverse_frequency=long.double().tolist(), long_from=original)
    return result


if __name__ == "__main__":
    path = Path(__file__).parent / "rotary.json"
    path.write_text("[\n" + ",\n".join(json.dumps(reference(c)) for c in CASES) + "\n]\n")
