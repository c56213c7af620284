"""Runs transformers' eager attention and records what attnctl reports.

The float64 reference is float64 throughout, with one exception. transformers computes rotary inverse frequencies,
angles, cosines and sines in float32 even in a float64 model; they are part of the model and stay so. It also casts
the softmax and RMSNorm of Llama and its kin to float32 (meant for half precision); those two run in float64 here.
"""
import contextlib

import numpy as np
import torch
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.mistral.modeling_mistral import MistralRMSNorm
from transformers.models.qwen2.modeling_qwen2 import Qwen2RMSNorm
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

RMS_NORMS = (LlamaRMSNorm, MistralRMSNorm, Qwen2RMSNorm, Qwen3RMSNorm)

# The module whose input is z (the heads' outputs side by side) and whose output is the layer's attention output.
OUTPUT_PROJECTIONS = ("attention.output.dense", "attention.dense", "attention.out_lin", "attn.c_proj", "self_attn.o_proj")


def rms_norm(self, hidden_states):
    variance = hidden_states.pow(2).mean(-1, keepdim=True)
    return self.weight * (hidden_states * torch.rsqrt(variance + self.variance_epsilon))


@contextlib.contextmanager
def float64_throughout(scores: list):
    """Undoes the casts to float32 and appends what every softmax is given to `scores`."""
    softmax, norms = torch.nn.functional.softmax, [cls.forward for cls in RMS_NORMS]

    def softmax_float64(x, dim=None, dtype=None, **_):
        scores.append(x.detach())
        return softmax(x, dim=dim)

    torch.nn.functional.softmax = softmax_float64
    for cls in RMS_NORMS:
        cls.forward = rms_norm
    try:
        yield
    finally:
        torch.nn.functional.softmax = softmax
        for cls, norm in zip(RMS_NORMS, norms):
            cls.forward = norm


def load_both(directory, model_class) -> tuple:
    """The checkpoint as float32 and as float64; every parameter must come from its files."""
    models = []
    for _ in range(2):
        model, report = model_class.from_pretrained(
            directory, attn_implementation="eager", dtype=torch.float32, output_loading_info=True
        )
        if report["missing_keys"] or report["mismatched_keys"]:
            raise AssertionError(f"{directory}: transformers did not find {report}")
        models.append(model.eval())
    return models[0], models[1].double()


def check_rotary(model):
    """The rotary frequencies must be float32 values, whatever the type of the buffer that holds them."""
    for name, buffer in model.named_buffers():
        if name.endswith("inv_freq") and not torch.equal(buffer.float().double(), buffer.double()):
            raise AssertionError(f"{name} was not computed in float32")


def masked_to_infinity(scores: torch.Tensor) -> torch.Tensor:
    """transformers masks by adding the lowest finite number; attnctl's scores say -inf."""
    return scores.masked_fill(scores < -1e30, -torch.inf)


@torch.no_grad()
def run(model, inputs: dict, float64: bool) -> dict[str, np.ndarray]:
    """One sequence. inputs: input_ids and optionally token_type_ids and attention_mask, each [n].

    Returns pattern [layers, h, n, n], z [layers, h, n, v], output [layers, n, d], logits [n, V] where the model has
    a language-model head, and, for float64, scores [layers, h, n, n] with -inf where masked.
    """
    check_rotary(model)
    outputs, zs, scores = [], [], []

    def record(_module, args, output):
        zs.append(args[0][0])
        outputs.append(output[0])

    hooks = [m.register_forward_hook(record) for n, m in model.named_modules() if n.endswith(OUTPUT_PROJECTIONS)]
    batch = {key: torch.as_tensor(value)[None] for key, value in inputs.items()}
    with float64_throughout(scores) if float64 else contextlib.nullcontext():
        result = model(**batch, output_attentions=True)
    for hook in hooks:
        hook.remove()

    heads = result.attentions[0].shape[1]
    arrays = {
        "pattern": torch.stack([a[0] for a in result.attentions]),
        "z": torch.stack([z.reshape(len(z), heads, -1).transpose(0, 1) for z in zs]),
        "output": torch.stack(outputs),
    }
    if float64:
        arrays["scores"] = masked_to_infinity(torch.stack([s[0] for s in scores]))
    if "logits" in result:
        arrays["logits"] = result.logits[0]
    assert all(len(a) == len(result.attentions) for name, a in arrays.items() if name != "logits")
    return {name: a.numpy() for name, a in arrays.items()}


def run_both(single, double, inputs: dict) -> tuple[dict, dict]:
    """float64 arrays, and per array the largest difference of transformers' own float32 from them."""
    reference, rounded = run(double, inputs, True), run(single, inputs, False)
    return reference, {name: float(np.abs(rounded[name] - reference[name]).max()) for name in rounded}
