#!/usr/bin/env python3
"""Makes the goldens mha-* and sdpa-*: torch's multi-head attention in float64.

Twelve configurations of torch.nn.MultiheadAttention and three of scaled_dot_product_attention with enable_gqa. Each
directory holds the state with torch's names (float32). golden.npz has, for each item I of the batch, the inputs and
the weights and output that torch returns. torch's boolean masks mean the opposite of attnctl's, so they are stored
negated. Bounds are 1e-5 for weights, and 1e-5 of the largest output for outputs.
"""
import argparse
import shutil
import zlib
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import safetensors.torch
import torch

from attention_cases import normal, write
from attention_numpy import Layer
from attention_torch import layer_of, random_module
from model_heads import array, split_columns
from weights_reference import analyze_weights

HERE = Path(__file__).resolve().parent


@dataclass
class Call:
    """Inputs of one call of torch, batch first."""

    x: np.ndarray  # [B, n, d]
    keys: np.ndarray | None = None  # [B, m, kdim]; None: x
    values: np.ndarray | None = None  # [B, m, vdim]
    hidden_keys: np.ndarray | None = None  # bool [B, m], True is hidden, as in torch
    mask: np.ndarray | None = None  # [n, m] or [B * h, n, m]; bool: True is hidden; float: added
    stored_mask: bool = True  # False: the configuration is causal

    def tensors(self):
        keys = self.x if self.keys is None else self.keys
        values = keys if self.values is None else self.values
        return [torch.tensor(a, dtype=torch.float64) for a in (self.x, keys, values)]

    def attn_mask(self):
        if self.mask is None:
            return None
        return torch.tensor(self.mask) if self.mask.dtype == bool else torch.tensor(self.mask, dtype=torch.float64)

    def given(self, item: int, heads: int) -> dict:
        """Returns the inputs in golden.npz for one item of the batch."""
        arrays = {"embeddings": self.x[item]}
        if self.keys is not None:
            arrays |= {"key_inputs": self.keys[item], "value_inputs": self.values[item]}
        if self.hidden_keys is not None:
            arrays["key_mask"] = (~self.hidden_keys[item]).astype(np.int64)
        if self.mask is not None and self.stored_mask:
            own = self.mask if self.mask.ndim == 2 else self.mask[item * heads : (item + 1) * heads]
            arrays["mask"] = ~own if own.dtype == bool else own
        return arrays


@dataclass
class Case:
    make_module: callable
    make_call: callable  # functions of a random generator and the module
    config: dict = field(default_factory=dict)
    form: str = "safetensors"


def run_module(module, call: Call):
    """-> output [B, n, d], weights [B, h, n, m]"""
    hidden = None if call.hidden_keys is None else torch.tensor(call.hidden_keys)
    if hidden is not None and call.mask is not None and call.mask.dtype != bool:
        hidden = torch.zeros(hidden.shape, dtype=torch.float64).masked_fill(hidden, -torch.inf)
    return module(*call.tensors(), key_padding_mask=hidden, attn_mask=call.attn_mask(), need_weights=True,
                  average_attn_weights=False)  # fmt: skip


class GroupedQuery(torch.nn.Module):
    """Projections for torch.nn.functional.scaled_dot_product_attention with enable_gqa."""

    def __init__(self, d, heads, kv_heads, d_head, d_value):
        super().__init__()
        self.num_heads, self.kv_heads, self.embed_dim = heads, kv_heads, d
        self.q_proj = torch.nn.Linear(d, heads * d_head)
        self.k_proj = torch.nn.Linear(d, kv_heads * d_head)
        self.v_proj = torch.nn.Linear(d, kv_heads * d_value)
        self.out_proj = torch.nn.Linear(heads * d_value, d)
        for parameter in self.parameters():
            torch.nn.init.normal_(parameter, std=0.5)

    def layer(self) -> Layer:
        h, g = self.num_heads, self.kv_heads
        W_O = array(self.out_proj.weight).T
        return Layer(
            split_columns(array(self.q_proj.weight).T, h), split_columns(array(self.k_proj.weight).T, g),
            split_columns(array(self.v_proj.weight).T, g), W_O.reshape(h, -1, W_O.shape[1]),
        )  # fmt: skip

    def attend(self, call: Call):
        x, keys, values = call.tensors()

        def split(projected, heads):
            return projected.unflatten(-1, (heads, -1)).transpose(1, 2)

        q, k = split(self.q_proj(x), self.num_heads), split(self.k_proj(keys), self.kv_heads)
        v = split(self.v_proj(values), self.kv_heads)
        m = k.shape[2]
        allowed = None if call.mask is None else ~call.attn_mask()  # True means "may attend" in this function
        sdpa = partial(torch.nn.functional.scaled_dot_product_attention, attn_mask=allowed, enable_gqa=True)
        # It returns no weights. With unit vectors as values, the output is the weights.
        units = torch.eye(m, dtype=torch.float64).expand(len(k), self.kv_heads, m, m)
        return self.out_proj(sdpa(q, k, v).transpose(1, 2).flatten(-2)), sdpa(q, k, units)


def random_batch(rng, sizes, d):
    return normal(rng, *sizes, d, std=1)


def plain(rng, module):
    return Call(random_batch(rng, (1, 6), module.embed_dim))


def cross(rng, module, batch=1, n=5, m=7):
    return Call(
        random_batch(rng, (batch, n), module.embed_dim),
        random_batch(rng, (batch, m), module.kdim),
        random_batch(rng, (batch, m), module.vdim),
    )


def padded(rng, module):
    call = Call(random_batch(rng, (3, 6), module.embed_dim))
    call.hidden_keys = np.arange(6)[None] >= np.array([6, 4, 1])[:, None]
    return call


def masked(rng, module, mask, **options):
    call = plain(rng, module)
    call.mask = mask(rng, module.num_heads)
    return Call(**vars(call) | options)


def causal(rng, heads, n=6):
    return np.triu(np.ones((n, n), dtype=bool), 1)


def hidden(rng, heads, n=6):
    mask = rng.random((n, n)) < 0.4
    mask[:, 0] = False  # torch returns NaN if no key is visible
    return mask


def added(rng, heads, n=6):
    mask = normal(rng, n, n, std=1)
    mask[hidden(rng, heads)] = -np.inf
    return mask


def hidden_by_head(rng, module):
    call = Call(random_batch(rng, (2, 5), module.embed_dim))
    call.mask = rng.random((2 * module.num_heads, 5, 5)) < 0.4
    call.mask[:, :, 2] = False
    return call


def added_by_head_padded(rng, module):
    call = cross(rng, module, batch=2, n=4, m=6)
    call.mask = normal(rng, 2 * module.num_heads, 4, 6, std=1)
    call.hidden_keys = np.array([[0, 0, 0, 0, 0, 1], [0, 0, 1, 1, 1, 1]], dtype=bool)
    return call


CASES = {
    "mha-self": Case(partial(random_module, 3, 12), plain),
    "mha-no-bias": Case(partial(random_module, 4, 8, bias=False), plain, form="npz"),
    "mha-one-head": Case(partial(random_module, 1, 6), plain),
    "mha-cross": Case(partial(random_module, 2, 10), cross, form="npz"),
    "mha-kdim-vdim": Case(partial(random_module, 3, 9, kdim=5, vdim=14), cross),
    "mha-kdim-no-bias": Case(partial(random_module, 2, 8, kdim=11, bias=False), cross, form="npz"),
    "mha-padded": Case(partial(random_module, 2, 12), padded),
    "mha-causal": Case(
        partial(random_module, 3, 12), partial(masked, mask=causal, stored_mask=False), {"causal": True}, "npz"
    ),
    "mha-bool-mask": Case(partial(random_module, 3, 12), partial(masked, mask=hidden)),
    "mha-float-mask": Case(partial(random_module, 3, 12), partial(masked, mask=added), form="npz"),
    "mha-head-masks": Case(partial(random_module, 4, 8), hidden_by_head),
    "mha-all": Case(partial(random_module, 3, 9, kdim=7, vdim=10), added_by_head_padded, form="npz"),
    "sdpa-multi-query": Case(partial(GroupedQuery, 10, 4, 1, 3, 3), plain, {"kv_heads": 1}),
    "sdpa-grouped": Case(
        partial(GroupedQuery, 12, 6, 2, 4, 4),
        partial(masked, mask=causal, stored_mask=False), {"kv_heads": 2, "causal": True}, "npz",
    ),
    "sdpa-value-width": Case(partial(GroupedQuery, 9, 4, 2, 3, 5), partial(masked, mask=hidden), {"kv_heads": 2}),
}  # fmt: skip


@torch.no_grad()
def make(name: str):
    directory = HERE / name
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    seed = zlib.crc32(name.encode())
    torch.manual_seed(seed)
    rng, case = np.random.default_rng(seed), CASES[name]
    module = case.make_module()
    state = {key: value.detach().clone() for key, value in module.state_dict().items()}
    config = {"heads": module.num_heads} | case.config
    write(directory, config, {key: value.numpy() for key, value in state.items()}, "npz" if case.form == "npz" else "")
    if case.form == "safetensors":
        safetensors.torch.save_file(state, directory / "model.safetensors")
    module = module.double()
    call = case.make_call(rng, module)
    grouped = isinstance(module, GroupedQuery)
    output, pattern = module.attend(call) if grouped else run_module(module, call)
    arrays = analyze_weights([module.layer() if grouped else layer_of(module)])
    for item in range(len(call.x)):
        arrays |= {f"{key}_{item}": value for key, value in call.given(item, module.num_heads).items()}
        arrays |= {f"pattern_{item}": pattern[item].numpy()[None], f"output_{item}": output[item].numpy()[None]}
    largest = float(output.abs().max())
    arrays |= {"bound_pattern": np.float64(1e-5), "bound_output": np.float64(1e-5 * largest)}
    np.savez_compressed(directory / "golden.npz", **arrays)
    size = sum(file.stat().st_size for file in directory.iterdir())
    print(f"{name:20} {size / 1024:4.0f} KiB  {len(call.x)} inputs, largest output {largest:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="of " + ", ".join(CASES) + " (default: all)")
    for name in parser.parse_args().cases or CASES:
        make(name)


if __name__ == "__main__":
    main()
