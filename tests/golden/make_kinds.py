"""Kinds of attention by their definitions, with PyTorch in float64: window, block and strided with dense masks,
linear by its dense formula, axial with explicit loops over columns and rows.

    python tests/golden/make_kinds.py

writes tests/golden/kinds: model/ (family `attention`, 2 heads), and golden.npz with
    x [n, d], key_mask [n]                        the input, and the visible keys of the arrays named "padded"
    KIND[_causal][_padded]_pattern [heads, n, n]  KIND is window_4, linear, ...
    KIND[_causal][_padded]_output [n, d]
    grid [N, L, d], column_pattern [L, heads, N, N], row_pattern [N, heads, L, L], column_output [L, N, d],
    row_output [N, L, d], and the same with the suffix _causal. The row pass reads x + the output of the column pass.
"""
import itertools
import json
from pathlib import Path

import numpy as np
import torch

HEADS, D, K, V, N = 2, 6, 3, 4, 13
KINDS = ["full", "window:1", "window:4", "block:5", "strided:3", "strided:5", "linear"]


def visible(kind: str, n: int, causal: bool, key_mask) -> torch.Tensor:
    """Returns [n, n], True if query i may attend to key j."""
    name, _, size = kind.partition(":")
    i, j = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij")
    s = int(size or 1)
    rules = {
        "full": torch.ones(n, n, dtype=torch.bool),
        "linear": torch.ones(n, n, dtype=torch.bool),
        "window": (i - j).abs() < s,
        "block": torch.div(i, s, rounding_mode="floor") == torch.div(j, s, rounding_mode="floor"),
        "strided": ((i - j).abs() < s) | ((i - j) % s == 0),
    }
    mask = rules[name]
    if causal:
        mask = mask & (j <= i)
    return mask if key_mask is None else mask & key_mask[None, :]


def attend(weights, x, kind, causal, key_mask=None):
    """Returns patterns [heads, n, n] and the output [n, d]."""
    q, k, v = ((x @ weights[f"W_{p}"] + weights[f"b_{p}"]).unflatten(1, (HEADS, -1)).transpose(0, 1) for p in "qkv")
    mask = visible(kind, len(x), causal, key_mask)
    if kind == "linear":
        phi_q, phi_k = torch.nn.functional.elu(q) + 1, torch.nn.functional.elu(k) + 1
        unnormalised = (phi_q @ phi_k.mT) * mask
        pattern = unnormalised / unnormalised.sum(-1, keepdim=True)
    else:
        scores = (q @ k.mT / K**0.5).masked_fill(~mask, -torch.inf)
        pattern = torch.softmax(scores, -1)
    pattern = torch.where(mask.any(-1)[None, :, None], pattern, 0.0)  # a row without visible keys is zero
    z = (pattern @ v).transpose(0, 1).flatten(1)
    return pattern, z @ weights["W_o"] + weights["b_o"]


def axial(weights, grid, causal):
    n_rows, n_columns, _ = grid.shape
    columns = [attend(weights, grid[:, c], "full", causal) for c in range(n_columns)]
    after = grid + torch.stack([output for _, output in columns], dim=1)
    rows = [attend(weights, after[r], "full", causal) for r in range(n_rows)]
    return {
        "column_pattern": torch.stack([p for p, _ in columns]),
        "column_output": torch.stack([o for _, o in columns]),
        "row_pattern": torch.stack([p for p, _ in rows]),
        "row_output": torch.stack([o for _, o in rows]),
    }


def main():
    rng = np.random.default_rng(20)

    def normal(*shape, std):
        return rng.normal(0, std, shape).astype(np.float32)

    stored = {
        "W_q": normal(D, HEADS * K, std=0.6), "W_k": normal(D, HEADS * K, std=0.6),
        "W_v": normal(D, HEADS * V, std=0.4), "W_o": normal(HEADS * V, D, std=0.4),
        "b_q": normal(HEADS * K, std=0.3), "b_k": normal(HEADS * K, std=0.3),
        "b_v": normal(HEADS * V, std=0.3), "b_o": normal(D, std=0.3),
    }  # fmt: skip
    weights = {name: torch.from_numpy(value).double() for name, value in stored.items()}
    x = normal(N, D, std=1)
    key_mask = np.ones(N, dtype=bool)
    key_mask[[0, 1, 4, 12]] = False  # causal queries 0 and 1 see nothing
    grid = normal(3, 5, D, std=1)

    arrays = {"x": x, "key_mask": key_mask, "grid": grid}
    for kind, causal, padded in itertools.product(KINDS, (False, True), (False, True)):
        pattern, output = attend(
            weights, torch.from_numpy(x).double(), kind, causal, torch.from_numpy(key_mask) if padded else None
        )
        name = kind.replace(":", "_") + "_causal" * causal + "_padded" * padded
        arrays[f"{name}_pattern"], arrays[f"{name}_output"] = pattern.float().numpy(), output.float().numpy()
    for causal in (False, True):
        for name, value in axial(weights, torch.from_numpy(grid).double(), causal).items():
            arrays[name + "_causal" * causal] = value.float().numpy()

    directory = Path(__file__).parent / "kinds"
    (directory / "model").mkdir(parents=True, exist_ok=True)
    np.savez(directory / "model" / "model.npz", **stored)
    np.savez_compressed(directory / "golden.npz", **arrays)
    config = {"model_type": "attention", "heads": HEADS}
    (directory / "model" / "config.json").write_text(json.dumps(config, indent=2) + "\n")


if __name__ == "__main__":
    main()
