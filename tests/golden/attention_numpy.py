"""Multi-head attention by its definition, one head and one query at a time, in NumPy float64."""
from dataclasses import dataclass

import numpy as np

from weights_reference import LayerHeads


@dataclass
class Layer(LayerHeads):
    """The projections of one layer with their biases; absent ones are None."""

    b_q: np.ndarray | None = None  # [h, k]
    b_k: np.ndarray | None = None  # [g, k]
    b_v: np.ndarray | None = None  # [g, v]
    b_o: np.ndarray | None = None  # [d_out]


def project(x, weight, bias):
    """x [n, d], weight [heads, d, k], bias [heads, k] or None -> [heads, n, k]"""
    return np.stack([x @ w + (0 if bias is None else bias[i]) for i, w in enumerate(weight)])


def softmax_row(scores: np.ndarray) -> np.ndarray:
    """Softmax of a row. A fully masked row is all zeros."""
    visible = np.isfinite(scores)
    row = np.zeros_like(scores)
    if visible.any():
        row[visible] = np.exp(scores[visible] - scores[visible].max())
        row /= row.sum()
    return row


def additive(mask, h: int, n: int, m: int) -> np.ndarray:
    """mask: None, [n, m] or [h, n, m]; boolean or integer: 1 = may attend; float: added. Returns [h, n, m], to be
    added."""
    if mask is None:
        return np.zeros((h, n, m))
    if mask.dtype.kind != "f":
        mask = np.where(mask != 0, 0.0, -np.inf)
    return np.broadcast_to(mask.astype(np.float64), (h, n, m))


def attend(layer: Layer, x, keys=None, values=None, mask=None, scale=None) -> dict[str, np.ndarray]:
    """x [n, d], keys [m, kdim], values [m, vdim] (default: self-attention). Returns z and output only with W_V."""
    keys = x if keys is None else keys
    values = keys if values is None else values
    h, g, k = len(layer.W_Q), len(layer.W_K), layer.W_Q.shape[2]
    scale = k**-0.5 if scale is None else scale
    q, kk = project(x, layer.W_Q, layer.b_q), project(keys, layer.W_K, layer.b_k)
    shared = h // g
    extra = additive(mask, h, len(x), len(keys))
    scores = np.stack([scale * q[i] @ kk[i // shared].T + extra[i] for i in range(h)])
    pattern = np.stack([[softmax_row(row) for row in head] for head in scores])
    result = {"scores": scores, "pattern": pattern}
    if layer.W_V is not None:
        v = project(values, layer.W_V, layer.b_v)
        z = np.stack([pattern[i] @ v[i // shared] for i in range(h)])
        result["z"] = z
        if layer.W_O is None:
            result["output"] = np.concatenate(list(z), axis=1)  # concatenated heads
        else:
            result["output"] = sum(z[i] @ layer.W_O[i] for i in range(h)) + (0 if layer.b_o is None else layer.b_o)
    return result


def causal_mask(n: int) -> np.ndarray:
    return np.tril(np.ones((n, n), dtype=bool))


def sinusoidal(n: int, d: int) -> np.ndarray:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos of the same angle."""
    table = np.empty((n, d))
    for position in range(n):
        for column in range(d):
            angle = position / 10000 ** ((column - column % 2) / d)
            table[position, column] = np.cos(angle) if column % 2 else np.sin(angle)
    return table
