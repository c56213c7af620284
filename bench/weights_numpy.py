#!/usr/bin/env python3
"""The weights analyses of a layer beside NumPy, both on the same threads, in turn.

  weights_numpy.py --bench build/attnctl_analysis_bench [--threads 2] [--rounds 5]

NumPy computes the same as `attnctl_analysis_bench weights_layer`: for the QK and the OV circuit of every head the
singular values, by thin QR of both factors and the SVD of the core, and the Frobenius cosines of all heads, by one
float32 product of all slices a side. The QR is in float64, as in attnctl, and once more in float32, which leaves six
digits of the singular values. Prints medians over the rounds in ms and the ratios.
"""
import argparse
import os
import re
import statistics
import subprocess
import time
from pathlib import Path

LINE = re.compile(r"layer d=(\d+) h=(\d+) k=(\d+): ([\d.]+) ms")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    return parser.parse_args()


OPTIONS = parse()
for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[variable] = str(OPTIONS.threads)  # read when NumPy is loaded
import numpy as np  # noqa: E402


def spectra(left, right, dtype):
    """left, right [d, h, k] -> [h, k]"""
    sides = [np.ascontiguousarray(side.transpose(1, 0, 2), dtype=dtype) for side in (left, right)]
    r_left, r_right = ([np.linalg.qr(slice_, mode="r") for slice_ in side] for side in sides)
    cores = np.stack(r_left) @ np.stack(r_right).transpose(0, 2, 1)
    return np.linalg.svd(cores, compute_uv=False)


def cosines(left, right, norms):
    d, h, k = left.shape
    flat = [side.reshape(d, h * k) for side in (left, right)]
    products = [side.T @ side for side in flat]  # NumPy makes half of it and copies: the two are the same matrix
    sums = (products[0] * products[1]).reshape(h, k, h, k).sum((1, 3), dtype=np.float64)
    return sums / np.outer(norms, norms)


def analyze(factors, dtype):
    for left, right in factors:
        values = spectra(left, right, dtype)
        cosines(left, right, np.sqrt((values**2).sum(-1)))


def best_ms(runs, work):
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        work()
        times.append((time.perf_counter() - begin) * 1e3)
    return min(times)


def random_factors(d, h, k):
    rng = np.random.default_rng(1)
    return [[rng.standard_normal((d, h, k), dtype=np.float32) / np.sqrt(d) for _ in range(2)] for _ in range(2)]


def ours() -> dict[tuple[int, int, int], float]:
    command = [OPTIONS.bench, "weights_layer", "--threads", str(OPTIONS.threads)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {(int(d), int(h), int(k)): float(ms) for d, h, k, ms in LINE.findall(text)}


def main():
    rounds = []
    factors = {}
    for _ in range(OPTIONS.rounds):
        mine = ours()
        times = {}
        for shape in mine:
            layer = factors.setdefault(shape, random_factors(*shape))
            runs = 2 if shape[0] > 1024 else 7
            times[shape] = [mine[shape]] + [best_ms(runs, lambda: analyze(layer, t)) for t in (np.float64, np.float32)]
        rounds.append(times)
    print(f"NumPy {np.__version__}, {OPTIONS.threads} threads, medians of {OPTIONS.rounds} rounds")
    print(f"{'d':>5} {'heads':>5} {'k':>4} {'attnctl ms':>11} {'float64 ms':>11} {'ratio':>6} {'float32 ms':>11} {'ratio':>6}")
    for shape in factors:
        mine, *theirs = (statistics.median(times[shape][i] for times in rounds) for i in range(3))
        line = f"{shape[0]:5} {shape[1]:5} {shape[2]:4} {mine:11.1f}"
        for i, ms in enumerate(theirs):
            ratio = statistics.median(times[shape][i + 1] / times[shape][0] for times in rounds)
            line += f" {ms:11.1f} {ratio:6.2f}"
        print(line)


if __name__ == "__main__":
    main()
