"""Weights analyses by their definitions, in NumPy float64.

Nothing is factored: every circuit is formed as a d x d matrix, flattened for its cosine and decomposed by a full SVD.
It shares no shortcut with attnctl.
"""
from dataclasses import dataclass

import numpy as np


@dataclass
class LayerHeads:
    """One layer in the row-vector convention, q = x W_Q, with h query heads and g key/value heads; g divides h."""

    W_Q: np.ndarray  # [h, d, k]
    W_K: np.ndarray  # [g, kdim, k]
    W_V: np.ndarray | None = None  # [g, vdim, v]
    W_O: np.ndarray | None = None  # [h, v, d]


def effective_rank(singular_values: np.ndarray) -> float:
    """Roy and Vetterli: exp of the entropy of s / sum(s)."""
    p = singular_values / singular_values.sum()
    p = p[p > 0]
    return float(np.exp(-(p * np.log(p)).sum()))


def cosines(circuits: np.ndarray) -> np.ndarray:
    """Cosine of every pair of flattened matrices: [heads, rows, columns] -> [heads, heads]."""
    flat = circuits.reshape(len(circuits), -1)
    flat = flat / np.linalg.norm(flat, axis=1, keepdims=True)
    return flat @ flat.T


def form_circuits(layer: LayerHeads, circuit: str) -> np.ndarray:
    """[h, d, kdim] for "qk", [h, vdim, d] for "ov"."""
    h = len(layer.W_Q)
    shared = h // len(layer.W_K)
    if circuit == "qk":
        return np.stack([layer.W_Q[i] @ layer.W_K[i // shared].T for i in range(h)])
    return np.stack([layer.W_V[i // shared] @ layer.W_O[i] for i in range(h)])


def analyze_circuits(name: str, circuits: list[np.ndarray], kept: int) -> dict[str, np.ndarray]:
    """circuits: one [h, rows, columns] per layer. kept: number of singular values stored per head."""
    values = np.stack([np.linalg.svd(c, compute_uv=False) for c in circuits])  # [layers, h, min(rows, columns)]
    arrays = {
        f"{name}_similarity": np.stack([cosines(c) for c in circuits]),
        f"{name}_effective_rank": np.array([[effective_rank(s) for s in layer] for layer in values]),
        f"{name}_stable_rank": (values**2).sum(-1) / (values**2).max(-1),
        f"{name}_singular_values": values[..., :kept],
    }
    if len(circuits) > 1:
        arrays[f"{name}_similarity_all"] = cosines(np.concatenate(circuits))
    return arrays


def analyze_weights(layers: list[LayerHeads]) -> dict[str, np.ndarray]:
    """Returns qk_* and, if values and the output projection exist, ov_* arrays, with the names of attnctl's NPZ."""
    first = layers[0]
    arrays = analyze_circuits("qk", [form_circuits(x, "qk") for x in layers], first.W_Q.shape[2])
    if first.W_V is not None and first.W_O is not None:
        rank = min(first.W_Q.shape[2], first.W_V.shape[2])
        arrays |= analyze_circuits("ov", [form_circuits(x, "ov") for x in layers], rank)
    return arrays
