#!/usr/bin/env python3
"""Makes token_circuits/*/golden.npz: the circuits of heads between tokens, W_E OV W_U and W_E QK W_E^T, as whole
matrices in float64 (transformers and NumPy).

Run: python3 tests/golden/make_token_circuits.py
"""

import re

import numpy as np
import torch
import transformers
from make_subspaces import HERE, MODELS, embeddings, form_circuits, layers_of

TOP = 5
TOKENS = 32
SUCCESSIONS = [[3, 4, 5, 6, 7], [20, 12, 14]]


def largest(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the pairs (row, column) of the TOP largest elements, and their values."""
    order = np.argsort(-matrix, axis=None, kind="stable")[:TOP]
    return np.stack(np.unravel_index(order, matrix.shape), -1), matrix.ravel()[order]


def successor(matrix: np.ndarray) -> float:
    found = [
        all(matrix[now, after] > matrix[now, other] for other in tokens if other not in (now, after))
        for tokens in SUCCESSIONS
        for now, after in zip(tokens, tokens[1:], strict=False)
    ]
    return float(np.mean(found))


def previous(model) -> np.ndarray:
    """Returns [layers, heads]: the mean weight on the previous token if all tokens have the mean embedding, and each
    layer reads what the first layer reads."""
    tokens = min(TOKENS, model.config.max_position_embeddings)
    mean = model.get_input_embeddings().weight.mean(0).expand(1, tokens, -1)
    with torch.no_grad():
        x = model(inputs_embeds=mean, output_hidden_states=True).hidden_states[0]
        replace = lambda _module, args: (x, *args[1:])
        layers = [m for m in model.modules() if re.search(r"(Layer|Block)$", type(m).__name__) and m is not model]
        handles = [layer.register_forward_pre_hook(replace) for layer in layers]
        attentions = model(inputs_embeds=mean, output_attentions=True).attentions
    for handle in handles:
        handle.remove()
    return np.stack([a[0].diagonal(-1, 1, 2).mean(-1).numpy() for a in attentions]).ravel()


def model_arrays(directory) -> dict[str, np.ndarray]:
    model_class = getattr(transformers, transformers.AutoConfig.from_pretrained(directory).architectures[0])
    model = model_class.from_pretrained(directory, torch_dtype=torch.float64)
    model.set_attn_implementation("eager")
    W_E, W_U = embeddings(model)
    arrays = {name: [] for name in ("copied", "suppressed", "successor", "promoted", "promoted_pairs", "matched")}
    for layer in layers_of(model):
        for qk, ov in zip(form_circuits(layer, "qk"), form_circuits(layer, "ov"), strict=True):
            logits = W_E @ ov @ W_U
            own = np.diagonal(logits)[:, None]
            arrays["copied"].append(np.mean((logits >= own).sum(1) <= TOP))
            arrays["suppressed"].append(np.mean((logits <= own).sum(1) <= TOP))
            arrays["successor"].append(successor(logits))
            pairs, values = largest(logits)
            arrays["promoted_pairs"].append(pairs)
            arrays["promoted"].append(values)
            arrays["matched"].append(largest(W_E @ qk @ W_E.T)[1])
    arrays["previous"] = previous(model)
    return {name: np.array(values) for name, values in arrays.items()}


def main():
    torch.set_num_threads(1)
    for name, directory in MODELS.items():
        file = HERE / "token_circuits" / name / "golden.npz"
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(file, **model_arrays(directory))
        print(f"{name:24} {file.stat().st_size / 1024:6.0f} KiB")


if __name__ == "__main__":
    main()
