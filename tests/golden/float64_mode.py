"""Runs a float64 model entirely in float64, even where its code casts to float32.

transformers casts softmaxes, norms, rotations and routers to float32, which is intended for half precision. A torch
mode intercepts every call and turns these requests into float64, so no list of such places is needed. It fails if
float64 operands still give a float32 result. Rotary modules stay unchanged: inverse frequencies, angles, cosines and
sines are float32 even in a float64 model, so they belong to the model. Values made only from integers (ALiBi slopes,
buckets of relative positions) keep their type too.
"""
import contextlib

import torch
from torch.overrides import TorchFunctionMode

NARROW = (torch.float32, torch.float16, torch.bfloat16)
SOFTMAX = (torch.nn.functional.softmax, torch.softmax, torch.Tensor.softmax)


def tensors_in(values):
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(value)


def widened(values, kinds) -> list:
    return [torch.float64 if isinstance(v, torch.dtype) and v in kinds else v for v in values]


class Float64Mode(TorchFunctionMode):
    def __init__(self, scores: list, rotary: set):
        super().__init__()
        self.scores = scores  # inputs of the softmaxes over the keys
        self.rotary = rotary  # number of rotary modules on the call stack

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        operands = list(tensors_in(args)) + list(tensors_in(kwargs.values()))
        if self.rotary or not any(x.dtype == torch.float64 for x in operands):
            return func(*args, **kwargs)
        if func in (torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16):
            return args[0]
        args = widened(args, NARROW)
        kwargs = dict(zip(kwargs, widened(kwargs.values(), NARROW)))
        if func in SOFTMAX:
            self.scores.append(operands[0].detach())
        result = func(*args, **kwargs)
        for made in tensors_in([result]):
            if made.dtype in NARROW:
                raise AssertionError(f"{func} gives {made.dtype} of float64 operands")
        return result


@contextlib.contextmanager
def float64_throughout(model, scores: list):
    """Appends the input of every softmax to `scores`."""
    rotary, hooks = set(), []
    for module in model.modules():
        if "RotaryEmbedding" in type(module).__name__:
            hooks.append(module.register_forward_pre_hook(lambda m, _: rotary.add(m)))
            hooks.append(module.register_forward_hook(lambda m, _args, _result: rotary.discard(m)))
    try:
        with Float64Mode(scores, rotary):
            yield
    finally:
        for hook in hooks:
            hook.remove()
