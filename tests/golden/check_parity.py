#!/usr/bin/env python3
"""Compares attnctl with transformers' eager attention on one checkpoint. Exits with 1 if they differ by too much.

  check_parity.py --attnctl build/attnctl --model DIR [--lengths 1,2,17,256,max] [--batch] [--threads 2]

Patterns, on random ids: within 1e-5 of float64, or within twice the difference of transformers' own float32. Logits:
within 1e-4 of the largest one. The bound is fixed, because the error of transformers' float32 depends on the
sequence: on six sequences of 17 tokens, the logits of tiny-llama differ by 1.3e-6 to 5.4e-6 of the largest, and on
sequences of 256 tokens by up to 3.5e-5 (1.2e-6 for stories260K at 512, 7e-7 for tiny-bert at 128). Weights:
similarities within 1e-5, and effective ranks within 1e-5 relative, of the d x d circuits formed and decomposed in
NumPy float64. --batch also runs all lengths in one call. Each result must equal that of its own run to the same
bound.
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers

from model_heads import layers_of
from model_reference import load_both, run_both
from weights_reference import analyze_weights

PATTERN_FLOOR = 1e-5
LOGIT_BOUND = 1e-4  # of the largest


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attnctl", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--lengths", default="1,2,17,256,max")
    parser.add_argument("--batch", action="store_true")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def model_class(config):
    name = (config.architectures or [""])[0]
    return getattr(transformers, name, None) or transformers.AutoModel


def longest(config) -> int:
    return config.max_position_embeddings


def resolve_lengths(text: str, config) -> list[int]:
    lengths = [longest(config) if word == "max" else int(word) for word in text.split(",")]
    return sorted({n for n in lengths if n <= longest(config)})


def run_attnctl(options, sequences: list[np.ndarray], include: str) -> dict[str, np.ndarray]:
    with tempfile.TemporaryDirectory() as folder:
        inputs, output = Path(folder) / "ids.jsonl", Path(folder) / "x.npz"
        inputs.write_text("".join(json.dumps({"ids": ids.tolist()}) + "\n" for ids in sequences))
        command = [options.attnctl, "analyze", options.model, "--input", inputs, "--include", include, "-o", output]
        command += ["--threads", str(options.threads)] if options.threads else []
        done = subprocess.run([str(word) for word in command], stderr=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"attnctl ended with {done.returncode}: {done.stderr.strip()}")
        with np.load(output) as arrays:
            return {name: arrays[name] for name in arrays.files}


class Report:
    def __init__(self):
        self.failed = False

    def line(self, what: str, difference: float, bound: float):
        bad = not difference <= bound  # NaN is bad
        self.failed |= bad
        print(f"{what:32} {difference:10.3g}  bound {bound:8.3g}  {'TOO LARGE' if bad else 'ok'}", flush=True)


def difference(found, expected) -> float:
    if found.shape != expected.shape:
        sys.exit(f"attnctl wrote the shape {found.shape}, expected {expected.shape}")
    return float(np.abs(found - expected).max())


def check_weights(report: Report, options, model):
    expected = analyze_weights(layers_of(model))
    found = run_attnctl(options, [np.array([0])], "weights")
    for circuit in ("qk", "ov"):
        name = f"{circuit}_similarity"
        report.line(name, difference(found[name], expected[name]), 1e-5)
        name = f"{circuit}_effective_rank"
        report.line(f"{name} (relative)", difference(found[name] / expected[name], np.ones_like(expected[name])), 1e-5)
        name = f"{circuit}_singular_values"
        largest = expected[name][..., :1]
        report.line(f"{name} (of s0)", difference(found[name] / largest, expected[name] / largest), 1e-5)


def check_lengths(report: Report, options, single, double, lengths: list[int]):
    rng = np.random.default_rng(options.seed)
    sequences = [rng.integers(0, double.config.vocab_size, n) for n in lengths]
    alone, bounds, units = [], [], []  # per length: name -> array, bound, divisor of differences
    for n, ids in zip(lengths, sequences):
        reference, rounded = run_both(single, double, {"input_ids": ids})
        names = [name for name in ("pattern", "logits") if name in reference]
        found = run_attnctl(options, [ids], "patterns" + (",logits" if "logits" in names else ""))
        alone.append({name: found[f"{name}_0"] for name in names})
        bounds.append({"pattern": max(PATTERN_FLOOR, 2 * rounded["pattern"]), "logits": LOGIT_BOUND})
        units.append({name: np.abs(reference[name]).max() if name == "logits" else 1.0 for name in names})
        for name in names:
            largest = difference(alone[-1][name], reference[name]) / units[-1][name]
            report.line(f"n {n:5} {name}", largest, bounds[-1][name])
    if options.batch:
        include = "patterns" + (",logits" if "logits" in alone[0] else "")
        together = run_attnctl(options, sequences, include)
        for index, (n, own) in enumerate(zip(lengths, alone)):
            for name in own:
                largest = difference(together[f"{name}_{index}"], own[name]) / units[index][name]
                report.line(f"n {n:5} {name} in the batch", largest, bounds[index][name])


def main():
    options = parse()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    config = transformers.AutoConfig.from_pretrained(options.model)
    single, double = load_both(options.model, model_class(config))
    report = Report()
    check_weights(report, options, double)
    check_lengths(report, options, single, double, resolve_lengths(options.lengths, config))
    sys.exit(1 if report.failed else 0)


if __name__ == "__main__":
    main()
