#!/usr/bin/env python3
"""Makes formats/: the same arrays in every format, written by the formats' own libraries.

Element i (row-major) of every array is ((7 i) mod 23 - 11) / 4, converted to the type of the array: floats hold it
exactly, integers its integer part (unsigned ones that of its absolute value), bools whether it is nonzero.
"""
from pathlib import Path

import numpy as np
import safetensors.numpy
import safetensors.torch
import torch

FORMATS = Path(__file__).resolve().parent / "formats"
SHAPE = (3, 5, 2)


def values(shape=SHAPE) -> np.ndarray:
    i = np.arange(int(np.prod(shape)))
    return ((7 * i % 23 - 11) / 4.0).reshape(shape)


def arrays() -> dict:
    floats = {f"f{8 * n}": values().astype(f"f{n}") for n in (2, 4, 8)}
    signed = {f"i{8 * n}": values().astype(f"i{n}") for n in (1, 2, 4, 8)}
    unsigned = {f"u{8 * n}": np.abs(values()).astype(f"u{n}") for n in (1, 2, 4, 8)}
    return floats | signed | unsigned | {"bool": values() != 0}


def make_fp8():
    """Makes fp8.safetensors, with the scales of DeepSeek and of vLLM, and fp8.npz, its values as PyTorch computes them."""
    generator = torch.Generator().manual_seed(5)
    bits = torch.arange(256, dtype=torch.int64).to(torch.uint8)
    tensors = {"all_e4m3": bits.clone().view(torch.float8_e4m3fn), "all_e5m2": bits.view(torch.float8_e5m2)}
    expected = {name: values.float() for name, values in tensors.items()}

    def add(name, shape, kind, scale_name, scales, spread):
        weight = (torch.randn(shape, generator=generator) * 20).to(kind)
        tensors[name + ".weight"], tensors[name + scale_name] = weight, scales
        expected[name + ".weight"] = weight.float() * spread(scales.float())

    def in_tiles(scales):
        return scales.repeat_interleave(128, 0).repeat_interleave(128, 1)[:130, :140]

    tiles = torch.rand((2, 2), generator=generator) * 0.01
    add("tiles", (130, 140), torch.float8_e4m3fn, ".weight_scale_inv", tiles, in_tiles)
    rows = (torch.rand((5, 1), generator=generator) * 0.01).bfloat16()
    add("rows", (5, 7), torch.float8_e5m2, ".weight_scale", rows, lambda scales: scales)
    add("whole", (3, 4), torch.float8_e4m3fn, ".weight_scale", torch.tensor([0.03]), lambda scales: scales)
    safetensors.torch.save_file(tensors, FORMATS / "fp8.safetensors")
    np.savez_compressed(FORMATS / "fp8.npz", **{name: values.numpy() for name, values in expected.items()})


def main():
    FORMATS.mkdir(exist_ok=True)
    torch_arrays = {k: torch.from_numpy(v.copy()) for k, v in arrays().items()}
    torch_arrays["bf16"] = torch.from_numpy(values()).to(torch.bfloat16)
    safetensors.torch.save_file(torch_arrays, FORMATS / "torch.safetensors", metadata={"format": "pt"})
    safetensors.numpy.save_file(arrays() | {"scalar": np.array(0.5, "f4"), "empty": np.zeros((0, 4), "f4")},
                                FORMATS / "numpy.safetensors")
    # All types, and every byte and memory order that NumPy writes.
    orders = {}
    for name, array in arrays().items():
        orders[name] = array
        orders[name + "-big"] = array.astype(array.dtype.newbyteorder(">"))
        orders[name + "-fortran"] = np.asfortranarray(array)
        orders[name + "-big-fortran"] = np.asfortranarray(array.astype(array.dtype.newbyteorder(">")))
    orders["scalar"] = np.array(0.5, "f4")
    orders["empty"] = np.zeros((0, 4), "f4", order="F")
    orders["vector-fortran"] = np.asfortranarray(values((30,)))
    np.savez(FORMATS / "stored.npz", **orders)
    np.savez_compressed(FORMATS / "deflated.npz", **orders)
    for version in (1, 2, 3):
        with open(FORMATS / f"version{version}.npy", "wb") as file:
            np.lib.format.write_array(file, values().astype("f4"), version=(version, 0))
    make_fp8()
    np.savez(FORMATS / "object.npz", w=np.array([{"a": 1}], dtype=object))


if __name__ == "__main__":
    main()
