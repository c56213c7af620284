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
    safetensors.torch.save_file({"w": torch.zeros(4, dtype=torch.float8_e4m3fn)}, FORMATS / "fp8.safetensors")
    np.savez(FORMATS / "object.npz", w=np.array([{"a": 1}], dtype=object))


if __name__ == "__main__":
    main()
