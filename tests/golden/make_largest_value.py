#!/usr/bin/env python3
"""Makes largest_value/golden.npz: the mean weight on the visible key with the largest value, and that of uniform
attention, for bare attention layers, one query at a time.

Patterns and scores are those of the layers' own golden.npz. Values are computed here from the weights.
"""
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
CASES = ("attention", "attention-masks", "attention-3d")  # full; causal and masks of each head; shared values


def values(weights, x, heads: int) -> np.ndarray:
    """Returns the values of every head [heads, n, v]."""
    w, b = weights["W_v"].astype(np.float64), weights["b_v"].astype(np.float64)
    if w.ndim == 2:
        w, b = np.stack(np.split(w, heads, axis=1)), np.stack(np.split(b, heads))
    shared = heads // len(w)
    return np.stack([x @ w[h // shared] + b[h // shared] for h in range(heads)])


def case(name: str) -> dict[str, np.ndarray]:
    weights, golden = np.load(HERE / name / "model.npz"), np.load(HERE / name / "golden.npz")
    heads = golden["pattern_0"].shape[1]
    weight, uniform = [[] for _ in range(heads)], [[] for _ in range(heads)]
    for index in range(sum(key.startswith("embeddings_") for key in golden.files)):
        v = values(weights, golden[f"embeddings_{index}"].astype(np.float64), heads)
        pattern, scores = golden[f"pattern_{index}"][0], golden[f"scores_{index}"][0]
        for h in range(heads):
            norms = np.linalg.norm(v[h], axis=1)
            for row, score in zip(pattern[h], scores[h]):
                visible = np.flatnonzero(score > -np.inf)
                if len(visible) == 0:
                    continue
                weight[h].append(row[visible[np.argmax(norms[visible])]])
                uniform[h].append(1 / len(visible))
    return {
        f"{name}_rows": np.array([len(each) for each in weight]),
        f"{name}_share": np.array([np.mean(each) for each in weight]),
        f"{name}_null_mean": np.array([np.mean(each) for each in uniform]),
    }


if __name__ == "__main__":
    np.savez(HERE / "largest_value" / "golden.npz", **{k: v for name in CASES for k, v in case(name).items()})
