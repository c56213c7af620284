#!/usr/bin/env python3
"""Makes experiments/golden.npz and experiments/MODEL/golden.npz.

The first holds gradients of one attention layer by torch's autograd, and mean entropies of rows of normal scores by
SciPy's integrals and by sampling. The second holds the gradient of a logit of the golden models, by autograd through
transformers.
"""
import math
from pathlib import Path

import numpy as np
import torch
import transformers
from scipy.integrate import dblquad, quad

from float64_mode import float64_throughout
from model_reference import OUTPUT_PROJECTIONS, load_both

HERE = Path(__file__).resolve().parent / "experiments"
MODELS = {"bert": "BertForMaskedLM", "albert": "AlbertForMaskedLM", "gpt2": "GPT2LMHeadModel",
          "gpt2-unscaled": "GPT2LMHeadModel", "llama": "LlamaForCausalLM", "llama-f16": "LlamaForCausalLM",
          "qwen3": "Qwen3ForCausalLM", "roberta": "RobertaForMaskedLM"}
HEADS, N, D, K, V = 2, 5, 6, 3, 4


def normal_density(*values) -> float:
    return math.exp(-sum(g * g for g in values) / 2) / (2 * math.pi) ** (len(values) / 2)


def entropy_of(scores) -> float:
    weights = np.exp(np.array(scores) - max(scores))
    weights /= weights.sum()
    return float(-sum(w * math.log(w) for w in weights if w > 0))


def two_keys(tau: float) -> float:
    """Only the difference of the two scores matters; it is normal with variance 2."""
    end = min(12.0, 800 / tau)
    value, _ = quad(lambda g: entropy_of([0, tau * math.sqrt(2) * g]) * normal_density(g), 0, end,
                    points=[min(1 / tau, end / 2)], limit=1000, epsabs=1e-13)
    return 2 * value


def three_keys(tau: float) -> float:
    """Two differences of the three scores matter: coordinates in an orthonormal basis of their plane."""
    def integrand(b, a):
        scores = [tau * (a / math.sqrt(2) + b / math.sqrt(6)), tau * (-a / math.sqrt(2) + b / math.sqrt(6)),
                  -2 * tau * b / math.sqrt(6)]
        return entropy_of(scores) * normal_density(a, b)
    return dblquad(integrand, -9, 9, -9, 9, epsabs=1e-9)[0]


def sampled(tau: float, keys: int, rows: int, rng) -> tuple[float, float]:
    """Returns the mean and its standard error."""
    scores = tau * rng.standard_normal((rows, keys))
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    entropies = -(weights * np.log(np.where(weights > 0, weights, 1))).sum(axis=1)
    return entropies.mean(), entropies.std() / math.sqrt(rows)


def entropies() -> dict:
    exact = [(2, tau, two_keys(tau)) for tau in (0.01, 0.3, 0.99, 1.0, 2.5, 7.9, 8.1, 40.0, 300.0)]
    exact += [(3, tau, three_keys(tau)) for tau in (0.5, 1.0, 4.0)]
    rng = np.random.default_rng(5)
    drawn = [(keys, tau, *sampled(tau, keys, 2**24 // keys, rng)) for keys in (16, 512) for tau in (0.7, 1.0, 3.0, 12.0)]
    return {"entropy_exact": np.array(exact), "entropy_sampled": np.array(drawn)}


def gradients() -> dict:
    torch.manual_seed(11)
    draw = lambda *shape: torch.randn(*shape, dtype=torch.float64)  # noqa: E731
    x, d_output = draw(N, D), draw(N, D)
    query, key, value, output = draw(HEADS, D, K), draw(HEADS, D, K), draw(HEADS, D, V), draw(HEADS, V, D)
    made = {"x": x, "d_output": d_output, "query": query, "key": key, "value": value, "output": output}
    for name, scale in (("unscaled", 1.0), ("scaled", K**-0.5)):
        routes = torch.zeros(HEADS, 3, N, D, dtype=torch.float64)
        for h in range(HEADS):
            ways = [x.clone().requires_grad_() for _ in range(3)]
            z = torch.nn.functional.scaled_dot_product_attention(
                ways[0] @ query[h], ways[1] @ key[h], ways[2] @ value[h], scale=scale)
            (z @ output[h] * d_output).sum().backward()
            routes[h] = torch.stack([way.grad for way in ways])
        whole = x.clone().requires_grad_()
        z = torch.nn.functional.scaled_dot_product_attention(whole @ query, whole @ key, whole @ value, scale=scale)
        (torch.einsum("hnv,hvd->nd", z, output) * d_output).sum().backward()
        made |= {f"routes_{name}": routes, f"whole_{name}": whole.grad}
    return {name: tensor.numpy() for name, tensor in made.items()}


def logit_gradient(model, inputs: dict, position: int) -> dict:
    """For the largest logit at `position`: d logit / dz [layers, h, n, v], and d logit / d token embedding [n,
    width]."""
    kept = []

    def keep(tensor):
        tensor.retain_grad()
        kept.append(tensor)

    hooks = [m.register_forward_pre_hook(lambda _m, args: keep(args[0])) for n, m in model.named_modules()
             if n.endswith(OUTPUT_PROJECTIONS)]
    hooks.append(model.get_input_embeddings().register_forward_hook(lambda _m, _args, out: keep(out)))
    with float64_throughout(model, []):
        logits = model(**{key: torch.as_tensor(value)[None] for key, value in inputs.items()}).logits[0, position]
    token = int(logits.argmax())
    logits[token].backward()
    for hook in hooks:
        hook.remove()
    embedding, *zs = kept
    n, heads = embedding.shape[1], model.config.num_attention_heads
    d_z = torch.stack([z.grad[0].reshape(n, heads, -1).transpose(0, 1) for z in zs])
    made = {"d_z": d_z, "d_embedding": embedding.grad[0], "embedding": embedding[0].detach(), "logit": logits[token].detach()}
    return {name: tensor.numpy() for name, tensor in made.items()} | {"position": np.int64(position), "token": np.int64(token)}


def model_gradients(name: str) -> dict:
    """Returns the gradients at the middle position of every input of the model's golden.npz."""
    directory = HERE.parent / name
    _, model = load_both(directory, getattr(transformers, MODELS[name]))
    given = np.load(directory / "golden.npz")
    arrays = {}
    index = 0
    while f"ids_{index}" in given:
        inputs = {"input_ids": given[f"ids_{index}"]}
        for stored, key in (("token_type_ids", "token_type_ids"), ("key_mask", "attention_mask")):
            if f"{stored}_{index}" in given:
                inputs[key] = given[f"{stored}_{index}"]
        gradient = logit_gradient(model, inputs, len(inputs["input_ids"]) // 2)
        arrays |= {f"{key}_{index}": value for key, value in gradient.items()}
        index += 1
    return arrays


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    for name in MODELS:
        (HERE / name).mkdir(exist_ok=True)
        np.savez_compressed(HERE / name / "golden.npz", **model_gradients(name))
    np.savez(HERE / "golden.npz", **gradients(), **entropies())
