"""Runs transformers' eager attention and records the quantities that attnctl reports.

The reference uses float64 everywhere, with one exception: transformers computes rotary inverse frequencies, angles,
cosines and sines in float32 even in a float64 model, so they belong to the model and stay. transformers also casts
softmaxes, norms and routers to float32 (intended for half precision); here they run in float64 (float64_mode.py).
"""
import contextlib
import json
import tempfile
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

from float64_mode import float64_throughout

# The module whose input is z (the concatenated heads) and whose output is the attention output of the layer.
OUTPUT_PROJECTIONS = (
    "attention.output.dense", "attention.dense", "attention.out_lin", "attn.c_proj", "self_attn.o_proj",
    "attn.Wo", "attention.attn.o", "attention.o_proj", "attention.out_proj", "attn.out_proj", "self_attn.dense",
    "SelfAttention.o", "EncDecAttention.o", "encoder_attn.out_proj",
)  # fmt: skip


@contextlib.contextmanager
def dequantised(directory):
    """Returns the directory, or a copy whose MXFP4 experts are decoded by transformers."""
    config = json.loads((directory / "config.json").read_text())
    if "quantization_config" not in config:
        yield directory
        return
    del config["quantization_config"]
    tensors = safetensors.torch.load_file(directory / "model.safetensors")
    for name in [name for name in tensors if name.endswith("_blocks")]:
        blocks, scales = tensors.pop(name), tensors.pop(name.replace("_blocks", "_scales"))
        tensors[name.removesuffix("_blocks")] = convert_moe_packed_tensors(blocks, scales)  # [E, in, out]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(config))
        safetensors.torch.save_file(tensors, Path(folder) / "model.safetensors", metadata={"format": "pt"})
        yield folder


def load_both(directory, model_class) -> tuple:
    """Loads the checkpoint as float32 and as float64. Every parameter must come from its files."""
    with dequantised(Path(directory)) as readable:
        return load_readable(readable, model_class)


def load_readable(directory, model_class) -> tuple:
    models = []
    for _ in range(2):
        model, report = model_class.from_pretrained(
            directory, attn_implementation="eager", experts_implementation="eager", dtype=torch.float32,
            output_loading_info=True,
        )  # fmt: skip
        missing = [key for key in report["missing_keys"] if not key.startswith("pooler.")]  # does not affect any pattern
        if missing or report["mismatched_keys"]:
            raise AssertionError(f"{directory}: transformers did not find {report}")
        models.append(model.eval())
    for module in models[1].modules():
        if hasattr(module, "reorder_and_upcast_attn"):
            module.reorder_and_upcast_attn = False  # the same product, which requires float32
    return models[0], models[1].double()


def check_rotary(model):
    """Checks that the rotary frequencies are float32 values, whatever the type of their buffer."""
    for name, buffer in model.named_buffers():
        if name.endswith("inv_freq") and not torch.equal(buffer.float().double(), buffer.double()):
            raise AssertionError(f"{name} was not computed in float32")


def masked_to_infinity(scores: torch.Tensor) -> torch.Tensor:
    """Replaces the lowest finite number, with which transformers masks, by -inf, as in attnctl's scores."""
    return scores.masked_fill(scores < -1e30, -torch.inf)


def stack_of(name: str) -> str:
    """Returns the attention of an encoder-decoder model (enc, dec, cross) to which a module belongs."""
    if "encoder_attn" in name or "EncDecAttention" in name:
        return "cross"
    return "dec" if name.split(".")[0] == "decoder" or "model.decoder." in name else "enc"


@contextlib.contextmanager
def recorded(model):
    """Returns the inputs of output projections and routers in a run: stack -> list with one entry per layer."""
    zs, outputs, routing, hooks = {}, {}, [], []

    def watch_projection(module, stack):
        def record(_module, args, output):
            zs.setdefault(stack, []).append(args[0][0])
            outputs.setdefault(stack, []).append(output[0])

        hooks.append(module.register_forward_hook(record))

    two_stacks = getattr(model.config, "is_encoder_decoder", False)
    for name, module in model.named_modules():
        if name.endswith(OUTPUT_PROJECTIONS):
            watch_projection(module, stack_of(name) if two_stacks else "")
        if type(module).__name__.endswith("TopKRouter"):
            hooks.append(module.register_forward_hook(lambda _m, _a, output: routing.append(output)))
        if type(module).__name__ == "FalconAttention":
            hooks.append(module.register_forward_pre_hook(alibi_once, with_kwargs=True))
    try:
        yield zs, outputs, routing
    finally:
        for hook in hooks:
            hook.remove()


def alibi_once(_module, args, kwargs):
    """Corrects Falcon's eager attention, which adds ALiBi twice (also in its mask); its SDPA path adds only the mask.
    """
    if kwargs.get("alibi") is not None:
        kwargs = kwargs | {"alibi": torch.zeros_like(kwargs["alibi"])}
    return args, kwargs


def split_heads(z: torch.Tensor, heads: int) -> torch.Tensor:
    return z.reshape(len(z), heads, -1).transpose(0, 1)


def stack_arrays(suffix: str, patterns: tuple, zs: list, outputs: list) -> dict:
    """Returns pattern, z and output of one stack. If decoder layers differ in number, only theirs."""
    assert len(zs) == len(outputs) == len(patterns)
    return {
        f"pattern{suffix}": torch.stack([a[0] for a in patterns]),
        f"z{suffix}": torch.stack([split_heads(z, a.shape[1]) for z, a in zip(zs, patterns)]),
        f"output{suffix}": torch.stack(outputs),
    }


def routing_arrays(routing: list) -> dict:
    """Returns experts by descending weight, as from every router's topk."""
    if not routing:
        return {}
    return {
        "routing": torch.stack([indices for _, _, indices in routing]),
        "routing_weight": torch.stack([weights for _, weights, _ in routing]),
    }


@torch.no_grad()
def run(model, inputs: dict, float64: bool) -> dict[str, np.ndarray]:
    """Runs one sequence. inputs: input_ids and optionally token_type_ids and attention_mask, each [n];
    decoder_input_ids [m] for an encoder-decoder model; for an image only pixel_values [channels, height, width].

    Returns pattern [layers, h, n, n], z [layers, h, n, v], output [layers, n, d] (each with the suffix _enc, _dec or
    _cross for the stacks of an encoder-decoder model); logits [n, V] if the model has a language-model head; hidden
    [n, d] for an image; routing and routing_weight [layers, n, k] for experts; and, for float64, scores [layers, h,
    n, n] with -inf if masked (not for encoder-decoder models or models with sinks).
    """
    check_rotary(model)
    scores = []
    batch = {key: torch.as_tensor(value)[None] for key, value in inputs.items()}
    if "pixel_values" in batch:
        batch["pixel_values"] = batch["pixel_values"].to(model.dtype)
    with recorded(model) as (zs, outputs, routing):
        with float64_throughout(model, scores) if float64 else contextlib.nullcontext():
            result = model(**batch, output_attentions=True)

    if "encoder_attentions" in result:
        arrays = stack_arrays("_enc", result.encoder_attentions, zs["enc"], outputs["enc"])
        arrays |= stack_arrays("_dec", result.decoder_attentions, zs["dec"], outputs["dec"])
        arrays |= stack_arrays("_cross", result.cross_attentions, zs["cross"], outputs["cross"])
    else:
        arrays = stack_arrays("", result.attentions, zs[""], outputs[""])
        kept = [s[0] for s in scores if s.shape[1:] == result.attentions[0].shape[1:]]
        if len(kept) == len(result.attentions):
            arrays["scores"] = masked_to_infinity(torch.stack(kept))
    if "pixel_values" in batch:
        arrays["hidden"] = result.last_hidden_state[0]
    if "logits" in result:
        arrays["logits"] = result.logits[0]
    arrays |= routing_arrays(routing)
    return {name: a.numpy() for name, a in arrays.items()}


def run_both(single, double, inputs: dict) -> tuple[dict, dict]:
    """Returns the float64 arrays, and for each the largest difference of transformers' own float32."""
    reference, rounded = run(double, inputs, True), run(single, inputs, False)
    return reference, {name: float(np.abs(rounded[name] - reference[name]).max()) for name in rounded}
