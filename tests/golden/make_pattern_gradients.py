#!/usr/bin/env python3
"""Makes pattern_gradients/NAME.npz: make_pattern_gradients.py [CASE...] (default: all of CASES).

Integrated gradients of the patterns of each layer, and estimates of replacing z from gradients that pass around one
layer, by autograd through transformers models in float64.
"""
import sys
from pathlib import Path

import numpy as np
import torch
import transformers

from intervention_cases import STORED_NAMES, find_checkpoints
from interventions import ChangedModel
from make_interventions import Score
from model_reference import load_both

HERE = Path(__file__).resolve().parent
CASES = (
    "gpt2", "llama", "gemma2", "gpt_neox", "bloom", "opt", "olmo2", "phi", "gpt_oss", "bert", "distilbert", "esm",
    "tiny-llama", "tiny-bert", "t5", "bart",
)  # fmt: skip
STEPS = 5


def integrated(model: ChangedModel, inputs: dict, place, log_probability) -> np.ndarray:
    """Returns [h * n * m]: pattern * mean over steps of d log_probability / d pattern."""
    pattern = model.run(inputs).patterns[place]
    total = torch.zeros_like(pattern)
    for step in range(STEPS):
        leaf = (pattern * (step + 0.5) / STEPS).requires_grad_(True)
        made = model.run(inputs, pattern={place: lambda _, leaf=leaf: leaf}, gradient=True)
        total += torch.autograd.grad(log_probability(made.logits), leaf)[0]
    keys = inputs["decoder_input_ids" if place[0] == "dec" else "input_ids"]
    return (pattern * total / STEPS)[..., : len(keys)].numpy().ravel()


def without(model: ChangedModel, inputs: dict, place, log_probability) -> float:
    return log_probability(model.run(inputs, pattern={place: torch.zeros_like}).logits).item()


def estimates(model: ChangedModel, checkpoint, score: Score, dropped) -> np.ndarray:
    """Returns [L, h]: sum over positions of (other z - z) * d loss / d z, if no gradient passes through the attention and
    the MLP of one layer (dropped: its number; None: all gradients pass)."""
    handles = []
    if dropped is not None:
        detach = lambda _module, _args, output: (
            (output[0].detach(), *output[1:]) if isinstance(output, tuple) else output.detach()
        )
        modules = [model.projections[("", dropped)], model.mlps[dropped][0]]
        handles = [module.register_forward_hook(detach) for module in modules]
    clean, other = model.run(checkpoint.inputs, gradient=True), model.run(checkpoint.other_inputs)
    for handle in handles:
        handle.remove()
    places = sorted(model.order)
    gradients = torch.autograd.grad(
        score.loss(clean.logits), [clean.inputs[place] for place in places], allow_unused=True
    )
    result = []
    for place, gradient in zip(places, gradients):
        z, replaced = clean.z[place], other.z[place]
        if gradient is None:
            gradient = torch.zeros_like(clean.inputs[place])
        by_head = gradient[0].reshape(z.shape[1], z.shape[0], z.shape[2]).transpose(0, 1)
        result.append(((replaced - z) * by_head).sum(dim=(1, 2)))
    return torch.stack(result).numpy()


def make(checkpoint, folder: Path):
    score = Score(checkpoint)
    _, double = load_both(checkpoint.directory, getattr(transformers, checkpoint.model_class))
    model = ChangedModel(double, checkpoint.inputs)
    query, target = score.queries[-1], score.targets[-1]
    log_probability = lambda logits: torch.log_softmax(logits[query], dim=-1)[target]
    # The order of the layers: those of the encoder, then in each layer of the decoder self- and cross-attention.
    places = sorted(model.order, key=lambda place: (place[0] not in ("", "enc"), place[1], place[0] == "cross"))
    parts = [integrated(model, checkpoint.inputs, place, log_probability) for place in places]
    arrays = dict(
        steps=STEPS, query=query, target=target,
        log_probability=log_probability(model.run(checkpoint.inputs).logits).item(),
        integrated=np.concatenate(parts),
        without=np.array([without(model, checkpoint.inputs, p, log_probability) for p in places]),
    )  # fmt: skip
    if not model.two_stacks:
        arrays["estimate"] = estimates(model, checkpoint, score, None)
        arrays["dropped"] = np.stack([estimates(model, checkpoint, score, layer) for layer in range(len(places))])
    for key, stored in STORED_NAMES.items():
        if key in checkpoint.inputs:
            arrays |= {stored: checkpoint.inputs[key], f"other_{stored}": checkpoint.other_inputs[key]}
    folder.mkdir(exist_ok=True)
    file = folder / f"{checkpoint.name}.npz"
    np.savez_compressed(file, **arrays, queries=score.queries, targets=score.targets)
    complete = np.array([part.sum() for part in parts]) - (arrays["log_probability"] - arrays["without"])
    print(f"{checkpoint.name:12} {file.stat().st_size / 1024:6.1f} KiB  error of the sums {np.abs(complete).max():.1e}",
          flush=True)  # fmt: skip


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    checkpoints = find_checkpoints()
    for name in sys.argv[1:] or CASES:
        make(checkpoints[name](), HERE / "pattern_gradients")


if __name__ == "__main__":
    main()
