"""Makes the models that check_families.py compares: DIR/NAME, each with its reference.npz.

For every family of family_draws.py:
  NAME-1, -2, -3   as transformers 5 saves them (the third sometimes without its head)
  NAME-tie         with a separate head if the class ties it, and the reverse
  NAME-min         without every key whose default has the same meaning
  NAME-old         with the names and keys of version 4
  NAME-oldmin      both
  NAME-native      for some: tensors as transformers 5 holds them in memory
Configurations differ from the golden ones and from each other in sizes and options. Rewritten models must give the
same results as the same weights in the new layout.
"""
import json
import shutil
import sys
import traceback
import zlib
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
import transformers

import image_cases
import old_layouts
from family_draws import DRAWS, Draw
from make_goldens import STORED_NAMES, randomise
from model_reference import load_both, run_both

VARIANTS = ("1", "2", "3", "tie", "min", "old", "oldmin", "native")
NATIVE = {
    "mixtral": old_layouts.packed_experts, "qwen2_moe": old_layouts.packed_experts, "vit": image_cases.NATIVE_VIT,
    "tower": image_cases.NATIVE_TOWER, "gemma3_tower": image_cases.NATIVE_TOWER,
    "gpt_neox": old_layouts.renamed(("embed_out.", "lm_head.")),
}  # fmt: skip
KEPT_KEYS = (  # keys that stay in a minimal config: the type and the main sizes
    "model_type", "architectures", "dtype", "torch_dtype", "transformers_version", "vocab_size", "hidden_size",
    "n_embd", "n_embed", "d_model", "dim", "num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers",
    "decoder_layers", "num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads",
    "decoder_attention_heads",
)  # fmt: skip


def condition(model):
    """Makes wide matrices smaller, so that rounding errors do not grow from layer to layer."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1 and parameter.requires_grad:
                parameter.mul_(min(1.0, 4 / parameter.shape[-1] ** 0.5))


def inputs_of(r: Draw, config) -> list[dict]:
    if config.model_type == "vit":
        shape = (config.num_channels, config.image_size, config.image_size)
        return [{"pixel_values": r.rng.normal(size=shape).astype(np.float32)} for _ in range(2)]
    text = config.get_text_config()
    vocabulary = text.vocab_size - (3 if hasattr(config, "vision_config") else 0)
    made = [{"input_ids": r.rng.integers(0, vocabulary, n)} for n in (r.size(2, 8), r.size(14, 30))]
    for special in ("pad_token_id", "mask_token_id"):  # which positions and ESM's scale depend on
        token = getattr(text, special, None)
        if token is not None and token < vocabulary and not config.is_encoder_decoder:
            made[1]["input_ids"][r.size(0, 13)] = token
    if config.is_encoder_decoder:
        for given in made:
            given["decoder_input_ids"] = r.rng.integers(0, vocabulary, r.size(1, 12))
    return made


def shortest(config: dict) -> dict:
    """Removes the keys whose absence changes nothing."""
    def meaning(keys: dict) -> dict:
        made = transformers.AutoConfig.for_model(**keys).to_dict()
        return {k: v for k, v in made.items() if k not in ("torch_dtype", "dtype")}

    whole = meaning(dict(config))
    for key in sorted(set(config) - set(KEPT_KEYS)):
        fewer = {k: v for k, v in config.items() if k != key}
        try:
            same = meaning(json.loads(json.dumps(fewer))) == whole
        except Exception:  # a key that the class requires
            same = False
        if same:
            config = fewer
    return config


def edit_tensors(directory: Path, edits: list):
    file = directory / "model.safetensors"
    tensors = safetensors.torch.load_file(file)
    for edit in edits:
        tensors = edit(tensors)
    safetensors.torch.save_file(tensors, file, metadata={"format": "pt"})


def rewrite(directory: Path, old: bool, short: bool):
    file = directory / "config.json"
    config = json.loads(file.read_text())
    kind = config["model_type"]
    if old:
        config = old_layouts.version4(config)
        if "text_config" in config:
            config["text_config"] = old_layouts.version4(config["text_config"])
        edit_tensors(directory, old_layouts.TENSOR_EDITS.get(kind, []))
    if short:
        config = shortest(config)
    file.write_text(json.dumps(config, indent=2) + "\n")


def reference(directory: Path, model_class, inputs: list[dict]) -> dict:
    single, double = load_both(directory, model_class)
    arrays, worst = {}, {}
    for index, given in enumerate(inputs):
        arrays |= {f"{STORED_NAMES[key]}_{index}": value for key, value in given.items()}
        found, differences = run_both(single, double, given)
        for name, value in found.items():
            if name.startswith(("pattern", "logits", "routing")):
                arrays[f"{name}_{index}"] = value
        worst = {k: max(v, worst.get(k, 0.0)) for k, v in differences.items()}
    if worst.get("routing", 0.0):
        raise AssertionError("two experts are as good as each other")
    return arrays | {f"bound_{k}": np.float64(max(1e-5, 2 * v)) for k, v in worst.items()}


def same_as(new: dict, old: dict):
    for name, value in new.items():
        if name.startswith(("pattern", "logits")) and not np.abs(value - old[name]).max() < 1e-9:
            raise AssertionError(f"the old layout means something else: {name}, {np.abs(value - old[name]).max()}")


def make(folder: Path, family: str, variant: str, seed: int):
    directory = folder / f"{family}-{variant}"
    shutil.rmtree(directory, ignore_errors=True)
    r = Draw(seed)
    torch.manual_seed(seed)
    class_name, keys = DRAWS[family](r)
    model_class = getattr(transformers, class_name)
    if variant == "tie" and hasattr(model_class, "_tied_weights_keys"):
        keys["tie_word_embeddings"] = not getattr(model_class.config_class(), "tie_word_embeddings", True)
    config = transformers.AutoConfig.for_model(model_class.config_class.model_type, **keys)
    model = model_class(config)
    randomise(model)
    condition(model)
    inputs = inputs_of(r, config)
    if variant == "3" and model.base_model is not model and not hasattr(config, "text_config") and r.flag():
        model = model.base_model
        model_class = type(model)
    if config.model_type == "vit":
        model_class = transformers.ViTModel
    model.to(getattr(torch, r.pick("float32", "float32", "float16", "bfloat16"))).save_pretrained(directory)
    (directory / "generation_config.json").unlink(missing_ok=True)
    old, short = variant.startswith("old"), variant.endswith("min")
    if "mxfp4" in family:
        edit_tensors(directory, [old_layouts.mxfp4_experts])
        file = directory / "config.json"
        file.write_text(json.dumps(old_layouts.mxfp4_config(json.loads(file.read_text()))))
    if variant == "tie" and config.model_type == "t5":
        edit_tensors(directory, [old_layouts.own_t5_head])
    arrays = reference(directory, model_class, inputs)
    if old or short or variant == "native":
        edit_tensors(directory, [NATIVE[family]] if variant == "native" else [])
        rewrite(directory, old, short)
        rewritten = reference(directory, model_class, inputs)
        same_as(arrays, rewritten)
        arrays = rewritten
    np.savez(directory / "reference.npz", **arrays)


def make_all(folder: Path, prefixes: list[str], missing_only: bool, seed: int):
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for family in DRAWS:
        for variant in VARIANTS:
            name = f"{family}-{variant}"
            if variant == "native" and family not in NATIVE or variant in ("min", "oldmin") and "mxfp4" in family:
                continue
            if prefixes and not name.startswith(tuple(prefixes)):
                continue
            if missing_only and (folder / name / "reference.npz").exists():
                continue
            for attempt in range(5):  # the class refuses the draw, or experts tie: draw again
                try:
                    make(folder, family, variant, zlib.crc32(f"{name}/{attempt}".encode()) + seed)
                    break
                except Exception as error:
                    print(f"{name}, draw {attempt}: {error}".replace("\n", " ")[:400], file=sys.stderr, flush=True)
                    if not isinstance(error, (AssertionError, ValueError)):
                        traceback.print_exc(limit=-2)
            else:
                print(f"{name}: no draw was good", file=sys.stderr, flush=True)
