#!/usr/bin/env python3
"""Writes tests/golden/torch: files of torch.save in both layouts, and the same tensors as safetensors."""

from collections import OrderedDict
from pathlib import Path

import safetensors.torch
import torch

FOLDER = Path(__file__).parent / "torch"
OLD = {"_use_new_zipfile_serialization": False}


def tensors():
    """Every dtype, a scalar, an empty tensor, shared storages, views, transposed and strided tensors."""
    torch.manual_seed(20)
    base = torch.randn(5, 6)
    made = OrderedDict(
        base=base,
        rows=base[1:4],
        columns=base[:, 2:5],
        transposed=base.t(),
        every_second=base[::2, ::3],
        again=base,
        permuted=torch.randn(2, 3, 4).permute(2, 0, 1),
        expanded=torch.randn(1, 3).expand(4, 3),
        scalar=torch.tensor(0.5),
        view_scalar=base[3, 4],
        empty=torch.zeros(0, 4),
        parameter=torch.nn.Parameter(torch.randn(3)),
    )
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        made[str(dtype)] = torch.randn(7).to(dtype)
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        made[str(dtype)] = torch.arange(7).to(dtype) * 3
    made["torch.bool"] = torch.tensor([True, False, True])
    return made


def main():
    FOLDER.mkdir(exist_ok=True)
    made = tensors()
    safe = {name: tensor.detach().clone().contiguous() for name, tensor in made.items()}
    safetensors.torch.save_file(safe, FOLDER / "all.safetensors")
    torch.save(made, FOLDER / "zip.bin")
    for protocol in (3, 4, 5):
        torch.save(made, FOLDER / f"zip{protocol}.pt", pickle_protocol=protocol)
    torch.save(made, FOLDER / "legacy.bin", **OLD)
    torch.save(made, FOLDER / "legacy4.pth", pickle_protocol=4, **OLD)

    unsigned = {str(dtype): torch.arange(5).to(dtype) for dtype in (torch.uint16, torch.uint32, torch.uint64)}
    torch.save(unsigned, FOLDER / "unsigned.pt")
    safetensors.torch.save_file(unsigned, FOLDER / "unsigned.safetensors")

    module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.LayerNorm(3))
    state = module.state_dict()  # an OrderedDict with an attribute
    safetensors.torch.save_file(state, FOLDER / "module.safetensors")
    torch.save(state, FOLDER / "module.bin")
    optimizer = torch.optim.Adam(module.parameters())
    module(torch.randn(4, 2)).sum().backward()
    optimizer.step()
    for name, options in (("training.pt", {}), ("training-legacy.pt", OLD)):
        torch.save({"epoch": 3, "loss": 0.5, "state_dict": state, "optimizer": optimizer.state_dict()},
                   FOLDER / name, **options)
    torch.save({"model": state, "ema": state}, FOLDER / "two.pt")
    torch.save(torch.nn.Linear(2, 2), FOLDER / "whole-module.pt")
    torch.save({"z": torch.zeros(2, dtype=torch.complex64)}, FOLDER / "complex.pt")
    # module.bin was written before this step, so its state differs.
    safetensors.torch.save_file(state, FOLDER / "training.safetensors")
    for file in FOLDER.iterdir():
        file.chmod(0o644)


if __name__ == "__main__":
    main()
