"""Properties of random heads, computed by NumPy with its own random numbers: heads.json.

Means and standard deviations over 40 draws of a layer, for tests/textbook/heads_test.cpp.
"""

import json
import pathlib

import numpy as np

D, N, DRAWS = 128, 64, 40
HEADS = [1, 2, 8, 32]


def effective_rank(matrix):
    s = np.linalg.svd(matrix, compute_uv=False)
    p = s[s > 1e-12 * s[0]]
    p = p / p.sum()
    return np.exp(-(p * np.log(p)).sum())


def pattern(q, k):
    s = q @ k.T / np.sqrt(q.shape[1])
    e = np.exp(s - s.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def draw(rng, heads):
    k = D // heads
    x = rng.standard_normal((N, D))
    w_q, w_k = rng.standard_normal((2, D, D)) / np.sqrt(D)
    parts = [slice(i * k, (i + 1) * k) for i in range(heads)]
    ranks = [effective_rank(w_q[:, p] @ w_k[:, p].T) for p in parts]
    patterns = [pattern(x @ w_q[:, p], x @ w_k[:, p]) for p in parts]
    distances = [np.abs(a - b).sum(axis=1).mean() / 2 for i, a in enumerate(patterns) for b in patterns[:i]]
    return np.mean(ranks), np.mean(distances) if distances else np.nan


def main():
    rng = np.random.default_rng(0)
    rows = []
    for heads in HEADS:
        draws = np.array([draw(rng, heads) for _ in range(DRAWS)])
        mean, deviation = draws.mean(axis=0), draws.std(axis=0)
        rows.append({"heads": heads, "qk_effective_rank": mean[0], "qk_effective_rank_deviation": deviation[0],
                     "pattern_distance": None if heads == 1 else mean[1],
                     "pattern_distance_deviation": None if heads == 1 else deviation[1]})
    document = {"d": D, "length": N, "rows": rows}
    pathlib.Path(__file__).with_name("heads.json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
