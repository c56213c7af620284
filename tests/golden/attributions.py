"""Writes logits and attention scores of a transformers model as sums over what wrote into the residual stream.

Each writer (the embedding, a head, an MLP, a bias) is multiplied by a gate of value 1 at one position. Norms keep the
scale, and soft caps and the activation of the output head the factor, that they have. What heads and MLPs write does
not depend on the gates. Then a logit is linear in the gates of its position, and its derivative with respect to a gate
is the part of that writer. A score is linear in the gates of its query and in those of its key, and its mixed second
derivative is the part of a pair of writers: terms of positions, which depend on at most one of the two, drop out.
"""
import re
from dataclasses import dataclass

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from float64_mode import SOFTMAX
from interventions import ChangedModel
from model_reference import OUTPUT_PROJECTIONS

SCALES = (torch.rsqrt, torch.Tensor.rsqrt, torch.sqrt, torch.Tensor.sqrt, torch.erf, torch.Tensor.erf)
CURVES = (torch.tanh, torch.Tensor.tanh, torch.nn.functional.gelu)


class FrozenMode(TorchFunctionMode):
    """Makes norms, soft caps and activations linear with the factors that they have; keeps the inputs of softmaxes."""

    def __init__(self):
        super().__init__()
        self.scores = []  # [1, h, n, m] for each layer

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.nn.functional.layer_norm:
            return frozen_layer_norm(*args, **kwargs)
        result = func(*args, **kwargs)
        if func in SOFTMAX and result.ndim == 4:
            self.scores.append(args[0])
        if func in SCALES:
            return result.detach()
        if func is torch.Tensor.max and isinstance(result, tuple):  # gpt_oss subtracts it from its scores
            return type(result)((result.values.detach(), result.indices))
        return frozen_factor(args[0], result) if func in CURVES else result


def frozen_layer_norm(x, _shape, weight=None, bias=None, eps=1e-5):
    centred = x - x.mean(dim=-1, keepdim=True)
    y = centred / (centred.square().mean(dim=-1, keepdim=True) + eps).sqrt().detach()
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def frozen_factor(x, result):
    """Returns the result as x times a constant."""
    return x * torch.where(x == 0, torch.zeros_like(x), result / x).detach()


@dataclass
class Writers:
    """The order of the writers: the embedding; for each layer its heads, the bias of its output projection, its MLP,
    and the biases of norms after the attention that the stream passes; and all biases after the last layer (in a score,
    those between the stream and the query or key)."""

    layers: int
    heads: int

    def __len__(self):
        return self.layers * (self.heads + 3) + 2

    def of_heads(self, layer: int) -> slice:
        first = 1 + layer * (self.heads + 3)
        return slice(first, first + self.heads)

    def attention_bias(self, layer: int) -> int:
        return self.of_heads(layer).stop

    def mlp(self, layer: int) -> int:
        return self.of_heads(layer).stop + 1

    def norm_bias(self, layer: int) -> int:
        return self.of_heads(layer).stop + 2

    def constant(self) -> int:
        return len(self) - 1


class GatedModel:
    """Runs of one sequence (inputs as for model_reference.run) with gates at all writers."""

    def __init__(self, model, inputs: dict):
        self.changed, self.inputs = ChangedModel(model, inputs), inputs
        self.clean = self.changed.run(inputs)
        self.places = self.changed.order
        self.writers = Writers(len(self.places), self.changed.heads)
        assert all(len(z) == self.writers.heads for z in self.clean.z.values())
        self.positions = None
        names = [name for name, _ in model.named_modules()]
        # The first number of ALBERT's names is that of a group; the last one before the projection is that of a layer.
        self.layers = {re.match(r".*\.\d+(?=\.)", n)[0] for n in names if n.endswith(OUTPUT_PROJECTIONS)}
        for name, module in model.named_modules():
            if name in self.layers:
                module.register_forward_pre_hook(self.enter_layer, with_kwargs=True)
            bias = getattr(module, "bias", None)
            # a bias that a child has too is added by the child
            if isinstance(bias, torch.Tensor) and not any(getattr(c, "bias", None) is bias for c in module.children()):
                # before the hook that cuts the output of an MLP from everything that made it
                module.register_forward_hook(self.bias_hook(name), prepend=True)
            if hasattr(module, "q_bias"):  # DeBERTa
                module.register_forward_pre_hook(self.query_bias_hook(module.q_bias))
            if type(module).__module__ == "transformers.activations":
                module.register_forward_hook(lambda _module, args, output: frozen_factor(args[0], output))

    def factor(self, writer) -> torch.Tensor:
        """Returns what multiplies a writer at each position [n], or a slice of writers [writers, n]."""
        return 1 + (self.gates.T[writer] - 1) @ self.positions

    def layer(self) -> int:
        return len(self.changed.record.z) - 1  # the layer whose attention was computed last

    def enter_layer(self, _module, args, kwargs):
        first, self.attended = not self.changed.record.z, False
        if self.positions is None or not first or self.entered:
            return None
        self.entered = True
        gate = lambda x: x.detach() * self.factor(0)[:, None]
        if args:
            return (gate(args[0]), *args[1:]), kwargs
        return args, kwargs | {"hidden_states": gate(kwargs["hidden_states"])}

    def bias_hook(self, name: str):
        inside = name.startswith(tuple(layer + "." for layer in self.layers))

        def gate(module, _args, output):
            if self.positions is None or not isinstance(output, torch.Tensor):
                return None
            axes = [axis for axis in range(output.ndim - 1) if output.shape[axis] == self.positions.shape[1]]
            if not axes:
                return None  # relative positions
            writer = self.writers.constant()
            if name.endswith(OUTPUT_PROJECTIONS):
                writer = self.writers.attention_bias(self.layer())
            elif inside and self.attended and "norm" in type(module).__name__.lower():
                writer = self.writers.norm_bias(self.layer())
            shape = [1] * output.ndim
            shape[axes[-1]] = -1  # heads come before positions
            return output + (self.factor(writer) - 1).reshape(shape) * module.bias

        return gate

    def query_bias_hook(self, bias):
        def gate(module, _args):
            if self.positions is not None:
                del module.q_bias
                module.q_bias = bias * self.gates[0, self.writers.constant()]  # queries: position 0 of the gates

        return gate

    def gated_z(self, layer: int):
        def change(z):
            self.attended = True
            return z.detach() * self.factor(self.writers.of_heads(layer))[:, :, None]

        return change

    def run(self, positions: list[int]) -> tuple[torch.Tensor, list]:
        """Runs the sequence with gates [positions, writers] at these positions; returns logits and scores."""
        n = len(self.inputs["input_ids"])
        self.positions = torch.nn.functional.one_hot(torch.tensor(positions), n).double()
        self.gates = torch.ones(len(positions), len(self.writers), dtype=torch.float64, requires_grad=True)
        self.entered = self.attended = False
        gated_mlp = lambda layer: lambda x: x.detach() * self.factor(self.writers.mlp(layer))[:, None]
        with FrozenMode() as frozen:
            made = self.changed.run(
                self.inputs, gradient=True, z={place: self.gated_z(place[1]) for place in self.places},
                mlp={place: gated_mlp(place[1]) for place in self.places},
            )  # fmt: skip
        self.positions = None
        torch.testing.assert_close(made.logits.detach(), self.clean.logits, rtol=1e-11, atol=1e-12)
        return made.logits, frozen.scores

    def logit_terms(self, position: int, token: int) -> np.ndarray:
        """Returns the parts of a logit by writer."""
        logit = self.run([position])[0][position, token]
        return torch.autograd.grad(logit, self.gates)[0][0].numpy()

    def score_terms(self, layer: int, head: int, query: int, key: int) -> tuple[np.ndarray, float]:
        """Returns the parts of a score [writers of the query, writers of the key], and the input of the softmax."""
        assert query != key
        score = self.run([query, key])[1][layer][0, head, query, key]
        by_query = torch.autograd.grad(score, self.gates, create_graph=True)[0][0]
        rows = [torch.autograd.grad(part, self.gates, retain_graph=True)[0][1] for part in by_query]
        return torch.stack(rows).numpy(), score.item()
