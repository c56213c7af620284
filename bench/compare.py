#!/usr/bin/env python3
"""Compares attnctl with other programs ("peers") on this machine, in turns in one run, and prints tables.

    compare.py [--rows a,c] [--rounds 5] [--threads 2] [--quick] [--long] [--write docs/performance.md]

Needs bench/peers/requirements.txt. Each peer runs as a separate process. A round runs the peers and attnctl one after
the other. Times are medians over the rounds. `ratio` is the median, over the rounds, of the peer's time divided by
attnctl's. MiB is the largest resident memory. Models with random weights are made in a temporary folder ($TMPDIR,
about 2 GB), which is removed at the end. On a quiet machine all tables take about 20 minutes.
"""
import argparse
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

from rows import forward, long_context, output, quantised, sentences, shell, startup, study, two_models, weights
from rows.harness import BENCH, DATA, Context, table_of
from rows.page import Page

ROWS = {
    "a": ("bert-base, all patterns", lambda context: forward.compare(context, "bert-base")),
    "b": ("gpt2-small, all patterns", lambda context: forward.compare(context, "gpt2-small", lens=True)),
    "c": ("llama layout, all patterns: 12 layers, 12/4 heads, d 768, ff 2048",
          lambda context: forward.compare(context, "llama")),
    "d": ("Sentences of 5 to 60 tokens in one batch", sentences.compare),
    "e": ("Long context, llama layout: statistics of every head", long_context.compare),
    "f": ("Weights analyses of a layer", weights.compare),
    "g": ("Writing all patterns of bert-base", output.compare),
    "h": ("A sentence from the shell to JSON", shell.compare),
    "i": ("Start-up", startup.compare),
    "j": ("A study of a treebank", study.compare),
    "k": ("Quantised models, llama layout: 32 layers, 15/5 heads, d 960, ff 2560", quantised.compare),
    "l": ("Two models of the shape of GPT-2 small", two_models.compare),
}  # fmt: skip


def chosen_rows(text: str) -> list[str]:
    names = text.split(",") if text else list(ROWS)
    for name in names:
        if name not in ROWS:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {','.join(ROWS)}")
    return names


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=chosen_rows, default=list(ROWS),
                        help="; ".join(f"{name}: {title}" for name, (title, _) in ROWS.items()))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="the small sizes, to see that all of it runs")
    parser.add_argument("--long", action="store_true", help="n = 32768 too")
    parser.add_argument("--attnctl", type=Path, default=BENCH.parent / "build" / "attnctl")
    parser.add_argument("--python", default=sys.executable, help="of the peers")
    parser.add_argument("--lens-python", help="of TransformerLens, whose dependencies slow others' start")
    parser.add_argument("--tokenizer", type=Path, default=DATA / "tiny-bert",
                        help="a BERT directory whose tokenizer the models of row h get")
    parser.add_argument("--study-model", type=Path, help="of row j, a BERT directory; else random weights of MiniLM's shape")
    parser.add_argument("--treebank", type=Path, help="of row j; else the bundled one, twenty times")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="puts the tables in this page, in place of its own")
    return parser.parse_args()


def cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def main() -> None:
    options = parse()
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = str(options.threads)
    os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    version = subprocess.run([options.attnctl, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    page = Page("compare.py", options.write)
    page.add(f"{version}. {cpu_name()}, {options.threads} threads, {options.rounds} rounds.")
    with tempfile.TemporaryDirectory(prefix="attnctl-compare-") as work:
        context = Context(attnctl=options.attnctl.resolve(), threads=options.threads, rounds=options.rounds,
                          quick=options.quick, long=options.long, work=Path(work), python=options.python,
                          lens_python=options.lens_python or options.python,
                          tokenizer=options.tokenizer.resolve(), study_model=options.study_model,
                          treebank=options.treebank)  # fmt: skip
        for name in options.rows:
            title, compare = ROWS[name]
            page.add(f"\n### {name}. {title}\n\n{table_of(compare(context))}")
    for note in context.notes:
        page.add(f"\n{note}")
    page.close()


if __name__ == "__main__":
    main()
