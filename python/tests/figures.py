"""Measures the wheel and ends with status 1 if a figure is above its limit.

Usage: figures.py WHEEL [MODEL [PROGRAM]]. MODEL (default: data/tiny-bert) analyses a sentence. PROGRAM is a program
that prints the median time of the same analysis with the C++ library (python/tests/latency.cpp), in milliseconds.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

SENTENCE = "The animal didn't cross the street because it was too tired."
REPEATS = 200
IMPORT = "import time; begin = time.perf_counter(); import attnctl; print(1000 * (time.perf_counter() - begin))"


def resident() -> float:
    """Return the resident memory of this process in MiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def import_time() -> float:
    """Return the shortest time of ``import attnctl`` in a new process, in milliseconds."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return min(
        float(subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, check=True, env=environment).stdout)
        for _ in range(11)
    )


def main(wheel: str, model_path: str = "data/tiny-bert", program: str = "") -> int:
    """Print the figures and return the status."""
    import attnctl

    failed = 0

    def report(what: str, value: float, unit: str, limit: float) -> None:
        nonlocal failed
        failed |= value > limit
        print(f"{what}: {value:.2f} {unit} (limit: {limit:g})", "FAILED" if value > limit else "")

    report("size of the wheel", os.path.getsize(wheel) / 1e6, "MB", 25)
    report("import attnctl", import_time(), "ms", 50)
    model = attnctl.load(model_path)
    for _ in range(200):
        model.analyze(SENTENCE, ["metrics", "patterns"], progress=False)
    before = resident()
    for _ in range(1000):
        model.analyze(SENTENCE, ["metrics", "patterns"], progress=False)
    report("growth of memory in 1000 analyses", resident() - before, "MiB", 2)
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        model.analyze(SENTENCE, ["metrics", "patterns"], threads=1)
        times.append(1000 * (time.perf_counter() - begin))
    median = statistics.median(times)
    print(f"an analysis of a sentence: {median:.2f} ms (median of {REPEATS}, one thread)")
    if program:
        own = float(subprocess.run([program, model_path], capture_output=True, check=True).stdout)
        report("more than with the C++ library", median - own, "ms", 10)
    return failed


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
