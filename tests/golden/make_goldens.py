#!/usr/bin/env python3
"""Makes the golden files in this folder: make_goldens.py [CASE...] (default: all; --list prints the names)."""
import argparse
import json
import shutil
import zlib
from functools import partial
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
import transformers

import attention_cases
import attention_torch
import model_cases
import model_reference
import pattern_metrics
from model_heads import layers_of, stacks_of
from weights_reference import analyze_weights

HERE = Path(__file__).resolve().parent
BUNDLED_LENGTHS = (1, 17, 64)


ONE_ADDED = ("Gemma", "LayerNorm1P")  # norms whose gain is one plus the stored weight


def randomise(model):
    """Replaces all values that a program could forget: gains are not 1, biases not 0."""
    one_added = [m for m in model.modules() if "Norm" in type(m).__name__ and of_class(m, ONE_ADDED)]
    around_zero = {id(m.weight) for m in one_added}
    for name, parameter in model.named_parameters():
        if "Sinusoidal" in type(model.get_submodule(name.rpartition(".")[0])).__name__:
            continue  # a constant that some files leave out
        gain = parameter.ndim == 1 and not name.endswith("bias") and id(parameter) not in around_zero
        torch.nn.init.normal_(parameter, mean=1.0 if gain else 0.0, std=0.3)
    for name, buffer in model.named_buffers():
        if name == "final_logits_bias":
            torch.nn.init.normal_(buffer)


def of_class(module, names: tuple) -> bool:
    return any(name in type(module).__name__ for name in names)


def inputs_of(case, config) -> list[dict]:
    rng = np.random.default_rng(zlib.crc32(case.name.encode()))
    if case.images:
        shape = (config.num_channels, config.image_size, config.image_size)
        return [{"pixel_values": rng.normal(size=shape).astype(np.float32)} for _ in range(case.images)]
    config = config.get_text_config()
    vocabulary = case.vocabulary or config.vocab_size
    made = [{"input_ids": rng.integers(0, vocabulary, n)} for n in case.lengths]
    for given, m in zip(made, case.targets):
        given["decoder_input_ids"] = rng.integers(0, vocabulary, m)
    if case.padded:
        n = case.lengths[1] + 2
        visible = np.ones(n, dtype=np.int64)
        visible[[2, -2, -1]] = 0
        padded = {"input_ids": rng.integers(0, vocabulary, n), "attention_mask": visible}
        padded["input_ids"][list(case.pad_tokens)] = getattr(config, "pad_token_id", None) or 0
        if getattr(config, "type_vocab_size", 0) > 1:
            padded["token_type_ids"] = (np.arange(n) >= 4).astype(np.int64)
        if case.targets:
            padded["decoder_input_ids"] = rng.integers(0, vocabulary, 4)
        made.append(padded)
    return made


LONGEST_SCORES = 10  # tokens; scores of longer inputs would only make the repository larger
STORED_NAMES = {
    "input_ids": "ids", "attention_mask": "key_mask", "token_type_ids": "token_type_ids",
    "decoder_input_ids": "target_ids", "pixel_values": "pixels",
}  # fmt: skip


def shortened(values: np.ndarray) -> np.ndarray:
    """Rounds float64 to 32 bits of mantissa: an error of 2.4e-10, and a third smaller when deflated."""
    return (values.view(np.int64) & ~np.int64(0xFFFFF)).view(np.float64)


def reference_arrays(directory: Path, model_class, inputs: list[dict]) -> dict[str, np.ndarray]:
    """Returns all arrays of golden.npz for the checkpoint in the directory."""
    single, double = model_reference.load_both(directory, model_class)
    arrays, worst = weights_arrays(double), {}
    for index, given in enumerate(inputs):
        for key, value in given.items():
            arrays[f"{STORED_NAMES[key]}_{index}"] = np.asarray(value)
        reference, differences = model_reference.run_both(single, double, given)
        if differences.get("routing", 0.0):
            raise AssertionError(f"{directory}: two experts are as good as each other; take another seed")
        if len(given.get("input_ids", ())) > LONGEST_SCORES:
            reference.pop("scores", None)
        for name, value in reference.items():
            arrays[f"{name}_{index}"] = value if name.startswith("pattern") or name == "routing" else shortened(value)
        worst = {k: max(v, worst.get(k, 0.0)) for k, v in differences.items() if k != "routing"}
    for name, value in worst.items():
        arrays[f"bound_{name}"] = np.float64(max(1e-5, 2 * value))
    return arrays


def weights_arrays(model) -> dict[str, np.ndarray]:
    """Returns the weights analyses; with several stacks, the name of each stack is a suffix."""
    if not getattr(model.config, "is_encoder_decoder", False):
        return analyze_weights(layers_of(model))
    stacks = {stack: analyze_weights(layers) for stack, layers in stacks_of(model).items()}
    return {f"{name}_{stack}": value for stack, arrays in stacks.items() for name, value in arrays.items()}


def rewrite_config(directory: Path, edit):
    if edit:
        file = directory / "config.json"
        file.write_text(json.dumps(edit(json.loads(file.read_text())), indent=2) + "\n")


def rewrite(directory: Path, case: model_cases.ModelCase):
    """Applies the edits of the case before the reference reads the directory, so that it reads the same files as
    attnctl."""
    rewrite_config(directory, case.edit_config)
    if case.edit_tensors:
        file = directory / "model.safetensors"
        tensors = safetensors.torch.load_file(file)
        for edit in case.edit_tensors:
            tensors = edit(tensors)
        safetensors.torch.save_file(tensors, file, metadata={"format": "pt"})


def make_model_case(case: model_cases.ModelCase, folder: Path):
    directory = folder / case.name
    shutil.rmtree(directory, ignore_errors=True)
    torch.manual_seed(zlib.crc32(case.name.encode()))
    model_class = getattr(transformers, case.model)
    config = case.make_config()
    model = model_class(config)
    randomise(model)
    for prepare in case.prepare:
        prepare(model)
    model.to(getattr(torch, case.dtype)).save_pretrained(directory, max_shard_size=case.shard)
    (directory / "generation_config.json").unlink(missing_ok=True)
    rewrite(directory, case)
    read_as = getattr(transformers, case.read_as) if case.read_as else model_class
    arrays = reference_arrays(directory, read_as, inputs_of(case, config))
    rewrite_config(directory, case.edit_read_config)
    save(directory, arrays)


def make_attention_case(name: str, maker):
    directory = HERE / name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    seed = zlib.crc32(name.encode())
    torch.manual_seed(seed)
    arrays = maker(np.random.default_rng(seed), directory)
    bounds = {f"bound_{name}": np.float64(1e-5) for name in ("pattern", "z", "output") if f"{name}_0" in arrays}
    save(directory, arrays | bounds)


def make_patterns():
    directory = HERE / "patterns"  # keep README.md, which is written by hand
    np.savez_compressed(directory / "golden.npz", **pattern_metrics.make_arrays())
    print(f"{directory.name:24} {(directory / 'golden.npz').stat().st_size / 1024:6.0f} KiB")


def make_bundled(directory: Path):
    """Writes patterns of a model in data/ to bundled/NAME.npz. float32 halves the file, with an error of 6e-8."""
    if not (directory / "model.safetensors").exists():
        print(f"{directory.name:24} has no model.safetensors yet")
        return
    model_class = getattr(transformers, transformers.AutoConfig.from_pretrained(directory).architectures[0])
    single, double = model_reference.load_both(directory, model_class)
    rng = np.random.default_rng(zlib.crc32(directory.name.encode()))
    arrays, worst = analyze_weights(layers_of(double)), 0.0
    for index, n in enumerate(BUNDLED_LENGTHS):
        ids = rng.integers(0, double.config.vocab_size, n)
        reference, differences = model_reference.run_both(single, double, {"input_ids": ids})
        arrays |= {f"ids_{index}": ids, f"pattern_{index}": reference["pattern"].astype(np.float32)}
        worst = max(worst, differences["pattern"])
    file = HERE / "bundled" / f"{directory.name}.npz"
    file.parent.mkdir(exist_ok=True)
    np.savez_compressed(file, bound_pattern=np.float64(max(1e-5, 2 * worst)), **arrays)
    print(f"{directory.name:24} {file.stat().st_size / 1024:6.0f} KiB  bound: pattern {max(1e-5, 2 * worst):.1e}")


def save(directory: Path, arrays: dict):
    np.savez_compressed(directory / "golden.npz", **arrays)
    bounds = "  ".join(f"{k[6:]} {v:.1e}" for k, v in arrays.items() if k.startswith("bound_"))
    size = sum(f.stat().st_size for f in directory.iterdir())
    print(f"{directory.name:24} {size / 1024:6.0f} KiB  bounds: {bounds}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--out", type=Path, default=HERE, help="where the models go (default: beside this script)")
    options = parser.parse_args()
    makers = {case.name: partial(make_model_case, case, options.out) for case in model_cases.CASES}
    makers |= {
        name: partial(make_attention_case, name, maker)
        for name, maker in (attention_cases.CASES | attention_torch.CASES).items()
    }
    makers["patterns"] = make_patterns
    makers |= {name: partial(make_bundled, HERE.parents[1] / "data" / name) for name in ("tiny-llama", "tiny-bert")}
    if options.list:
        print("\n".join(makers))
        return
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for name in options.cases or makers:
        makers[name]()


if __name__ == "__main__":
    main()
