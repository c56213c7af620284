#!/usr/bin/env python3
"""Makes mixing/NAME/golden.npz: contributions of heads, norm-based weights, mixing ratios, rollout and flow, by their
definitions.

transformers gives patterns, residual streams and the inputs of the value projections, in float64. The rest is NumPy
with explicit vectors f_h(x_j), and networkx for the flows.
"""
from pathlib import Path

import networkx
import numpy as np
import torch
import transformers

from float64_mode import float64_throughout

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RANKS = (1, 2, 5, 16, 24)
UNIT = 2**50  # capacities are whole multiples of 1 / UNIT, so that networkx uses integers

MODELS = {
    "tiny-bert": (ROOT / "data/tiny-bert", transformers.BertModel),
    "tiny-llama": (ROOT / "data/tiny-llama", transformers.LlamaModel),
    "gpt2": (HERE / "gpt2", transformers.GPT2Model),
    "llama": (HERE / "llama", transformers.LlamaModel),
}


class Layer:
    """x [n, d]: residual stream. read [n, d]: input of the value projection. W_V and W_O of each head."""

    def __init__(self, model, index):
        config = model.config
        if isinstance(model, transformers.BertModel):
            block = model.encoder.layer[index]
            self.value, self.out = block.attention.self.value, block.attention.output.dense
            self.norm = block.attention.output.LayerNorm
            w_v, b_v, w_o = self.value.weight.T, self.value.bias, self.out.weight.T
        elif isinstance(model, transformers.GPT2Model):
            block = model.h[index]
            self.value, self.out, self.norm = block.attn.c_attn, block.attn.c_proj, None
            d = config.n_embd
            w_v, b_v, w_o = self.value.weight[:, 2 * d :], self.value.bias[2 * d :], self.out.weight
        else:
            block = model.layers[index]
            self.value, self.out, self.norm = block.self_attn.v_proj, block.self_attn.o_proj, None
            w_v, b_v, w_o = self.value.weight.T, self.value.bias, self.out.weight.T
        self.heads = config.num_attention_heads
        kv_heads = getattr(config, "num_key_value_heads", self.heads)
        v = w_o.shape[0] // self.heads
        as_numpy = lambda t: t.detach().numpy()
        self.w_o = as_numpy(w_o)
        b_v = as_numpy(b_v) if b_v is not None else np.zeros(w_v.shape[1])
        kv = [h // (self.heads // kv_heads) for h in range(self.heads)]
        self.w_v_heads = [as_numpy(w_v)[:, g * v : (g + 1) * v] for g in kv]
        self.b_v_heads = [b_v[g * v : (g + 1) * v] for g in kv]
        self.w_o_heads = [self.w_o[h * v : (h + 1) * v] for h in range(self.heads)]

    def watch(self):
        def keep(_, inputs):
            self.read = inputs[0][0].detach().numpy()

        def keep_output(_, inputs, output):
            self.z, self.output = inputs[0][0].detach().numpy(), output[0].detach().numpy()

        return [self.value.register_forward_pre_hook(keep), self.out.register_forward_hook(keep_output)]

    def f(self, head):
        """Returns f_h(x_j) for every position [n, d]."""
        return (self.read @ self.w_v_heads[head] + self.b_v_heads[head]) @ self.w_o_heads[head]


def load(directory, model_class):
    model = model_class.from_pretrained(directory, attn_implementation="eager", dtype=torch.float32).double().eval()
    return model, [Layer(model, index) for index in range(model.config.num_hidden_layers)]


def run_layers(model, layers, ids):
    handles = [handle for layer in layers for handle in layer.watch()]
    with torch.no_grad(), float64_throughout(model, []):
        given = model(torch.tensor([ids]), output_attentions=True, output_hidden_states=True, use_cache=False)
    for handle in handles:
        handle.remove()
    for index, layer in enumerate(layers):
        layer.pattern = given.attentions[index][0].numpy()
        layer.stream = given.hidden_states[index][0].numpy()
    return layers


def run(directory, model_class, ids):
    return run_layers(*load(directory, model_class), ids)


def contributions(layer):
    writes = [layer.pattern[h] @ layer.f(h) for h in range(layer.heads)]
    whole = sum(writes)
    norms = np.array([np.linalg.norm(w, axis=1).mean() for w in writes])
    return {
        "norm": norms,
        "norm_share": norms / norms.sum(),
        "cosine": np.array([np.vdot(w, whole) / np.linalg.norm(w) / np.linalg.norm(whole) for w in writes]),
        "share": np.array([np.vdot(w, whole) / np.vdot(whole, whole) for w in writes]),
        "explained": np.array([1 - np.linalg.norm(whole - w) ** 2 / np.linalg.norm(whole) ** 2 for w in writes]),
        "whole_norm": np.linalg.norm(whole, axis=1).mean(),
        "stream_norm": np.linalg.norm(layer.stream, axis=1).mean(),
    }


def output_ranks(layer):
    u, s, vt = np.linalg.svd(layer.w_o, full_matrices=False)
    y = layer.z @ layer.w_o
    cut = [layer.z @ (u[:, :r] * s[:r] @ vt[:r]) for r in RANKS]
    relative = lambda other: np.linalg.norm(other - y) / np.linalg.norm(y)
    return {
        "rank_change": np.array([relative(each) for each in cut]),
        "removed": relative(layer.z) if layer.z.shape == y.shape else np.nan,
    }


def mixing(layer):
    n = len(layer.read)
    f = [layer.f(h) for h in range(layer.heads)]
    mix, keep = np.zeros(n), np.zeros(n)
    for i in range(n):
        from_others = sum(layer.pattern[h, i, j] * f[h][j] for h in range(layer.heads) for j in range(n) if j != i)
        from_others = from_others if n > 1 else np.zeros_like(layer.stream[i])
        own = layer.stream[i] + sum(layer.pattern[h, i, i] * f[h][i] for h in range(layer.heads))
        if layer.norm is not None:
            row = layer.stream[i] + layer.output[i]
            scale = layer.norm.weight.detach().numpy() / np.sqrt(row.var() + layer.norm.eps)
            from_others, own = ((each - each.mean()) * scale for each in (from_others, own))
        mix[i], keep[i] = np.linalg.norm(from_others), np.linalg.norm(own)
    return {"mix": mix, "keep": keep}


def capacities(layers, fuse, residual):
    """Returns A' of each layer."""
    made = []
    for layer in layers:
        a = (1 - residual) * fuse(layer.pattern, axis=0) + residual * np.eye(layer.pattern.shape[1])
        made.append(a / a.sum(axis=1, keepdims=True))
    return made


def rollout(layers, fuse, residual):
    rolled = np.eye(layers[0].pattern.shape[1])
    for a in capacities(layers, fuse, residual):
        rolled = a @ rolled
    return rolled


def flows(layers):
    """Returns [n, n] maximum flows, from above the last layer to below the first one."""
    n = len(layers[0])
    graph = networkx.DiGraph()
    graph.add_nodes_from((level, i) for level in range(len(layers) + 1) for i in range(n))
    for level, a in enumerate(layers):
        for u, v in zip(*np.nonzero(a)):
            graph.add_edge((level + 1, int(u)), (level, int(v)), capacity=round(float(a[u, v]) * UNIT))
    solver = networkx.algorithms.flow.preflow_push
    value = lambda i, j: networkx.maximum_flow_value(graph, (len(layers), i), (0, j), flow_func=solver)
    return np.array([[value(i, j) / UNIT for j in range(n)] for i in range(n)])


def model_golden(name, directory, model_class):
    ids = [3, 7, 12, 5, 19, 7, 2, 23, 11]
    layers = run(directory, model_class, ids)
    arrays = {"ids": np.array(ids), "ranks": np.array(RANKS)}
    for each in (contributions, output_ranks, mixing):
        made = [each(layer) for layer in layers]
        arrays |= {key: np.array([one[key] for one in made]) for key in made[0]}
    norms = [[np.linalg.norm(layer.f(h), axis=1) for h in range(layer.heads)] for layer in layers]
    arrays["norm_weights"] = np.array([layer.pattern for layer in layers]) * np.array(norms)[:, :, None, :]
    for label, fuse, residual in (("mean", np.mean, 0.5), ("max", np.max, 0.5), ("min", np.min, 0.5),
                                  ("mean_tenth", np.mean, 0.1), ("max_none", np.max, 0.0)):
        arrays["rollout_" + label] = rollout(layers, fuse, residual)
    arrays["flow"] = flows(capacities(layers, np.mean, 0.5))
    arrays["last_layer"] = layers[-1].pattern.mean(axis=0)
    save(name, arrays)


def save(name, arrays):
    directory = HERE / "mixing" / name
    directory.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(directory / "golden.npz", **arrays)


def random_graphs():
    """Layers with whole multiples of 1 / UNIT: dense, causal, sparse, and deep."""
    rng = np.random.default_rng(5)
    arrays = {}
    for name, layers, n, density in (("one", 1, 5, 1), ("dense", 3, 7, 1), ("causal", 4, 12, 1),
                                     ("sparse", 4, 20, 0.12), ("uneven", 5, 16, 0.5), ("wide", 2, 70, 0.1)):
        made = []
        for _ in range(layers):
            a = rng.random((n, n)) ** (4 if name == "uneven" else 1) * (rng.random((n, n)) < density)
            a = np.tril(a) if name == "causal" else a
            made.append(np.round(a / max(a.sum(axis=1).max(), 1) * UNIT) / UNIT)
        arrays[name + "_layers"], arrays[name + "_flows"] = np.array(made), flows(made)
    save("flows", arrays)


if __name__ == "__main__":
    random_graphs()
    for case, (path, kind) in MODELS.items():
        model_golden(case, path, kind)
        print(case)
