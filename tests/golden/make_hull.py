"""Finds the points of a set that are the only maximum of some linear function, by SciPy's linear programming.

hull/golden.npz: sets [1000, 2] (points, dimensions), points (all sets concatenated, float32), vertex (one per point).
A fifth of the sets is normal. The others have small integer coordinates, so that equal points and points on segments
and faces are common. Some of them contain midpoints, or lie in a plane.

    python tests/golden/make_hull.py
"""

import os

import numpy as np
from scipy.optimize import linprog


def margin(points: np.ndarray, index: int) -> float:
    """Returns max over |q_i| <= 1 of q.p - max q.x over the other points."""
    others = np.delete(points, index, axis=0)
    d = points.shape[1]
    above = np.hstack([others - points[index], np.ones((len(others), 1))])
    result = linprog(
        np.append(np.zeros(d), -1.0),
        A_ub=above,
        b_ub=np.zeros(len(others)),
        bounds=[(-1, 1)] * d + [(None, None)],
        method="highs",
    )
    assert result.status == 0, result.message
    return -result.fun


def draw(rng: np.random.Generator, kind: int) -> np.ndarray:
    d = int(rng.integers(2, 9))
    m = int(rng.integers(d, 4 * d + 4))
    if kind == 0:
        return rng.normal(size=(m, d)).astype(np.float32)
    points = rng.integers(-kind, kind + 1, size=(m, d)).astype(np.float32)
    if kind == 3:  # exact midpoints of other points
        for _ in range(3):
            a, b, c = rng.integers(0, m, size=3)
            points[a] = (points[b] + points[c]) / 2
    if kind == 4:  # all points in a plane
        points[:, -1] = points[:, 0]
    return points


def main() -> None:
    rng = np.random.default_rng(7)
    sets, flat, vertex = [], [], []
    for number in range(1000):
        points = draw(rng, number % 5)
        exact = points.astype(np.float64)
        margins = np.array([margin(exact, i) for i in range(len(exact))])
        assert not ((1e-9 < margins) & (margins < 1e-5)).any(), "too near to tell"
        sets.append(points.shape)
        flat.append(points.ravel())
        vertex.append(margins > 1e-7)
    out = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hull", "golden.npz")
    np.savez_compressed(
        out,
        sets=np.array(sets, dtype=np.int64),
        points=np.concatenate(flat),
        vertex=np.concatenate(vertex),
    )
    share = np.concatenate(vertex).mean()
    print(f"{len(sets)} sets, {len(np.concatenate(vertex))} points, {share:.3f} of them vertices")


if __name__ == "__main__":
    main()
