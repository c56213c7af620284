#!/usr/bin/env python3
"""The forward pass of a GPT-2 directory in TransformerLens 4. `run_with_cache` keeps every pattern.

    transformer_lens_forward.py MODEL THREADS

Takes the requests of torch_forward.py. `logits`: false computes logits only for the last token, for comparison with
attnctl and the other peers, which compute none. By default TransformerLens computes all logits.
"""
import sys

from serve import Timer, serve


def open_peer():
    from importlib.metadata import version

    import torch
    from transformer_lens.model_bridge import TransformerBridge
    from transformers import GPT2LMHeadModel
    from transformers.utils import logging

    path, threads = sys.argv[1:]
    torch.set_num_threads(int(threads))
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    model = GPT2LMHeadModel.from_pretrained(path, attn_implementation="eager", dtype=torch.float32).eval()
    layers, vocabulary = model.config.n_layer, model.config.vocab_size
    bridge = TransformerBridge.boot_transformers(path, hf_model=model, device="cpu")
    timer = Timer()

    def run(ids, logits):
        options = {} if logits else {"logits_to_keep": 1}
        with torch.inference_mode():
            output, cache = bridge.run_with_cache(ids, names_filter=lambda name: name.endswith("hook_pattern"), **options)
        if len(cache) != layers:
            raise SystemExit(f"{len(cache)} patterns of {layers}")
        if output.shape[1] != (ids.shape[1] if logits else 1):
            raise SystemExit(f"output {tuple(output.shape)}")

    def answer(request):
        length, logits = request["length"], request["logits"]
        ids = torch.randint(vocabulary, (1, length), generator=torch.Generator().manual_seed(length))
        return timer.measure((length, logits), lambda: run(ids, logits), request["repeat"], request["warm_ups"])

    return f"TransformerLens {version('transformer-lens')}", answer


serve(open_peer)
