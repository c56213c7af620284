#!/usr/bin/env python3
"""Makes interventions/NAME.npz: make_interventions.py [CASE...] (default: all; --list prints the names).

transformers computes each model with one head changed, or without one MLP. The results are the change of the loss,
and the divergence of the predictions from those of the unchanged model.
"""
import argparse
import zlib
from pathlib import Path

import numpy as np
import torch
import transformers

from intervention_cases import STORED_NAMES, Checkpoint, find_checkpoints
from interventions import ChangedModel
from make_goldens import shortened
from model_reference import load_both

HERE = Path(__file__).resolve().parent
KINDS = ("zero", "mean", "resample", "pattern", "value")
STEP = 1e-4  # of the central differences, with four points
ROUNDING = 1e-14  # of a divergence that is 0


class Score:
    """Loss and divergence over the scored queries."""

    def __init__(self, checkpoint: Checkpoint):
        inputs, others = checkpoint.inputs, checkpoint.other_inputs
        if "MaskedLM" in checkpoint.model_class:
            self.queries = np.arange(1, len(inputs["input_ids"]), 2)
            self.targets = others["input_ids"][self.queries]
        else:
            ids = inputs.get("decoder_input_ids", inputs["input_ids"])
            self.queries, self.targets = np.arange(len(ids) - 1), ids[1:]

    def log_probabilities(self, logits):
        return torch.log_softmax(logits[self.queries], dim=-1)  # [queries, V], float64

    def loss(self, logits):
        return -self.log_probabilities(logits)[range(len(self.queries)), self.targets].mean()

    def divergence(self, clean, changed):
        p, q = self.log_probabilities(clean), self.log_probabilities(changed)
        return (p.exp() * (p - q)).sum(dim=-1).mean()


def suffixed(stack: str) -> str:
    return f"_{stack}" if stack else ""


def with_head(head: int, value, position=slice(None)):
    """Returns a function that replaces one head (at one position) of z or of a pattern."""

    def change(tensor):
        changed = tensor.clone()
        changed[head, position] = value
        return changed

    return change


class Effects:
    """All arrays of one model. Its clean run and the run of the other input are made once."""

    def __init__(self, model: ChangedModel, checkpoint: Checkpoint, score: Score):
        self.model, self.checkpoint, self.score = model, checkpoint, score
        self.clean, self.other = model.run(checkpoint.inputs), model.run(checkpoint.other_inputs)
        self.loss = score.loss(self.clean.logits)
        self.stacks = {}  # stack -> places
        for place in sorted(model.order):
            self.stacks.setdefault(place[0], []).append(place)

    def run(self, **change) -> tuple[float, float]:
        """Returns the change of the loss, and the divergence."""
        logits = self.model.run(self.checkpoint.inputs, **change).logits
        divergence = self.score.divergence(self.clean.logits, logits).item()
        assert divergence >= -ROUNDING
        return (self.score.loss(logits) - self.loss).item(), divergence

    def changes_of(self, place) -> dict:
        """Returns kind -> head -> argument of the run."""
        z, other = self.clean.z[place], self.other.z[place]
        pattern = lambda _: self.clean.patterns[place]  # of all heads: each determines only its own z
        mixed = self.model.run(self.checkpoint.other_inputs, pattern={place: pattern}).z[place]
        return {
            "zero": lambda h: dict(z={place: with_head(h, 0)}),
            "mean": lambda h: dict(z={place: with_head(h, z[h].mean(dim=0))}),
            "resample": lambda h: dict(z={place: with_head(h, other[h])}),
            "pattern": lambda h: dict(pattern={place: with_head(h, self.other.patterns[place][h])}),
            "value": lambda h: dict(z={place: with_head(h, mixed[h])}),
        }

    def head_arrays(self) -> dict:
        arrays = {}
        for stack, places in self.stacks.items():
            changes = [self.changes_of(place) for place in places]
            heads = range(len(self.clean.z[places[0]]))
            for kind in KINDS:
                made = np.array([[self.run(**change[kind](h)) for h in heads] for change in changes])
                arrays[f"{kind}_loss{suffixed(stack)}"] = made[..., 0]
                arrays[f"{kind}_kl{suffixed(stack)}"] = made[..., 1]
            positions = range(self.clean.z[places[0]].shape[1])
            arrays[f"zero_position_loss{suffixed(stack)}"] = np.array([
                [[self.run(z={place: with_head(h, 0, i)})[0] for i in positions] for h in heads] for place in places
            ])  # fmt: skip
        return arrays

    def mlp_arrays(self) -> dict:
        arrays = {}
        for stack, places in self.stacks.items():
            if stack != "dec":
                made = np.array([self.run(mlp={place: torch.zeros_like}) for place in places])
                arrays[f"mlp_loss{suffixed(stack)}"], arrays[f"mlp_kl{suffixed(stack)}"] = made.T.copy()
        return arrays

    def gradient_arrays(self) -> dict:
        made = self.model.run(self.checkpoint.inputs, gradient=True)
        loss = self.score.loss(made.logits)
        gradients = torch.autograd.grad(loss, [made.inputs[place] for place in self.model.order])
        by_place = {
            place: g.reshape(g.shape[1], len(self.clean.z[place]), -1).transpose(0, 1)
            for place, g in zip(self.model.order, gradients)
        }
        return {
            f"gradient{suffixed(stack)}": torch.stack([by_place[place] for place in places]).numpy()
            for stack, places in self.stacks.items()
        }

    def arrays(self) -> dict:
        loss = {"loss": np.float64(self.loss)}
        return loss | self.head_arrays() | self.mlp_arrays() | self.gradient_arrays()


def check_gradient(effects: Effects, arrays: dict):
    """Compares the slope of the loss along the z of two heads with central differences."""
    rng = np.random.default_rng(zlib.crc32(effects.checkpoint.name.encode()))
    for index in rng.choice(len(effects.model.order), 2):
        stack, layer = place = effects.model.order[index]
        z = effects.clean.z[place]
        head = int(rng.integers(len(z)))
        loss = lambda step: effects.run(z={place: with_head(head, (1 + step) * z[head])})[0]
        difference = (8 * (loss(STEP) - loss(-STEP)) - loss(2 * STEP) + loss(-2 * STEP)) / (12 * STEP)
        slope = (arrays[f"gradient{suffixed(stack)}"][layer, head] * z[head].numpy()).sum()
        assert abs(difference - slope) <= 1e-6 * abs(slope), (place, head, slope, difference)


@torch.no_grad()
def check_removal(effects: Effects, arrays: dict):
    """Compares the removal of a head by a hook with zeros in the rows of W_O, unless layers share that matrix."""
    projections = effects.model.projections
    for place, module in projections.items():
        if sum(other is module for other in projections.values()) > 1:
            continue
        z, kept = effects.clean.z[place], module.weight.clone()
        head, v = len(z) - 1, z.shape[2]
        rows = module.weight if type(module).__name__ == "Conv1D" else module.weight.T  # [h * v, d]
        rows[head * v : (head + 1) * v] = 0
        removed = effects.run()
        module.weight.copy_(kept)
        expected = [arrays[f"zero_{name}{suffixed(place[0])}"][place[1], head] for name in ("loss", "kl")]
        np.testing.assert_allclose(removed, expected, rtol=1e-9, atol=1e-13)


def check_patterns(effects: Effects):
    """Checks that a replaced pattern multiplies the values: one row per key gives the values, [h, m, v]."""
    inputs, others = effects.checkpoint.inputs, effects.other.patterns
    for place, pattern in effects.clean.patterns.items():
        keys = len(inputs["decoder_input_ids" if place[0] == "dec" else "input_ids"])
        one_key = lambda key: torch.nn.functional.one_hot(torch.tensor(key), pattern.shape[-1]).expand(pattern.shape)
        rows = [effects.model.run(inputs, pattern={place: lambda p, j=j: one_key(j).to(p.dtype)}) for j in range(keys)]
        values = torch.stack([row.z[place][:, 0] for row in rows], dim=1)
        changed = effects.model.run(inputs, pattern={place: lambda _: others[place]}).z[place]
        torch.testing.assert_close(changed, others[place][..., :keys] @ values, rtol=1e-11, atol=1e-12)


def make(checkpoint: Checkpoint, folder: Path):
    score = Score(checkpoint)
    single, double = load_both(checkpoint.directory, getattr(transformers, checkpoint.model_class))
    reference = Effects(ChangedModel(double, checkpoint.inputs), checkpoint, score)
    arrays = reference.arrays()
    check_gradient(reference, arrays)
    check_removal(reference, arrays)
    check_patterns(reference)
    rounded = Effects(ChangedModel(single, checkpoint.inputs), checkpoint, score).arrays()
    bounds = {f"bound_{name}": np.float64(np.abs(rounded[name] - arrays[name]).max()) for name in arrays}
    arrays = {name: shortened(value) if name.startswith("gradient") else value for name, value in arrays.items()}
    for key, stored in STORED_NAMES.items():
        if key in checkpoint.inputs:
            arrays |= {stored: checkpoint.inputs[key], f"other_{stored}": checkpoint.other_inputs[key]}
    file = folder / f"{checkpoint.name}.npz"
    file.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(file, **arrays, queries=score.queries, targets=score.targets, **bounds)
    worst = max(bounds, key=bounds.get)
    print(f"{checkpoint.name:24} {file.stat().st_size / 1024:6.1f} KiB  loss {reference.loss:.3f}  "
          f"{worst} {bounds[worst]:.1e}", flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--out", type=Path, default=HERE / "interventions", help="where the files go")
    options = parser.parse_args()
    checkpoints = find_checkpoints()
    if options.list:
        print("\n".join(checkpoints))
        return
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for name in options.cases or checkpoints:
        make(checkpoints[name](), options.out)


if __name__ == "__main__":
    main()
