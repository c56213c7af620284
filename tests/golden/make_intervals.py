#!/usr/bin/env python3
"""Makes study/intervals.json: quantiles of Student's t by SciPy, Wilson's interval by SciPy's binomtest, intervals of
shares in clusters and of differences by the formulas of docs/roles.md. Reals are compared to 2e-5.
"""
import json
from pathlib import Path

import numpy as np
import scipy.stats


def error_of(ratio, a, b):
    count = len(a)
    return np.sqrt(count / (count - 1) * ((a - ratio * b) ** 2).sum()) / b.sum()


def wilson(ratio, a, b, tests=1):
    """Returns the interval of ratio = sum a / sum b over clusters, corrected for `tests` tests."""
    error, n = error_of(ratio, a, b), b.sum()
    if 0 < ratio < 1 and error > 0:
        n = min(n, ratio * (1 - ratio) / error**2)
    t = scipy.stats.t.ppf(1 - 0.025 / tests, len(a) - 1)
    middle = (ratio + t * t / (2 * n)) / (1 + t * t / n)
    half = t / (1 + t * t / n) * np.sqrt(ratio * (1 - ratio) / n + (t / (2 * n)) ** 2)
    return max(0.0, middle - half), min(1.0, middle + half)


def difference(ratio, a, b, tests=1):
    """Returns the interval of the difference of two shares, with one observation more for each."""
    n, t = b.sum(), scipy.stats.t.ppf(1 - 0.025 / tests, len(a) - 1)
    half = t * np.sqrt((n * error_of(ratio, a, b)) ** 2 + 2) / (n + 2)
    return max(-1.0, ratio * n / (n + 2) - half), min(1.0, ratio * n / (n + 2) + half)


def ends(interval):
    return {"low": interval[0], "high": interval[1]}


def main():
    quantiles = [{"tail": tail, "degrees": degrees, "value": scipy.stats.t.isf(tail, degrees)}
                 for tail in (0.3, 0.025, 0.025 / 42, 0.025 / 1224, 1e-9)
                 for degrees in (1, 2, 3, 7, 30, 31, 99, 100, 101, 250, 2000, 10**6)]
    binomial = []
    for hits, count in ((0, 5), (5, 5), (1, 29), (81, 263), (500, 1000), (848, 848)):
        for tests in (1, 42):
            found = scipy.stats.binomtest(hits, count).proportion_ci(1 - 0.05 / tests, "wilson")
            binomial.append({"hits": hits, "count": count, "tests": tests} | ends(found))
    draw = np.random.default_rng(0)
    clusters = []
    for share, spread, size, count in ((0.3, 0.2, 20, 12), (0.7, 0.0, 9, 32), (1.0, 0.0, 4, 5), (0.95, 0.04, 30, 40)):
        b = draw.integers(1, size, count)
        p = np.clip(share + spread * draw.standard_normal(count), 0, 1)
        a, less = draw.binomial(b, p), draw.binomial(b, 0.6 * p)
        for tests in (1, 42):
            ratio = a.sum() / b.sum()
            clusters.append({"a": a.tolist(), "b": b.tolist(), "less": less.tolist(), "tests": tests}
                            | ends(wilson(ratio, a, b, tests))
                            | {"difference": ends(difference((a - less).sum() / b.sum(), a - less, b, tests))})
    document = {"quantiles": quantiles, "binomial": binomial, "clusters": clusters}
    text = json.dumps(document, default=float)
    document = json.loads(text, parse_float=lambda number: float(f"{float(number):.9g}"))
    lines = [f'"{key}": ' + json.dumps(value).replace("}, {", "},\n{") for key, value in document.items()]
    path = Path(__file__).resolve().parent / "study" / "intervals.json"
    path.write_text("{" + ",\n".join(lines) + "}\n")


if __name__ == "__main__":
    main()
