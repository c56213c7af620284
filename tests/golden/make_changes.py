#!/usr/bin/env python3
"""Makes changes/NAME.npz: the changes of heads from the golden model NAME to a copy whose attention matrices are edited.

Circuits are dense matrices [d, d] in float64; angles between subspaces are those of SciPy.
"""
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from scipy.linalg import subspace_angles

HERE = Path(__file__).resolve().parent
# The names of the query, key, value and output matrices of a layer; whether they are stored as [out, in]; the number of
# layers, of heads and of key/value heads.
CASES = {
    "llama": (["model.layers.{}.self_attn." + p + "_proj.weight" for p in "qkvo"], True, 2, 6, 2),
    "bert": (
        ["bert.encoder.layer.{}.attention." + p + ".weight"
         for p in ("self.query", "self.key", "self.value", "output.dense")], True, 2, 3, 3),
    "gpt2": (["transformer.h.{}.attn.c_attn.weight"] * 3 + ["transformer.h.{}.attn.c_proj.weight"], False, 2, 3, 3),
}


def edited(tensor: np.ndarray) -> np.ndarray:
    rows, columns = np.indices(tensor.shape)
    return tensor + ((7 * rows + 13 * columns) % 11 - 5).astype(np.float32) / np.float32(512)


def projections(tensors, names, by_output, layer, heads, kv_heads):
    """Returns W_Q, W_K, W_V and W_O^T of each head, each [d, width]."""
    stored = [tensors[name.format(layer)].astype(np.float64) for name in names]
    matrices = [each.T if by_output else each for each in stored]
    if names[0] == names[1]:
        matrices[:3] = np.split(matrices[0], 3, axis=1)
    matrices[3] = matrices[3].T
    counts = (heads, kv_heads, kv_heads, heads)
    split = [np.split(matrix, count, axis=1) for matrix, count in zip(matrices, counts)]
    return [[each[h * len(each) // heads] for each in split] for h in range(heads)]


def change(a, b) -> float:
    return 2 * np.linalg.norm(b - a) / (np.linalg.norm(a) + np.linalg.norm(b))


def effective_rank(values) -> float:
    p = values / values.sum()
    p = p[p > 0]
    return np.exp(-(p * np.log(p)).sum())


def case(name: str) -> dict[str, np.ndarray]:
    names, by_output, layers, heads, kv_heads = CASES[name]
    a = load_file(HERE / name / "model.safetensors")
    attention = {each.format(layer) for each in names for layer in range(layers)}
    b = {key: edited(value) if key in attention else value for key, value in a.items()}
    arrays = {}

    def put(key, layer, head, value):
        arrays.setdefault(key, np.zeros((layers, heads)))[layer, head] = value

    for layer in range(layers):
        of = [projections(tensors, names, by_output, layer, heads, kv_heads) for tensors in (a, b)]
        for head in range(heads):
            x, y = of[0][head], of[1][head]
            for circuit, (left, right) in {"qk": (0, 1), "ov": (2, 3)}.items():
                whole = [each[left] @ each[right].T for each in (x, y)]
                width = x[left].shape[1]
                spectra = [np.linalg.svd(each, compute_uv=False)[:width] for each in whole]
                put(f"{circuit}_change", layer, head, change(*whole))
                put(f"{circuit}_spectrum", layer, head, change(*spectra))
                for model, spectrum in zip("ab", spectra):
                    put(f"{circuit}_rank_{model}", layer, head, effective_rank(spectrum))
            for projection, u, v in zip(("w_q", "w_k", "w_v", "w_o"), x, y):
                angles = subspace_angles(u, v)
                put(f"{projection}_change", layer, head, change(u, v))
                put(f"{projection}_largest_angle", layer, head, angles.max())
                put(f"{projection}_smallest_angle", layer, head, angles.min())
    return arrays


if __name__ == "__main__":
    for name in CASES:
        np.savez(HERE / "changes" / f"{name}.npz", **case(name))
