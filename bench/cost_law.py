#!/usr/bin/env python3
"""Measures how the time of `forward` grows with tokens, layers, heads, width and sentences, and fits a law on half of
the points.

    cost_law.py [--threads 2] [--rounds 3] [--write docs/performance.md]

Needs bench/peers/requirements.txt to make models in BERT's layout (MLP of 4 d) in a temporary folder. Each round
measures all points, so that each point is measured at several times; the smallest time counts. Prints the law and the
table of docs/performance.md.
"""
import argparse
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rows.harness import BENCH, run_measured
from rows.page import Page


@dataclass(frozen=True)
class Point:
    fit: bool
    layers: int
    d: int
    heads: int
    n: int
    sentences: int = 1

    def terms(self) -> list[float]:
        """Returns GFLOP of products, million attention weights, and MB of weights in float32."""
        tokens, pairs = self.sentences * self.n, self.sentences * self.n**2
        products = self.layers * (24 * tokens * self.d**2 + 4 * pairs * self.d) / 1e9
        return [products, self.layers * self.heads * pairs / 1e6, 48 * self.layers * self.d**2 / 1e6]


POINTS = [
    Point(True, 12, 768, 12, 16),
    Point(True, 12, 768, 12, 128),
    Point(True, 12, 768, 12, 512),
    Point(True, 12, 768, 24, 256),
    Point(True, 3, 768, 12, 256),
    Point(True, 12, 384, 6, 1024),
    Point(True, 12, 768, 12, 16, 16),
    Point(False, 12, 768, 12, 64),
    Point(False, 12, 768, 12, 256),
    Point(False, 12, 768, 12, 1024),
    Point(False, 12, 768, 6, 256),
    Point(False, 6, 768, 12, 256),
    Point(False, 12, 384, 6, 256),
    Point(False, 12, 768, 12, 16, 4),
    Point(False, 12, 768, 12, 32, 16),
]
NAMES = ("P", "W", "S")
GOAL = 0.15


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--attnctl", type=Path, default=BENCH.parent / "build" / "attnctl")
    parser.add_argument("--python", default=sys.executable, help="with transformers")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="puts law and table in this page, in place of its own")
    return parser.parse_args()


def model_name(point: Point) -> str:
    return f"bert-{point.d}-{point.layers}"


def config_of(point: Point, model: Path) -> Path:
    """Returns the configuration of the same weights with another number of heads."""
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    path = model / f"{point.heads}.json"
    path.write_text(json.dumps(config | {"num_attention_heads": point.heads}), encoding="utf-8")
    return path


def measure(options: argparse.Namespace, point: Point, models: Path) -> dict:
    model = models / model_name(point)
    command = [options.attnctl, "bench", model, "--config", config_of(point, model), "--lengths", point.n, "--batch",
               point.sentences, "--stages", "forward", "--repeat", 3, "--threads", options.threads, "--quiet"]  # fmt: skip
    return json.loads(run_measured(command).out)


def solved(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Solves the few linear equations of a fit by Gaussian elimination with pivoting."""
    rows = [[*row, value] for row, value in zip(matrix, right)]
    for i in range(len(rows)):
        rows[i:] = sorted(rows[i:], key=lambda row: -abs(row[i]))
        for j in range(len(rows)):
            if j != i:
                factor = rows[j][i] / rows[i][i]
                rows[j] = [a - factor * b for a, b in zip(rows[j], rows[i])]
    return [row[-1] / row[i] for i, row in enumerate(rows)]


def fitted(times: dict[Point, float]) -> list[float]:
    """Fits by least squares of the relative deviation. A term that would be negative is left out."""
    points = [point for point in POINTS if point.fit]
    used = list(range(len(NAMES)))
    while True:
        scaled = [[point.terms()[i] / times[point] for i in used] for point in points]
        normal = [[sum(row[i] * row[j] for row in scaled) for j in range(len(used))] for i in range(len(used))]
        found = solved(normal, [sum(row[i] for row in scaled) for i in range(len(used))])
        if min(found) >= 0:
            return [found[used.index(i)] if i in used else 0.0 for i in range(len(NAMES))]
        used.pop(found.index(min(found)))


def report(page: Page, times: dict[Point, float], machine: str) -> None:
    law = fitted(times)
    page.add(f"    t = {' + '.join(f'{value:.3g} {name}' for value, name in zip(law, NAMES))}\n")
    page.add(f"in ms, {machine}.\n")
    page.add("| used for | L | d | h | n | sentences | measured | law | |\n|---|---|---|---|---|---|---|---|---|")
    worst = 0.0
    for point in POINTS:
        said = sum(a * b for a, b in zip(law, point.terms()))
        deviation = said / times[point] - 1
        worst = worst if point.fit else max(worst, abs(deviation))
        page.add(f"| {'fit' if point.fit else 'check'} | {point.layers} | {point.d} | {point.heads} | {point.n} "
                 f"| {point.sentences} | {times[point]:.1f} | {said:.1f} | {deviation:+.0%} |")  # fmt: skip
    page.add(f"\nThe law holds within {worst:.0%} on the points that it was not fitted on (goal {GOAL:.0%}).")


def main() -> None:
    options = parse()
    page = Page("cost_law.py", options.write)
    times, peaks, reads = {}, [], []
    with tempfile.TemporaryDirectory(prefix="attnctl-cost-") as work:
        models = Path(work)
        names = sorted({model_name(point) for point in POINTS})
        run_measured([options.python, BENCH / "peers" / "make_models.py", models, *names])
        for _ in range(options.rounds):
            for point in POINTS:
                document = measure(options, point, models)
                times[point] = min(times.get(point, float("inf")), document["rows"][0]["ms_min"])
                peaks.append(document["peak_gflops"])
                reads.append(document["read_gbs"])
    report(page, times, f"{options.threads} threads; `peak_gflops` {max(peaks):.0f}, `read_gbs` {max(reads):.0f}")
    page.close()


if __name__ == "__main__":
    main()
