"""The cases of bare attention, family `attention`. Each maker writes one directory and returns its arrays.

All stored numbers are float32 values, so reading does not round. The reference computes in float64.
"""
import json
from pathlib import Path

import numpy as np
import safetensors.numpy

from attention_numpy import Layer, attend, causal_mask, sinusoidal
from weights_reference import analyze_weights


def normal(rng, *shape, std=0.5):
    return rng.normal(0, std, shape).astype(np.float32)


def columns(weight):
    """[heads, d, k] -> [d, heads * k], the two-dimensional form"""
    return np.ascontiguousarray(weight.transpose(1, 0, 2).reshape(weight.shape[1], -1))


def rows(weight):
    """[heads, v, d] -> [heads * v, d]"""
    return weight.reshape(-1, weight.shape[2])


def random_layer(rng, h, g, d, k, v, d_out=None, kdim=None, vdim=None, biases=True) -> Layer:
    layer = Layer(normal(rng, h, d, k), normal(rng, g, kdim or d, k), normal(rng, g, vdim or d, v),
                  normal(rng, h, v, d_out or d))  # fmt: skip
    if biases:
        layer.b_q, layer.b_k, layer.b_v = normal(rng, h, k), normal(rng, g, k), normal(rng, g, v)
        layer.b_o = normal(rng, d_out or d)
    return layer


def two_dimensional(layer: Layer, prefix="") -> dict:
    tensors = {"W_q": columns(layer.W_Q), "W_k": columns(layer.W_K), "W_v": columns(layer.W_V), "W_o": rows(layer.W_O)}
    if layer.b_q is not None:
        tensors |= {"b_q": layer.b_q.ravel(), "b_k": layer.b_k.ravel(), "b_v": layer.b_v.ravel(), "b_o": layer.b_o}
    return {prefix + name: value for name, value in tensors.items()}


def in_float64(layer: Layer) -> Layer:
    return Layer(**{k: None if v is None else v.astype(np.float64) for k, v in vars(layer).items()})


def write(directory: Path, config: dict, tensors: dict, form: str):
    """form: "npz", "safetensors", "json" (config and weights in one file) or "config" (no weights)."""
    config = {"model_type": "attention"} | config
    (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    if form == "npz":
        np.savez(directory / "model.npz", **tensors)
    elif form == "safetensors":
        safetensors.numpy.save_file(tensors, directory / "model.safetensors")
    elif form == "json":
        lists = {name: [row.tolist() for row in value] for name, value in tensors.items()}
        (directory / "model.json").write_text(json.dumps({"config": config} | lists) + "\n")


def collect(layers: list[Layer], inputs: list[dict], **options) -> dict:
    """inputs: dicts of embeddings [n, d] and optionally mask, key_inputs [m, kdim] and value_inputs [m, vdim].
    "stored" names those that the golden file keeps (default: all).

    Each layer reads x + output. The arrays get a leading layer axis and the number of the input.
    """
    layers = [in_float64(layer) for layer in layers]
    arrays = analyze_weights(layers)
    for index, given in enumerate(inputs):
        x = given["embeddings"].astype(np.float64)
        results = []
        for layer in layers:
            results.append(
                attend(layer, x, given.get("key_inputs"), given.get("value_inputs"), given.get("mask"), **options)
            )
            if len(layers) > 1:
                x = x + results[-1]["output"]
        for name in results[0]:
            arrays[f"{name}_{index}"] = np.stack([r[name] for r in results])
        kept = given.get("stored", given.keys())
        arrays |= {f"{name}_{index}": given[name] for name in kept}
    return arrays


def causal_input(rng, n, d) -> dict:
    """An input masked by the configuration; no mask is stored."""
    return {"embeddings": normal(rng, n, d, std=1), "mask": causal_mask(n), "stored": ["embeddings"]}


def plain(rng, directory):
    layer = random_layer(rng, h=3, g=3, d=11, k=4, v=5)
    write(directory, {"heads": 3}, two_dimensional(layer), "npz")
    return collect([layer], [{"embeddings": normal(rng, n, 11, std=1)} for n in (6, 1)])


def multi_query(rng, directory):
    layer = random_layer(rng, h=4, g=1, d=10, k=3, v=2)
    write(directory, {"heads": 4, "kv_heads": 1, "causal": True}, two_dimensional(layer), "safetensors")
    return collect([layer], [causal_input(rng, 7, 10)])


def three_dimensional(rng, directory):
    """Grouped heads, another output width, a Fortran-ordered array, biases as [heads, k]."""
    layer = random_layer(rng, h=4, g=2, d=9, k=3, v=5, d_out=7)
    tensors = {"W_q": layer.W_Q, "W_k": np.asfortranarray(layer.W_K), "W_v": layer.W_V, "W_o": layer.W_O,
               "b_q": layer.b_q, "b_k": layer.b_k, "b_v": layer.b_v, "b_o": layer.b_o}  # fmt: skip
    write(directory, {"heads": 4, "kv_heads": 2}, tensors, "npz")
    return collect([layer], [{"embeddings": normal(rng, 6, 9, std=1)}])


def linear_names(rng, directory):
    """[out, in] as modules save it, all square: only the names determine the orientation."""
    layer = random_layer(rng, h=3, g=3, d=12, k=4, v=4)
    flat = two_dimensional(layer)
    tensors = {f"w_{p}.weight": np.ascontiguousarray(flat[f"W_{p}"].T) for p in "qkvo"}
    tensors |= {f"w_{p}.bias": flat[f"b_{p}"] for p in "qkvo"}
    write(directory, {"heads": 3}, tensors, "safetensors")
    return collect([layer], [{"embeddings": normal(rng, 5, 12, std=1)}])


WORDS = ["the", "animal", "didn't", "cross", "street", "because", "it", "was", "too", "tired", "."]


def json_weights(rng, directory):
    layer = random_layer(rng, h=2, g=2, d=6, k=3, v=3, biases=False)
    embedding = normal(rng, len(WORDS), 6, std=1)
    write(directory, {"heads": 2, "vocab": WORDS}, two_dimensional(layer) | {"embedding": embedding}, "json")
    ids = [np.array([0, 1, 2, 3, 0, 4, 5, 6, 7, 8, 9, 10]), np.array([6])]
    return collect([layer], [{"embeddings": embedding[i], "ids": i, "stored": ["ids"]} for i in ids])


def sinusoidal_position(rng, directory):
    """Given keys and values get no position: in cross-attention they are the output of another stack."""
    layer = random_layer(rng, h=2, g=2, d=10, k=5, v=5)
    embedding = normal(rng, 13, 10, std=1)
    config = {"heads": 2, "position": "sinusoidal"}
    write(directory, config, two_dimensional(layer) | {"embedding": embedding}, "safetensors")
    ids = rng.integers(0, 13, 12)
    x = embedding[ids] + sinusoidal(12, 10)
    cross = {"embeddings": x[:5], "ids": ids[:5], "key_inputs": normal(rng, 7, 10, std=1),
             "value_inputs": normal(rng, 7, 10, std=1), "stored": ["ids", "key_inputs", "value_inputs"]}  # fmt: skip
    return collect([layer], [{"embeddings": x, "ids": ids, "stored": ["ids"]}, cross])


def without_keys(rng, directory):
    """No W_k: W_q is used. No W_o: the output is the concatenation of the heads. The circuit OV needs W_o, so it is
    not stored."""
    layer = random_layer(rng, h=3, g=3, d=8, k=4, v=2, biases=False)
    write(directory, {"heads": 3}, {"W_q": columns(layer.W_Q), "W_v": columns(layer.W_V)}, "npz")
    layer.W_K, layer.W_O = layer.W_Q, None
    return collect([layer], [{"embeddings": normal(rng, 6, 8, std=1)}])


def queries_and_keys(rng, directory):
    """Only W_q and W_k: patterns, no values, no output, no OV."""
    layer = random_layer(rng, h=2, g=2, d=9, k=4, v=1, biases=False)
    write(directory, {"heads": 2}, {"W_q": columns(layer.W_Q), "W_k": columns(layer.W_K)}, "npz")
    layer.W_V = layer.W_O = None
    return collect([layer], [{"embeddings": normal(rng, 5, 9, std=1)}])


def masks(rng, directory):
    """Given masks override the config's causal: float [n, m] with -inf and a row without keys; boolean [h, n, m]."""
    h, n = 2, 6
    layer = random_layer(rng, h=h, g=h, d=8, k=4, v=4)
    write(directory, {"heads": h, "causal": True}, two_dimensional(layer), "npz")
    added = normal(rng, n, n, std=1)
    added[rng.random((n, n)) < 0.3] = -np.inf
    added[3] = -np.inf
    inputs = [{"embeddings": normal(rng, n, 8, std=1), "mask": added}]
    for _ in range(2):
        allowed = rng.random((h, n, n)) < 0.6
        allowed[1, 2] = False
        inputs.append({"embeddings": normal(rng, n, 8, std=1), "mask": allowed})
    return collect([layer], inputs)


def two_layers(rng, directory):
    layers = [random_layer(rng, h=3, g=1, d=8, k=5, v=3) for _ in range(2)]
    tensors = {k: v for i, layer in enumerate(layers) for k, v in two_dimensional(layer, f"layers.{i}.").items()}
    write(directory, {"heads": 3, "kv_heads": 1, "layers": 2, "scale": 0.35, "causal": True}, tensors, "safetensors")
    return collect(layers, [causal_input(rng, n, 8) for n in (7, 2)], scale=0.35)


def tied(rng, directory):
    """Head i uses slice head_slices[i] of W_q, W_k and W_v, in any order; W_o has one slice per head."""
    slices = [1, 0, 1, 2]
    stored = random_layer(rng, h=3, g=3, d=10, k=4, v=3, biases=True)
    stored.W_O = normal(rng, 4, 3, 10)
    write(directory, {"heads": 4, "head_slices": slices}, two_dimensional(stored), "npz")
    names = ("W_Q", "W_K", "W_V", "b_q", "b_k", "b_v")
    layer = Layer(**vars(stored) | {name: getattr(stored, name)[slices] for name in names})
    return collect([layer], [{"embeddings": normal(rng, 6, 10, std=1)}])


def factors(rng, rows, rank, columns):
    """Two factors whose product has entries of deviation 0.3, for any rank."""
    std = (0.3 / rank**0.5) ** 0.5
    return normal(rng, rows, rank, std=std), normal(rng, rank, columns, std=std)


def by_heads(weight, heads):
    """[d, heads * k] -> [heads, d, k]"""
    return weight.reshape(len(weight), heads, -1).transpose(1, 0, 2)


def product(pair):
    return pair[0].astype(np.float64) @ pair[1].astype(np.float64)


def factorised(rng, directory):
    """W = A B as two tensors. Layer 0: all four projections, with ranks below, at and above the width of a head.
    Layer 1: the queries, per head, and the output; keys and values are whole. 4 heads on 2."""
    h, g, d, k, v = 4, 2, 12, 3, 5
    q, kk, vv, o = (factors(rng, *shape) for shape in ((d, 2, h * k), (d, 3, g * k), (d, 7, g * v), (h * v, 6, d)))
    first = random_layer(rng, h, g, d, k, v)
    first.W_Q, first.W_K, first.W_V = by_heads(product(q), h), by_heads(product(kk), g), by_heads(product(vv), g)
    first.W_O = product(o).reshape(h, v, d)
    tensors = {f"layers.0.W_{p}_{f}": a for p, pair in zip("qkvo", (q, kk, vv, o)) for f, a in zip("ab", pair)}
    tensors |= {f"layers.0.b_{p}": getattr(first, f"b_{p}").ravel() for p in "qkvo"}

    second = random_layer(rng, h, g, d, k, v, biases=False)
    tensors |= {f"layers.1.W_{p}": value for p, value in (("k", columns(second.W_K)), ("v", columns(second.W_V)))}
    q, o = factors(rng, d, 4, h * k), factors(rng, h * v, 3, d)
    second.W_Q, second.W_O = by_heads(product(q), h), product(o).reshape(h, v, d)
    tensors |= {"layers.1.W_q_a": q[0], "layers.1.W_q_b": np.ascontiguousarray(by_heads(q[1], h))}
    tensors |= {"layers.1.W_o_a": o[0].reshape(h, v, -1), "layers.1.W_o_b": o[1]}
    write(directory, {"heads": h, "kv_heads": g, "layers": 2, "causal": True}, tensors, "safetensors")
    return collect([first, second], [causal_input(rng, n, d) for n in (7, 3)])


def tied_factorised(rng, directory):
    """Two of three stored slices of a factorised W_q, also used for the keys; no W_o."""
    h, d, k, v, slices = 3, 9, 4, 2, [2, 0, 2]
    q = factors(rng, d, 5, 3 * k)
    w_v = normal(rng, 3, d, v)
    config = {"heads": h, "head_slices": slices, "d_head": k}
    write(directory, config, {"W_q_a": q[0], "W_q_b": q[1], "W_v": columns(w_v)}, "npz")
    W_Q = by_heads(product(q), 3)[slices]
    return collect([Layer(W_Q, W_Q, w_v[slices])], [{"embeddings": normal(rng, 5, d, std=1)}])


CASES = {
    "attention": plain,
    "attention-multi-query": multi_query,
    "attention-3d": three_dimensional,
    "attention-linear": linear_names,
    "attention-json": json_weights,
    "attention-sinusoidal": sinusoidal_position,
    "attention-no-wk": without_keys,
    "attention-qk-only": queries_and_keys,
    "attention-masks": masks,
    "attention-layers": two_layers,
    "attention-tied": tied,
    "attention-factorised": factorised,
    "attention-tied-factorised": tied_factorised,
}
