#!/usr/bin/env python3
"""The weights analyses of a bare layer in NumPy and in torch.

    numpy_weights.py MODEL.npz HEADS float64|float32|textbook

For the QK and OV circuit of every head: singular values, and the Frobenius cosines of all pairs of heads. float64 (as
attnctl) and float32 (six digits): thin QR of both factors and the SVD of the core; cosines from one float32 product
of all slices per side. `textbook`: the definition in torch, with every circuit formed, its SVD, and cosines of the
flattened circuits.
"""
import sys

from serve import Timer, serve


def open_peer():
    import numpy as np

    path, heads, kind = sys.argv[1:]
    with np.load(path) as file:
        weights = {name: file[name] for name in ("W_q", "W_k", "W_v", "W_o")}
    d, h = len(weights["W_q"]), int(heads)
    sides = [weights["W_q"], weights["W_k"], weights["W_v"], weights["W_o"].T]
    slices = [np.ascontiguousarray(side).reshape(d, h, d // h) for side in sides]
    factors = [slices[:2], slices[2:]]

    def spectra(left, right, dtype):
        """left, right [d, h, k] -> [h, k]"""
        both = [np.ascontiguousarray(side.transpose(1, 0, 2), dtype=dtype) for side in (left, right)]
        r_left, r_right = ([np.linalg.qr(slice_, mode="r") for slice_ in side] for side in both)
        cores = np.stack(r_left) @ np.stack(r_right).transpose(0, 2, 1)
        return np.linalg.svd(cores, compute_uv=False)

    def cosines(left, right, norms):
        flat = [side.reshape(d, -1) for side in (left, right)]
        products = [side.T @ side for side in flat]  # the matrix is symmetric: NumPy computes half of it
        k = left.shape[2]
        sums = (products[0] * products[1]).reshape(h, k, h, k).sum((1, 3), dtype=np.float64)
        return sums / np.outer(norms, norms)

    def thin_qr(dtype):
        for left, right in factors:
            values = spectra(left, right, dtype)
            cosines(left, right, np.sqrt((values**2).sum(-1)))

    def answer(request):
        return timer.measure(path, work, request["repeat"])

    timer = Timer()
    if kind != "textbook":
        dtype = np.dtype(kind)
        work = lambda: thin_qr(dtype)  # noqa: E731
        return f"NumPy {np.__version__} thin QR, {kind}", answer

    import torch

    tensors = [[torch.from_numpy(side).permute(1, 0, 2) for side in pair] for pair in factors]

    def work():
        for left, right in tensors:
            circuits = left @ right.transpose(1, 2)
            torch.linalg.svdvals(circuits)
            flat = torch.nn.functional.normalize(circuits.flatten(1), dim=1)
            flat @ flat.T

    return f"torch {torch.__version__.split('+')[0]}, SVD of full products", answer


serve(open_peer)
