#!/usr/bin/env python3
"""Runs attnctl on random models of every family and compares patterns and logits with transformers' float64.

  check_families.py --binary build/attnctl [--models DIR] [PREFIX...]   compare; makes models that are missing in DIR
  check_families.py --make --models DIR [PREFIX...]                     make the models again

Prints one line per model: ok, WRONG (with the largest difference and its bound: 1e-5, or twice the difference of
transformers' own float32), REFUSED (status 3, with the message) or CRASHED. Ends with 1 unless all are ok.
"""
import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

STACKS = ("enc", "dec", "cross")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path)
    parser.add_argument("--models", type=Path)
    parser.add_argument("--make", action="store_true")
    parser.add_argument("--missing", action="store_true", help="with --make: only those that are not there")
    parser.add_argument("--seed", type=int, default=0, help="with --make: other models")
    parser.add_argument("--bad", action="store_true", help="print only what is not ok")
    parser.add_argument("prefixes", nargs="*", metavar="PREFIX")
    return parser.parse_args()


def of_inputs(wanted: dict, name: str) -> list:
    return [wanted[f"{name}_{i}"] for i in range(len(wanted)) if f"{name}_{i}" in wanted]


def command_of(options, model: Path, wanted: dict, include: str, folder: Path) -> list:
    command = [options.binary, "analyze", model, "--include", include, "-o", folder / "out.npz"]
    for ids in of_inputs(wanted, "ids"):
        command += ["--ids", ",".join(map(str, ids))]
    for ids in of_inputs(wanted, "target_ids"):
        command += ["--target-ids", ",".join(map(str, ids))]
    pixels = of_inputs(wanted, "pixels")
    if pixels:
        np.save(folder / "pixels.npy", np.stack(pixels))
        command += ["--pixels", folder / "pixels.npy"]
    return [str(word) for word in command]


def name_in_output(name: str) -> str:
    """Returns attnctl's name of an array: pattern_enc_0 of the reference is enc_pattern_0."""
    kind, _, index = name.rpartition("_")
    what, _, stack = kind.partition("_")
    return f"{stack}_{what}_{index}" if stack in STACKS else name


def compare(wanted: dict, found: dict, kinds: tuple) -> list[str]:
    """Returns the differences above their bounds, the worst for each kind of array."""
    worst, wrong = {}, []
    for name, value in wanted.items():
        kind = name.rpartition("_")[0]
        if not kind.startswith(kinds) or kind.startswith("routing_weight"):
            continue
        got = found.get(name_in_output(name))
        if got is None:
            wrong.append(f"no {name_in_output(name)}")
        elif got.shape != value.shape:
            wrong.append(f"{name} has the shape {got.shape}, expected {value.shape}")
        else:
            difference = np.abs(got - value).max()
            worst[kind] = max(worst.get(kind, 0.0), difference if np.isfinite(difference) else np.inf)
    for kind, difference in worst.items():
        bound = 0.0 if kind == "routing" else float(wanted[f"bound_{kind}"])
        if not difference <= bound:
            wrong.append(f"{kind} {difference:.3g} (bound {bound:.3g})")
    return wrong


def check(options, model: Path) -> tuple[str, str]:
    """Compares patterns and logits in one run, and the routing of experts in another."""
    with np.load(model / "reference.npz") as arrays:
        wanted = {name: arrays[name] for name in arrays.files}
    logits = any(name.startswith("logits") for name in wanted)
    verdict = check_run(options, model, wanted, ("pattern", "logits") if logits else ("pattern",))
    if verdict[0] == "ok" and "routing_0" in wanted:
        return check_run(options, model, wanted, ("routing",))
    return verdict


def check_run(options, model: Path, wanted: dict, kinds: tuple) -> tuple[str, str]:
    with tempfile.TemporaryDirectory() as name:
        folder, include = Path(name), ",".join(kinds).replace("pattern", "patterns")
        command = command_of(options, model, wanted, include, folder)
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
        message = done.stderr.strip().replace(str(options.models) + "/", "")
        if done.returncode in (2, 3, 5):
            return "REFUSED", f"{done.returncode} {message}"
        if done.returncode:
            return "CRASHED", f"{done.returncode} {message}"
        with np.load(folder / "out.npz") as arrays:
            wrong = compare(wanted, {name: arrays[name] for name in arrays.files}, kinds)
    return ("WRONG", "; ".join(wrong)) if wrong else ("ok", "")


def check_all(options) -> bool:
    counts = Counter()
    for file in sorted(options.models.glob("*/reference.npz")):
        name = file.parent.name
        if options.prefixes and not name.startswith(tuple(options.prefixes)):
            continue
        verdict, detail = check(options, file.parent)
        counts[verdict] += 1
        if verdict != "ok" or not options.bad:
            print(f"{verdict:8} {name:24} {detail}", flush=True)
    print("  ".join(f"{counts[verdict]} {verdict}" for verdict in ("ok", "WRONG", "REFUSED", "CRASHED")))
    return bool(counts["ok"]) and counts["ok"] == counts.total()


def main():
    options = parse()
    with tempfile.TemporaryDirectory() as name:
        options.models = options.models or Path(name)
        if options.make or not any(options.models.glob("*/reference.npz")):
            import family_models  # comparing does not need torch

            family_models.make_all(options.models, options.prefixes, options.missing, options.seed)
        if options.binary:
            sys.exit(0 if check_all(options) else 1)


if __name__ == "__main__":
    main()
