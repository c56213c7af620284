#!/usr/bin/env python3
"""Makes assignments/golden.npz: the sums of the best assignments of random matrices, by SciPy."""
from pathlib import Path

import numpy as np
from scipy.optimize import linear_sum_assignment

HERE = Path(__file__).resolve().parent
SHAPES = ((1, 1), (2, 2), (5, 5), (12, 12), (7, 9), (40, 40), (3, 20))

if __name__ == "__main__":
    random = np.random.default_rng(0)
    arrays = {}
    for index, shape in enumerate(SHAPES):
        values = random.uniform(-1, 1, shape) if index % 2 == 0 else random.integers(-3, 4, shape).astype(float)
        rows, columns = linear_sum_assignment(values, maximize=True)
        arrays[f"values_{index}"] = values
        arrays[f"sum_{index}"] = np.array(values[rows, columns].sum())
    np.savez(HERE / "assignments" / "golden.npz", **arrays)
