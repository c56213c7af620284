"""Runs a transformers model with changes inside: the z of heads, their patterns, or the outputs of MLPs.

Everything after the change is computed by the model itself. A place is (stack, layer): the stack is enc, dec or cross
in an encoder-decoder model, and empty otherwise. MLPs of a decoder belong to the stack cross, whose layers they follow.
"""
import contextlib
import re
from collections import Counter
from dataclasses import dataclass, field

import torch
from torch.overrides import TorchFunctionMode

from float64_mode import SOFTMAX, float64_throughout
from model_reference import OUTPUT_PROJECTIONS, alibi_once, check_rotary, split_heads, stack_of

# The module whose output is added to the residual stream, after the last norm of the branch. The first line that
# matches a module of the model counts: the MLPs of BLOOM and MPT add the stream themselves, before they return.
MLP_OUTPUTS = (
    r"\.post_feedforward_layernorm$", r"\.mlp\.dense_4h_to_h$", r"\.ffn\.down_proj$", r"\.DenseReluDense$",
    r"(?<!\.mlp)\.fc2$", r"\.ffn_output$", r"\.ffn$", r"(?<!\.attention)\.output\.dense$", r"\.mlp$",
)  # fmt: skip


@dataclass
class Run:
    """logits [n, V]; for each place z [h, n, v], the pattern [h, n, m] (with sinks [h, n, m + 1]), and the input of
    the output projection [1, n, h * v], through which a gradient passes."""

    logits: torch.Tensor = None
    z: dict = field(default_factory=dict)
    patterns: dict = field(default_factory=dict)
    inputs: dict = field(default_factory=dict)


class PatternMode(TorchFunctionMode):
    """Replaces the result of every softmax over keys, [1, h, n, m], by change(result). Routers have fewer axes."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return self.change(result) if func in SOFTMAX and result.ndim == 4 else result


class ChangedModel:
    """A model with hooks at all places, for runs of one sequence (inputs as for model_reference.run)."""

    def __init__(self, model, inputs: dict):
        check_rotary(model)
        self.model, self.float64 = model, model.dtype == torch.float64
        self.two_stacks = getattr(model.config, "is_encoder_decoder", False)
        self.projections = {}  # place -> module
        self.mlps = self.mlp_modules()
        for name, module in model.named_modules():
            if name.endswith(OUTPUT_PROJECTIONS):
                module.register_forward_pre_hook(self.projection_hook(stack_of(name) if self.two_stacks else ""))
            if type(module).__name__ == "FalconAttention":
                module.register_forward_pre_hook(alibi_once, with_kwargs=True)
        for module, stack in self.mlps:
            module.register_forward_hook(self.mlp_hook(stack))
        self.order = []  # places in the order of their softmaxes
        self.find_places(inputs)

    def mlp_modules(self) -> list:
        names = [name for name, _ in self.model.named_modules() if "vision" not in name]
        ending = next(e for e in MLP_OUTPUTS if any(re.search(e, name) for name in names))
        stack = lambda name: {"enc": "enc", "dec": "cross"}[stack_of(name)] if self.two_stacks else ""
        return [(self.model.get_submodule(n), stack(n)) for n in names if re.search(ending, n)]

    def find_places(self, inputs: dict):
        """Finds the order of the places, and checks that each has one softmax, one projection and one MLP."""
        self.run(inputs)  # calls the projections, which follow the softmaxes in the same order
        self.order = list(self.projections)
        result = self.run(inputs, output_attentions=True)
        returned = self.returned
        if self.two_stacks:
            expected = dict(enc=returned.encoder_attentions, dec=returned.decoder_attentions,
                            cross=returned.cross_attentions)  # fmt: skip
        else:
            expected = {"": returned.attentions}
        assert self.order and set(self.order) == {(s, i) for s, layers in expected.items() for i in range(len(layers))}
        for (stack, layer), pattern in result.patterns.items():
            assert torch.equal(pattern[..., : expected[stack][layer].shape[-1]], expected[stack][layer][0])
        assert set(result.patterns) == set(self.order)
        assert self.mlp_counts == {stack: len(layers) for stack, layers in expected.items() if stack != "dec"}

    def projection_hook(self, stack: str):
        def change(module, args):
            place = (stack, self.counts[stack])
            self.counts[stack] += 1
            self.projections[place] = module
            given, h = args[0], self.heads
            assert given.shape[0] == 1 and given.ndim == 3
            if place in self.z_changes:
                z = self.z_changes[place](split_heads(given[0], h))
                given = z.transpose(0, 1).reshape(given.shape)
            self.record.inputs[place] = given
            self.record.z[place] = split_heads(given[0], h).detach()
            return (given, *args[1:])

        return change

    def mlp_hook(self, stack: str):
        def change(_module, _args, output):
            place = (stack, self.mlp_counts[stack])
            self.mlp_counts[stack] += 1
            replace = self.mlp_changes.get(place, lambda term: term)
            if isinstance(output, tuple):  # experts and the weights of their router
                return (replace(output[0]), *output[1:])
            return replace(output)

        return change

    def change_pattern(self, pattern: torch.Tensor) -> torch.Tensor:
        self.heads = pattern.shape[1]
        if not self.order:
            return pattern
        place = self.order[len(self.record.patterns)]
        if place in self.pattern_changes:
            pattern = self.pattern_changes[place](pattern[0])[None]
        self.record.patterns[place] = pattern[0].detach()
        return pattern

    def run(self, inputs: dict, z=None, pattern=None, mlp=None, gradient=False, **options) -> Run:
        """Runs one sequence with changes.

        z, pattern, mlp: place -> function from z [h, n, v], the pattern [h, n, m], or the output of the MLP to the
        changed tensor. gradient: keep what autograd needs. options: arguments of the model.
        """
        self.z_changes, self.pattern_changes, self.mlp_changes = z or {}, pattern or {}, mlp or {}
        self.record, self.counts, self.mlp_counts = Run(), Counter(), Counter()
        batch = {key: torch.as_tensor(value)[None] for key, value in inputs.items()}
        with contextlib.ExitStack() as contexts:
            contexts.enter_context(torch.set_grad_enabled(gradient))
            if self.float64:
                contexts.enter_context(float64_throughout(self.model, []))
            contexts.enter_context(PatternMode(self.change_pattern))
            self.returned = self.model(**batch, **options)
        self.record.logits = self.returned.logits[0].double()
        return self.record
