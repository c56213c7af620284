#!/usr/bin/env python3
"""The coefficients of src/linalg/kernels/vector_math.hpp: polynomials with the smallest maximum relative error.

  vector_math.py

Prints every polynomial, lowest power first, rounded to float32, and its largest relative error before rounding.
Lawson's algorithm (C. L. Lawson, 1961): least squares whose weights grow where the error is large converge to the
minimax fit. Function values come from mpmath with 40 digits.
"""
import mpmath
import numpy as np
from numpy.polynomial import Polynomial, chebyshev

mpmath.mp.dps = 40
POINTS = 801
ROUNDS = 400
NODES = np.cos(np.pi * np.arange(POINTS) / (POINTS - 1))
ROOT = mpmath.sqrt(2 * mpmath.pi)


def show(name, coefficients):
    print(f"  {name}: " + ", ".join(f"{np.float32(c):.9g}F" for c in coefficients))


def floats(function, xs):
    return np.array([float(function(x)) for x in xs])


def fit(name, low, high, degree, wanted, weight):
    """Minimises max |weight(x) (p(x) - wanted(x))| over [low, high]."""
    xs = [mpmath.mpf(high + low) / 2 + mpmath.mpf(high - low) / 2 * mpmath.mpf(float(node)) for node in NODES]
    target, scale = floats(wanted, xs), floats(weight, xs)
    basis = chebyshev.chebvander(NODES, degree)
    lawson = np.ones(POINTS)
    for _ in range(ROUNDS):
        root = np.sqrt(lawson) * scale
        coefficients = np.linalg.lstsq(basis * root[:, None], target * root, rcond=None)[0]
        error = np.abs(scale * (basis @ coefficients - target))
        lawson *= error
        lawson /= lawson.sum()
    powers = chebyshev.Chebyshev(coefficients, domain=[float(low), float(high)]).convert(
        kind=Polynomial, domain=[-1, 1], window=[-1, 1]).coef
    print(f"{name}: [{float(low):.6g}, {float(high):.6g}], relative error 2^{np.log2(error.max()):.1f}")
    show("coefficients", powers)


def exp_rest(r):
    """(e^r - 1 - r) / r^2"""
    if abs(r) < 0.01:
        return sum(r**k / mpmath.factorial(k + 2) for k in range(20))
    return (mpmath.expm1(r) - r) / r**2


def log2_rest(f):
    """log2(1 + f) / f"""
    if abs(f) < 0.01:
        return sum((-f)**k / (k + 1) for k in range(20)) / mpmath.log(2)
    return mpmath.log1p(f) / mpmath.log(2) / f


def show_log2_parts(parts):
    """Prints the table for log2 m = log2(1 + r) + `logarithm`, r = m `inverse` - 1. [1, 2) is divided into equal
    parts. `inverse` is 1 over the middle of the part, except 1 for the first part, so that log2 1 is 0."""
    inverses = [np.float32(2 * parts / (2 * parts + 2 * i + 1) if i > 0 else 1) for i in range(parts)]
    show(f"inverses of {parts} parts", inverses)
    show(f"logarithms of {parts} parts", [float(-mpmath.log(mpmath.mpf(float(v)), 2)) for v in inverses])


def tanh_rest(s):
    """(tanh x - x) / x^3, s = x^2"""
    if s < 1e-6:
        return -mpmath.mpf(1) / 3 + 2 * s / 15
    x = mpmath.sqrt(s)
    return (mpmath.tanh(x) - x) / (s * x)


def center(s):
    """(P(N < x) - 1/2) / x of a standard normal N, s = x^2"""
    if s == 0:
        return 1 / ROOT
    x = mpmath.sqrt(s)
    return mpmath.erf(x / mpmath.sqrt(2)) / (2 * x)


def mills(a):
    """P(N > a) / density(a)"""
    return mpmath.erfc(a / mpmath.sqrt(2)) * mpmath.exp(a * a / 2) * ROOT / 2


def fit_mills(end, q_degree, p_degree):
    """M = q / (a q + p), p(0) = 1, over [0, end]: linear in both if the denominator of the last round is the weight."""
    middle = 2  # half of the points are below this value
    last = mpmath.mpf(end - middle) / (end + middle)
    us = [(last - 1) / 2 + (last + 1) / 2 * mpmath.mpf(float(node)) for node in NODES]
    exact = [middle * (1 + u) / (1 - u) for u in us]
    a = floats(lambda x: x, exact)
    ratio = floats(mills, exact)
    cancelled = floats(lambda x: 1 - x * mills(x), exact)
    q_powers = np.vander(a / middle, q_degree + 1, increasing=True)
    p_powers = np.vander(a / middle, p_degree + 1, increasing=True)[:, 1:]
    denominator = np.ones(POINTS)
    lawson = np.ones(POINTS)
    best = (np.inf, None)
    for _ in range(4 * ROUNDS):
        weight = np.sqrt(lawson) / (ratio * denominator)
        columns = np.hstack([cancelled[:, None] * q_powers, -ratio[:, None] * p_powers]) * weight[:, None]
        size = np.linalg.norm(columns, axis=0)
        solution = np.linalg.lstsq(columns / size, ratio * weight, rcond=1e-17)[0] / size
        q = q_powers @ solution[:q_degree + 1]
        denominator = a * q + 1 + p_powers @ solution[q_degree + 1:]
        error = np.abs(q / denominator / ratio - 1)
        if error.max() < best[0]:
            best = (error.max(), solution)
        lawson = np.maximum(lawson * error / (lawson * error).max(), 1e-10)
    error, solution = best
    print(f"Mills' ratio: [0, {end}], relative error 2^{np.log2(error):.1f}")
    show("q", solution[:q_degree + 1] / float(middle)**np.arange(q_degree + 1))
    p = np.concatenate([[1], solution[q_degree + 1:] / float(middle)**np.arange(1, p_degree + 1)])
    show("sqrt(2 pi) p", float(ROOT) * p)


def main():
    half = mpmath.log(2) / 2 * mpmath.mpf("1.0001")
    fit("exp_rest", -half, half, 4, exp_rest, lambda r: r**2 / mpmath.exp(r))
    fit("log2_rest", mpmath.sqrt(0.5) - 1, mpmath.sqrt(2) - 1, 7, log2_rest, lambda f: abs(f) + 0.05)
    for parts, degree in ((8, 4), (16, 3)):
        show_log2_parts(parts)
        fit(f"log2_rest of {parts} parts", -1 / mpmath.mpf(2 * parts + 3), 1 / mpmath.mpf(parts), degree, log2_rest, abs)
    fit("tanh_rest", 0, mpmath.mpf("0.55")**2, 4, tanh_rest,
        lambda s: s if s < 1e-9 else s * mpmath.sqrt(s) / mpmath.tanh(mpmath.sqrt(s)))
    fit("center", 0, mpmath.mpf("0.5")**2, 3, center, lambda s: mpmath.sqrt(s) + mpmath.mpf("1e-3"))
    fit_mills(15, 5, 4)


if __name__ == "__main__":
    main()
