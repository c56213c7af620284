#!/usr/bin/env python3
"""Compares the textbook's subspace analysis, in its literal form, with attnctl on the same weights, saved as NPZ.

check_textbook.py --attnctl build/attnctl [--d 512] [--heads 8]: ends with 1 if similarity or effective ranks differ
by more than 1e-4.
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

BOUND = 1e-4


def draw(d: int, heads: int, seed: int, specialised: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """W_q, W_k [heads, d, k]: normal draws of deviation sqrt(2 / (d + k)). Specialised heads are a second draw, with
    rows i d/h .. (i + 1) d/h of both matrices of head i multiplied by 3."""
    generator = torch.Generator().manual_seed(seed + specialised)
    k = d // heads
    W_q, W_k = (torch.randn(heads, d, k, generator=generator) * (2 / (d + k)) ** 0.5 for _ in range(2))
    if specialised:
        for i in range(heads):
            rows = slice(i * d // heads, (i + 1) * d // heads)
            W_q[i, rows] *= 3
            W_k[i, rows] *= 3
    return W_q, W_k


def analyse(W_q: torch.Tensor, W_k: torch.Tensor):
    """The function of the texts, in float64. Their float32 keeps rounding noise as singular values (472 for a rank of
    64), which changes the ranks in the sixth digit."""
    attention_matrices, effective_ranks, principal_directions = [], [], []
    for W_qi, W_ki in zip(W_q.double(), W_k.double()):
        A = W_qi @ W_ki.T
        attention_matrices.append(A)
        U, S, Vh = torch.linalg.svd(A)
        S_norm = S / S.sum()
        S_norm = S_norm[S_norm > 1e-10]
        entropy = -torch.sum(S_norm * torch.log(S_norm + 1e-10))
        effective_ranks.append(torch.exp(entropy).item())
        top = min(5, len(S))
        principal_directions.append({"left": U[:, :top], "singular_values": S[:top], "right": Vh[:top]})
    n = len(attention_matrices)
    similarity = torch.zeros(n, n, dtype=torch.float64)
    for i in range(n):
        for j in range(n):
            a, b = attention_matrices[i].flatten(), attention_matrices[j].flatten()
            similarity[i, j] = torch.dot(a, b) / (a.norm() * b.norm())
    return similarity, effective_ranks, principal_directions, attention_matrices


def directions_error(ours: list, theirs: list) -> float:
    """Largest difference of the rank-one parts s u v^T, which do not depend on signs, divided by the largest value."""
    worst = 0.0
    for mine, want in zip(ours, theirs):
        for t in range(len(mine["singular_values"])):
            left, right = torch.tensor(mine["left"][t]).double(), torch.tensor(mine["right"][t]).double()
            part = mine["singular_values"][t] * torch.outer(left, right)
            wanted = want["singular_values"][t] * torch.outer(want["left"][:, t], want["right"][t])
            worst = max(worst, ((part - wanted).abs().max() / wanted.abs().max()).item())
    return worst


def compare(attnctl: str, name: str, W_q: torch.Tensor, W_k: torch.Tensor) -> float:
    similarity, ranks, directions, matrices = analyse(W_q, W_k)
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "model.npz", W_q=W_q.numpy(), W_k=W_k.numpy())
        (Path(folder) / "config.json").write_text(json.dumps({"model_type": "attention", "heads": len(W_q)}))
        out = subprocess.run(
            [attnctl, "weights", folder, "--include", "weights,directions,circuits", "--format", "json"],
            check=True, capture_output=True,
        ).stdout  # fmt: skip
    document = json.loads(out)
    ours = next(x for x in document["subspace_similarity"] if x["circuit"] == "qk")
    ours_ranks = [x["qk_effective_rank"] for x in document["heads"]]
    formed = [torch.tensor(x["value"]).double() for x in document["circuits"] if x["circuit"] == "qk"]
    errors = {
        "similarity": np.abs(np.array(ours["similarity"]) - similarity.numpy()).max(),
        "effective rank": np.abs(np.array(ours_ranks) - np.array(ranks)).max(),
        "directions": directions_error(document["principal_directions"], directions),
        "matrices": max((a - b).abs().max().item() for a, b in zip(formed, matrices)),
    }
    off = similarity[~torch.eye(len(W_q), dtype=bool)]
    print(f"{name}: effective ranks {np.mean(ranks):.2f}, mean similarity {off.mean():+.5f}, "
          f"mean absolute {off.abs().mean():.5f}")  # fmt: skip
    print("  largest differences: " + ", ".join(f"{k} {v:.1e}" for k, v in errors.items()))
    return max(errors["similarity"], errors["effective rank"])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attnctl", required=True)
    parser.add_argument("--d", type=int, default=512)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    worst = 0.0
    for name, specialised in (("random", False), ("specialised", True)):
        weights = draw(options.d, options.heads, options.seed, specialised)
        worst = max(worst, compare(options.attnctl, name, *weights))
    sys.exit(1 if worst > BOUND else 0)


if __name__ == "__main__":
    main()
