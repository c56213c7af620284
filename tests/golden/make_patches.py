#!/usr/bin/env python3
"""Makes patches/NAME.npz: make_patches.py [CASE...] (default: all of CASES).

transformers computes encoder-decoder models: one head of the corrupt run gets its z, its pattern or its values from the
clean run; several heads are removed together; and the heads of the decoder contribute directly to a logit.
"""
import argparse
from pathlib import Path

import numpy as np
import torch
import transformers

from intervention_cases import STORED_NAMES, Checkpoint, find_checkpoints
from interventions import ChangedModel
from make_interventions import Score, with_head
from model_reference import load_both

HERE = Path(__file__).resolve().parent
CASES = ("t5", "t5-own-head", "bart", "mbart", "marian", "pegasus")
LAST = -1  # the target position whose prediction is measured


class Patches:
    """The arrays of one pair of runs."""

    def __init__(self, model: ChangedModel, clean_inputs: dict, corrupt_inputs: dict):
        self.model, self.clean_inputs, self.corrupt_inputs = model, clean_inputs, corrupt_inputs
        self.clean, self.corrupt = model.run(clean_inputs), model.run(corrupt_inputs)
        self.answer = int(self.clean.logits[LAST].argmax())
        best = self.corrupt.logits[LAST].topk(2).indices
        self.wrong = int(best[0] if best[0] != self.answer else best[1])

    def metric(self, run) -> float:
        return (run.logits[LAST, self.answer] - run.logits[LAST, self.wrong]).item()

    def changes_of(self, place) -> dict:
        """Returns part -> head -> argument of the run."""
        own_pattern = lambda _: self.corrupt.patterns[place]
        mixed = self.model.run(self.clean_inputs, pattern=(place, own_pattern)).z[place]
        return {
            "z": lambda h: dict(z=(place, with_head(h, self.clean.z[place][h]))),
            "pattern": lambda h: dict(pattern=(place, with_head(h, self.clean.patterns[place][h]))),
            "value": lambda h: dict(z=(place, with_head(h, mixed[h]))),
        }

    def arrays(self) -> dict:
        made = {"clean": self.metric(self.clean), "corrupt": self.metric(self.corrupt), "answer": self.answer,
                "wrong": self.wrong}  # fmt: skip
        for stack in ("enc", "dec", "cross"):
            places = sorted(place for place in self.model.order if place[0] == stack)
            changes = [self.changes_of(place) for place in places]
            heads = range(len(self.clean.z[places[0]]))
            for part in ("z", "pattern", "value"):
                made[f"{part}_{stack}"] = np.array([
                    [self.metric(self.model.run(self.corrupt_inputs, **change[part](h))) for h in heads]
                    for change in changes
                ])  # fmt: skip
        return made


@torch.no_grad()
def direct_arrays(model: ChangedModel, inputs: dict, answer: int) -> dict:
    """The parts of the logit of `answer` at the last position: what each head of the decoder wrote there, through the
    final norm with its scale frozen and the output matrix. Empty for models without a final norm, whose norms come
    after the sums."""
    norm = next((m for n, m in model.model.named_modules() if n.endswith(("decoder.final_layer_norm", "decoder.layer_norm"))),
                None)  # fmt: skip
    if norm is None:
        return {}
    streams = []
    hook = norm.register_forward_pre_hook(lambda _, args: streams.append(args[0][0, LAST]))
    run = model.run(inputs)
    hook.remove()
    (stream,) = streams
    centered = isinstance(norm, torch.nn.LayerNorm)
    center = lambda x: x - x.mean() if centered else x
    eps = norm.eps if centered else norm.variance_epsilon
    factor = norm.weight / torch.sqrt((center(stream) ** 2).mean() + eps)
    scaled = getattr(model.model.config, "scale_decoder_outputs", False)
    row = model.model.lm_head.weight[answer] * (model.model.model_dim**-0.5 if scaled else 1)
    bias = model.model.final_logits_bias[0, answer] if hasattr(model.model, "final_logits_bias") else 0
    whole = (center(stream) * factor) @ row + bias + (norm.bias @ row if centered else 0)
    torch.testing.assert_close(whole, run.logits[LAST, answer])
    made = {}
    for stack in ("dec", "cross"):
        for place in sorted(p for p in model.order if p[0] == stack):
            z = run.z[place][:, LAST]  # [h, v]
            weight = model.projections[place].weight.reshape(-1, *z.shape)  # [d, h, v]
            written = torch.einsum("dhv,hv->hd", weight, z)
            made.setdefault(f"direct_{stack}", []).append([float((center(w) * factor) @ row) for w in written])
    return {name: np.array(values) for name, values in made.items()}


@torch.no_grad()
def loss_without(model: ChangedModel, checkpoint: Checkpoint, heads: list) -> float:
    """The loss without these heads (place, index), whose columns of the output projections become 0."""
    kept = {place: module.weight.clone() for place, module in model.projections.items()}
    for place, head in heads:
        columns = model.projections[place].weight.view(len(kept[place]), model.heads, -1)  # [d, h, v]
        columns[:, head] = 0
    loss = Score(checkpoint).loss(model.run(checkpoint.inputs).logits).item()
    for place, module in model.projections.items():
        module.weight.copy_(kept[place])
    return loss


def removal_arrays(model: ChangedModel, checkpoint: Checkpoint) -> dict:
    """The change of the loss without all heads of each layer, without the heads enc.0.0 and cross.0.1, and without all
    heads."""
    loss = loss_without(model, checkpoint, [])
    places = [place for stack in ("enc", "dec", "cross") for place in sorted(p for p in model.order if p[0] == stack)]
    layers = [[(place, head) for head in range(model.heads)] for place in places]
    return {
        "without_layer": np.array([loss_without(model, checkpoint, layer) - loss for layer in layers]),
        "without_pair": loss_without(model, checkpoint, [(("enc", 0), 0), (("cross", 0), 1)]) - loss,
        "without_all": loss_without(model, checkpoint, sum(layers, [])) - loss,
    }


def make(checkpoint: Checkpoint, folder: Path):
    clean, corrupt = checkpoint.inputs, checkpoint.other_inputs
    _, double = load_both(checkpoint.directory, getattr(transformers, checkpoint.model_class))
    model = ChangedModel(double, clean)
    same = Patches(model, clean, corrupt | {"decoder_input_ids": clean["decoder_input_ids"]})
    own = Patches(model, clean, corrupt)
    arrays = {f"same_{name}": value for name, value in same.arrays().items()}
    arrays |= {f"own_{name}": value for name, value in own.arrays().items()}
    arrays |= direct_arrays(model, clean, same.answer) | removal_arrays(model, checkpoint)
    for key, stored in STORED_NAMES.items():
        arrays |= {stored: clean[key], f"other_{stored}": corrupt[key]}
    file = folder / f"{checkpoint.name}.npz"
    file.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(file, **arrays)
    print(f"{checkpoint.name:12} {file.stat().st_size / 1024:6.1f} KiB  clean {arrays['same_clean']:.3f}  "
          f"corrupt {arrays['same_corrupt']:.3f}", flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", default=CASES)
    options = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    checkpoints = find_checkpoints()
    for name in options.cases:
        make(checkpoints[name](), HERE / "patches")


if __name__ == "__main__":
    main()
