#!/usr/bin/env python3
"""Makes sinks/NAME/golden.npz: mean weights on keys (attention sinks), write ratios of heads and the largest values of
the residual stream, by their definitions; and the model sinks/planted/model, in which they are known.

transformers gives patterns, residual streams and the inputs of the value projections, in float64. The rest is NumPy.
"""
from pathlib import Path

import numpy as np
import torch
import transformers

from make_mixing import MODELS, run

HERE = Path(__file__).resolve().parent
SINKS = HERE / "sinks"
PLANTED = SINKS / "planted" / "model"
BARE = ("attention", "attention-masks", "attention-3d")  # full; causal and masks of each head; shared values
IDS = [3, 7, 12, 5, 19, 8, 2, 23, 11]  # different tokens, so that no two values of an embedding are equal
PLANTED_IDS = [0, 5, 12, 9, 19, 7, 2, 23, 11, 14, 3, 17, 8, 21, 6, 10]
RANKS = 3


def plant():
    """Writes a GPT-2 with planted heads. 0.0: sink at token 0. 0.1: W_O is 0. 0.2: sink at token 5. 0.3: even weights.
    Its first MLP adds 1500 or more to dimension 7 of token 0."""
    config = transformers.GPT2Config(vocab_size=24, n_positions=16, n_embd=32, n_layer=2, n_head=4, n_inner=8,
                                     bos_token_id=0, eos_token_id=0)
    torch.manual_seed(3)
    model = transformers.GPT2LMHeadModel(config)
    d, v = 32, 8
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.normal_(std=0.1)
        body = model.transformer
        body.wte.weight.normal_()
        body.wpe.weight.normal_(std=0.1)
        for table in (body.wte.weight, body.wpe.weight):
            table[:, :2] = 0
        body.wte.weight[0], body.wte.weight[5] = 0, 0
        body.wte.weight[0, 0], body.wte.weight[5, 1] = 8, 7
        first = body.h[0]
        for head, dimension in ((0, 0), (2, 1), (3, None)):
            queries, keys = slice(head * v, (head + 1) * v), slice(d + head * v, d + (head + 1) * v)
            first.attn.c_attn.weight[:, queries] = first.attn.c_attn.weight[:, keys] = 0
            first.attn.c_attn.bias[queries] = first.attn.c_attn.bias[keys] = 0
            if dimension is not None:  # the score is 3 sqrt(v) / v of the normalised dimension
                first.attn.c_attn.bias[head * v] = 1
                first.attn.c_attn.weight[dimension, d + head * v] = 3
        first.attn.c_proj.weight[v : 2 * v] = 0
        first.mlp.c_fc.weight[:, 0] = 0
        first.mlp.c_fc.weight[0, 0], first.mlp.c_fc.bias[0] = 2, -5
        first.mlp.c_proj.weight[0] = 0
        first.mlp.c_proj.weight[0, 7] = 300
    model.save_pretrained(PLANTED)
    (PLANTED / "generation_config.json").unlink(missing_ok=True)


def sinks(pattern, visible):
    """pattern [heads, n, m]; visible [heads, n, m]: whether the query may attend to the key."""
    found = {"first_weight": [], "null_weight": [], "weight": [], "position": []}
    for weights, seen in zip(pattern, visible):
        counts = seen.sum(axis=0)
        alpha = np.array([weights[seen[:, k], k].mean() if counts[k] else np.nan for k in range(len(counts))])
        allowed = np.flatnonzero((counts > 0) & (2 * counts >= counts.max()))
        best = allowed[np.argmax(alpha[allowed])]
        rivals = alpha[allowed[allowed != best]]
        assert (alpha[best] - rivals > 1e-6).all(), "two keys have the same weight in float32"
        found["first_weight"].append(alpha[0])
        found["null_weight"].append((1 / seen[seen[:, 0]].sum(axis=1)).mean() if counts[0] else np.nan)
        found["weight"].append(alpha[best])
        found["position"].append(best)
    return found


def write_ratios(layer):
    stream = np.linalg.norm(layer.stream, axis=1)
    return [(np.linalg.norm(layer.pattern[h] @ layer.f(h), axis=1) / stream).mean() for h in range(layer.heads)]


def activations(stream):
    sizes = np.abs(stream)
    order = np.argsort(-sizes, axis=None)[: RANKS + 1]
    largest = sizes.flat[order]
    assert (np.diff(largest) < -1e-5 * largest[1:]).all(), "two values have the same magnitude in float32"
    positions, dimensions = np.unravel_index(order[:RANKS], stream.shape)
    return {"value": stream[positions, dimensions], "activation_position": positions, "dimension": dimensions,
            "median": np.median(sizes)}


def model_golden(directory, model_class, ids):
    arrays = {"ids": np.array(ids)}
    made = []
    for layer in run(directory, model_class, ids):
        n = len(ids)
        causal = model_class is not transformers.BertModel
        visible = np.broadcast_to(np.tri(n, dtype=bool) if causal else np.ones((n, n), dtype=bool), layer.pattern.shape)
        made.append(sinks(layer.pattern, visible) | {"write_ratio": write_ratios(layer)} | activations(layer.stream))
    return arrays | {key: np.array([one[key] for one in made]) for key in made[0]}


def bare_golden(name):
    """Sinks of each input of a bare attention layer. A score of -inf marks a hidden key."""
    golden = np.load(HERE / name / "golden.npz")
    made = []
    for index in range(sum(key.startswith("embeddings_") for key in golden.files)):
        pattern, scores = golden[f"pattern_{index}"][0], golden[f"scores_{index}"][0]
        made.append(sinks(pattern, scores > -np.inf))
    return {key: np.array([one[key] for one in made]) for key in made[0]}


def save(name, arrays):
    directory = SINKS / name
    directory.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(directory / "golden.npz", **arrays)


if __name__ == "__main__":
    plant()
    for case, (path, kind) in MODELS.items():
        save(case, model_golden(path, kind, IDS))
    save("planted", model_golden(PLANTED, transformers.GPT2Model, PLANTED_IDS))
    for case in BARE:
        save(case, bare_golden(case))
