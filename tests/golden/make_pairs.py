#!/usr/bin/env python3
"""Makes study/pairs-NAME.json: similarity of all pairs of heads, and rollout to special tokens, over the corpus of
make_study.py.

Everything follows the definitions without shortcuts: the divergence of every row, the kernels of HSIC over all rows,
every matrix of rollout. Patterns and values are those of transformers in float64.
"""
import json

import numpy as np
import torch
import transformers

from float64_mode import float64_throughout
from study_goldens import HERE, MODELS, ROOT


def projections(model):
    """Returns the modules that compute values, layer by layer."""
    layers = model.encoder.layer if hasattr(model, "encoder") else model.layers
    return [layer.attention.self.value if hasattr(layer, "attention") else layer.self_attn.v_proj for layer in layers]


def sentences(name, lines):
    """Returns ids, special tokens, patterns [heads of all layers, n, n], outputs z [heads, n, v], and the number of
    heads per layer."""
    path = ROOT / "data" / name
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    model = MODELS[name].from_pretrained(path, attn_implementation="eager").double().eval()
    values = []
    for module in projections(model):
        module.register_forward_hook(lambda _, __, output: values.append(output[0].detach().numpy()))
    heads = model.config.num_attention_heads
    groups = getattr(model.config, "num_key_value_heads", heads)
    for line in lines:
        encoded = tokenizer(line, return_tensors="pt")
        values.clear()
        with float64_throughout(model, []), torch.no_grad():
            patterns = model(**encoded, output_attentions=True).attentions
        patterns = [p[0].detach().numpy() for p in patterns]
        outputs = []
        for layer, pattern in enumerate(patterns):
            v = values[layer].reshape(len(values[layer]), groups, -1)
            outputs += [pattern[h] @ v[:, h // (heads // groups)] for h in range(heads)]
        ids = encoded["input_ids"][0].tolist()
        names = {i: tokenizer.convert_ids_to_tokens(i) for i in ids if i in tokenizer.all_special_ids}
        yield ids, names, np.concatenate(patterns), np.stack(outputs), heads


def entropy(row):
    row = row[row > 0]
    return -np.sum(row * np.log(row))


def divergence(p, q):
    return sum(entropy((a + b) / 2) - (entropy(a) + entropy(b)) / 2 for a, b in zip(p, q))


def kernel(x):
    """Returns the kernel matrix with a zero diagonal."""
    k = x @ x.T
    np.fill_diagonal(k, 0)
    return k


def hsic(k, l):
    """Song et al. 2012, equation 5."""
    n = len(k)
    return (np.sum(k * l) + k.sum() * l.sum() / ((n - 1) * (n - 2)) - 2 / (n - 2) * np.dot(k.sum(0), l.sum(0))) / (n * (n - 3))


class Rollout:
    def __init__(self, causal):
        self.causal = causal
        self.sums = {}

    def add(self, ids, names, patterns, heads):
        n = len(ids)
        even = np.tril(np.ones((n, n))) if self.causal else np.ones((n, n))
        even /= even.sum(1, keepdims=True)
        rolled, uniform = np.eye(n), np.eye(n)
        targets = {(-1, None): [0]} | {(i, name): [j for j in range(n) if ids[j] == i] for i, name in names.items()}
        for layer in range(len(patterns) // heads):
            rolled = (np.mean(patterns[layer * heads:(layer + 1) * heads], 0) + np.eye(n)) / 2 @ rolled
            uniform = (even + np.eye(n)) / 2 @ uniform
            for (number, token), keys in targets.items():
                of = self.sums.setdefault((layer, number, token), [0, 0, 0])
                for i in range(n):
                    if uniform[i, keys].sum() > 0:
                        of[0] += rolled[i, keys].sum()
                        of[1] += uniform[i, keys].sum()
                        of[2] += 1

    def rows(self):
        for (layer, _, token), (mass, uniform, rows) in sorted(self.sums.items(), key=lambda item: item[0][:2]):
            yield {"layer": layer, "token": token, "position": 0 if token is None else None, "mass": mass / rows,
                   "uniform": uniform / rows, "rows": rows}


def measure(name, lines):
    rollout = Rollout(MODELS[name] is transformers.LlamaModel)
    js = products = 0
    outputs = []
    for ids, names, patterns, z, heads in sentences(name, lines):
        outputs.append(z)
        count = len(patterns)
        pairs = [(a, b) for a in range(count) for b in range(count)]
        rollout.add(ids, names, patterns, heads)
        js += np.array([divergence(patterns[a], patterns[b]) for a, b in pairs]).reshape(count, count)
        products += np.einsum("aij,bij->ab", patterns, patterns)
    outputs = np.concatenate(outputs, 1)
    rows = outputs.shape[1]
    kernels = [kernel(z) for z in outputs]
    criterion = np.array([[hsic(kernels[min(a, b)], kernels[max(a, b)]) for b in range(count)] for a in range(count)])
    names = [f"{h // heads}.{h % heads}" for h in range(count)]
    cosine = lambda m: m / np.sqrt(np.outer(np.diag(m), np.diag(m)))
    matrices = {"js_divergence": js / rows, "frobenius_cosine": cosine(products), "cka": cosine(criterion)}
    return {"pairs": [{"measure": key, "names": names, "rows": rows, "value": [[float(f"{v:.9g}") for v in row] for row in m]}
                      for key, m in matrices.items()],
            "rollout": list(rollout.rows())}


def main():
    torch.set_num_threads(1)
    lines = (HERE / "study" / "corpus.txt").read_text().splitlines()
    for name in MODELS:
        text = json.dumps(measure(name, lines), default=float).replace("}, {", "},\n{").replace("], [", "],\n[")
        (HERE / "study" / f"pairs-{name}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
