#!/usr/bin/env python3
"""The forward pass of one model directory in torch, eager with all patterns and SDPA without, and in attnctl.

Each round runs the three one after the other, so that all of them see the machine drift; the table has medians and
their ratios. `attnctl bench` runs its stage once more unmeasured each time, and torch is warmed up before the rounds.
Eager stands beside `capture` (all patterns in memory), SDPA beside `forward` (which makes all patterns, too).

    forward_torch.py MODEL [--lengths 16,128,512] [--threads 2] [--rounds 5] [--attnctl build/attnctl]
"""
import argparse
import json
import statistics
import subprocess
import time

import torch
from transformers import AutoModel
from transformers.utils import logging


def load(path, attention):
    return AutoModel.from_pretrained(path, attn_implementation=attention, dtype=torch.float32).eval()


def torch_ms(model, ids, patterns):
    begin = time.perf_counter()
    with torch.inference_mode():
        output = model(ids, output_attentions=patterns, use_cache=False)
    taken = (time.perf_counter() - begin) * 1e3
    if patterns and len(output.attentions) != model.config.num_hidden_layers:
        raise SystemExit("torch gave no patterns")
    return taken


def attnctl_ms(options, length):
    """Milliseconds of the stages, from a process of their own."""
    command = [options.attnctl, "bench", options.model, "--lengths", str(length), "--repeat", "1", "--quiet",
               "--threads", str(options.threads), "--stages", "forward,capture", "--format", "json"]
    document = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {row["stage"]: row["ms_median"] for row in document["rows"]}


def measure(options, eager, sdpa, length):
    generator = torch.Generator().manual_seed(length)
    ids = torch.randint(eager.config.vocab_size, (1, length), generator=generator)
    for _ in range(2):
        torch_ms(eager, ids, True)
        torch_ms(sdpa, ids, False)
    times = {"eager": [], "sdpa": [], "capture": [], "forward": []}
    for _ in range(options.rounds):
        times["eager"].append(torch_ms(eager, ids, True))
        times["sdpa"].append(torch_ms(sdpa, ids, False))
        for stage, taken in attnctl_ms(options, length).items():
            times[stage].append(taken)
    return {name: statistics.median(each) for name, each in times.items()}


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--lengths", default="16,128,512")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--attnctl", default="build/attnctl")
    return parser.parse_args()


def main():
    options = parse_options()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.set_num_threads(options.threads)
    eager, sdpa = load(options.model, "eager"), load(options.model, "sdpa")
    print(f"torch {torch.__version__}, {options.threads} threads, medians of {options.rounds} rounds, ms\n")
    print("| n | torch eager | attnctl capture | ratio | torch SDPA | attnctl forward | ratio |")
    print("|---|---|---|---|---|---|---|")
    for length in map(int, options.lengths.split(",")):
        ms = measure(options, eager, sdpa, length)
        print(f"| {length} | {ms['eager']:.1f} | {ms['capture']:.1f} | {ms['eager'] / ms['capture']:.2f} "
              f"| {ms['sdpa']:.1f} | {ms['forward']:.1f} | {ms['sdpa'] / ms['forward']:.2f} |", flush=True)


if __name__ == "__main__":
    main()
