#!/usr/bin/env python3
"""Compares patterns from weights as stored in GGUF with patterns from the same weights decoded to float32.

  check_quantised.py --binary build/attnctl [--stories DIR] [--ids N] [FILE...]

For each FILE (GGUF; default: the models in gguf/, a random model of the llama layout 256 wide, and --stories, a model
of the llama layout in safetensors) and each type, makes two files: one with all matrices in this type, and one with
their numbers decoded by the package gguf to float32. A matrix whose rows are not whole blocks is float32 in both.
Prints the largest difference of the patterns, and the noise: the largest difference between the float32 and the float64
pass of the decoded model (attnctl verify). Ends with 1 if a difference is above twice the noise.
Both are largest values over the inputs: with fewer inputs than the default, the ratio was up to 2.3.
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import make_gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

PEERS = make_gguf.GOLDEN.parents[1] / "bench" / "peers"
TYPES = [kind for kind in make_gguf.TYPES if kind != Type.F32]

UNMADE = (Type.Q4_K, Type.Q5_K, Type.Q6_K)  # the package decodes these types but does not make them


def run(*words) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode not in (0, 7):  # 7: verify found a difference above its tolerance
        raise SystemExit(f"{words}: {done.stderr}")
    return done.stdout


def copy(source: Path, target: Path, kind: Type, decoded: bool) -> int:
    """Writes a model with its matrices in a type, or decoded from it. Returns the number of these matrices."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, bytes(reader.fields["general.architecture"].parts[-1]).decode())
    for name, value in reader.fields.items():
        if not name.startswith(("GGUF.", "general.architecture")):
            inner = value.types[-1] if value.types[0] == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(name, value.contents(), value.types[0], inner)
    count, (block, _) = 0, gguf.GGML_QUANT_SIZES[kind]
    for tensor in reader.tensors:
        values = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        if values.ndim != 2 or values.shape[1] % block:
            writer.add_tensor(tensor.name, values)
            continue
        stored = tensor.data
        if tensor.tensor_type != kind:
            if kind in UNMADE:
                writer.add_tensor(tensor.name, values)
                continue
            stored = gguf.quantize(values, kind)
        count += 1
        if decoded:
            writer.add_tensor(tensor.name, np.ascontiguousarray(gguf.dequantize(stored, kind).astype(np.float32)))
        else:
            writer.add_tensor(tensor.name, stored, raw_dtype=kind)
    make_gguf.write(writer)
    return count


def patterns(binary: Path, model: Path, ids: list, folder: Path) -> dict:
    run(binary, "analyze", model, *ids, "--include", "patterns", "-o", folder / "patterns.npz")
    with np.load(folder / "patterns.npz") as file:
        return {name: file[name] for name in file.files if name.startswith("pattern_")}


def check(options, source: Path, kind: Type, folder: Path) -> bool:
    stored, decoded = folder / "stored.gguf", folder / "decoded.gguf"
    count = copy(source, stored, kind, False)
    copy(source, decoded, kind, True)
    if count == 0:
        return True
    vocabulary = json.loads(run(options.binary, "info", decoded, "--format", "json"))["architecture"]["vocabulary"]
    random = np.random.default_rng(1)
    ids = []
    for _ in range(options.ids):
        ids += ["--ids", ",".join(map(str, random.integers(0, vocabulary, options.length)))]
    found, wanted = (patterns(options.binary, model, ids, folder) for model in (stored, decoded))
    difference = max(float(np.abs(found[name] - wanted[name]).max()) for name in wanted)
    rows = json.loads(run(options.binary, "verify", decoded, *ids, "--format", "json"))["comparisons"]
    noise = max(row["max_difference"] for row in rows if row["array"] == "pattern")
    ok = difference <= 2 * noise
    print(f"{'ok' if ok else 'WRONG':6}{kind.name:6}{source.stem:16}{count:4} matrices   difference {difference:.2e}   "
          f"noise {noise:.2e}   ratio {difference / noise:.2f}", flush=True)  # fmt: skip
    return ok


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, required=True)
    parser.add_argument("--stories", type=Path)
    parser.add_argument("--ids", type=int, default=32, help="number of random inputs")
    parser.add_argument("--length", type=int, default=12, help="tokens of an input")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ok = True
        for kind in TYPES:
            files = options.files
            if not files:
                files = [file for file in sorted(make_gguf.OUT.glob("*.gguf")) if file.stem != "types"]
                wide = folder / "llama-256.gguf"
                run(sys.executable, PEERS / "make_gguf.py", wide, kind.name, "--size", "tiny")
                files.append(wide)
                if options.stories:
                    made = folder / "stories.gguf"
                    if not made.exists():
                        make_gguf.make_llama(options.stories.resolve(), made)
                    files.append(made)
            for file in files:
                ok &= check(options, file, kind, folder)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
