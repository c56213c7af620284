#!/usr/bin/env python3
"""The forward pass of a model directory in torch: `eager` returns all patterns, `sdpa` returns none.

    torch_forward.py MODEL eager|sdpa THREADS

A request has `length` (one sequence of seeded ids) or `input` (a file with {"ids"} per line: one padded batch).
"""
import json
import sys

from serve import Timer, serve


def open_peer():
    import torch
    from transformers import AutoModel
    from transformers.utils import logging

    path, attention, threads = sys.argv[1:]
    patterns = attention == "eager"
    torch.set_num_threads(int(threads))
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    model = AutoModel.from_pretrained(path, attn_implementation=attention, dtype=torch.float32).eval()
    layers, uses_cache = model.config.num_hidden_layers, hasattr(model.config, "use_cache")
    timer = Timer()

    def sequence(length):
        ids = torch.randint(model.config.vocab_size, (1, length), generator=torch.Generator().manual_seed(length))
        return {"input_ids": ids}

    def padded(path):
        with open(path, encoding="utf-8") as file:
            rows = [json.loads(line)["ids"] for line in file]
        longest = max(map(len, rows))
        ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
        return {"input_ids": ids, "attention_mask": mask}

    def run(inputs):
        with torch.inference_mode():
            # Models without a cache may refuse use_cache=False.
            cache = {"use_cache": False} if uses_cache else {}
            output = model(**inputs, output_attentions=patterns, **cache)
        if patterns and (len(output.attentions) != layers or output.attentions[0] is None):
            raise SystemExit("torch gave no patterns")

    def answer(request):
        key = request.get("input") or request["length"]
        inputs = padded(key) if isinstance(key, str) else sequence(key)
        return timer.measure(key, lambda: run(inputs), request["repeat"], request["warm_ups"])

    return f"torch {torch.__version__.split('+')[0]} {'eager' if patterns else 'SDPA'}", answer


serve(open_peer)
