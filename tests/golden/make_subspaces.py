#!/usr/bin/env python3
"""Makes subspaces/*/golden.npz: angles, composition, copying and maps of heads, by their definitions.

Every matrix is formed, and every decomposition is SciPy's or NumPy's, in float64: angles by
scipy.linalg.subspace_angles, composition from d x d products, copying from the eigenvalues of the whole vocabulary x
vocabulary matrix, trees by scipy.cluster.hierarchy, maps by numpy.linalg.eigh.
"""
import json
from pathlib import Path

import numpy as np
import scipy.cluster.hierarchy as hierarchy
import scipy.linalg
import torch
import transformers
from scipy.spatial.distance import squareform

import check_textbook
from model_heads import array, layers_of, linear
from weights_reference import LayerHeads, cosines, effective_rank, form_circuits

HERE = Path(__file__).resolve().parent
# The vocabulary of a bundled model is too large for the eigenvalues of V x V matrices. The nonzero eigenvalues of the
# d x d matrix OV W_U W_E are the same.
MODELS = {
    "tiny-llama": HERE.parents[1] / "data" / "tiny-llama",
    "tiny-bert": HERE.parents[1] / "data" / "tiny-bert",
    "llama": HERE / "llama",  # grouped queries, separate head
    "albert": HERE / "albert",  # embeddings narrower than the model, shared layers
    "gpt2": HERE / "gpt2",
}
WHOLE = 100  # largest vocabulary for which the whole matrix is decomposed


def projections(layers: list[LayerHeads]) -> dict[str, list[np.ndarray]]:
    """Returns, for all heads layer by layer, matrices whose columns span the subspace of the head."""
    heads = [(layer, i, i // (len(layer.W_Q) // len(layer.W_K))) for layer in layers for i in range(len(layer.W_Q))]
    return {
        "w_q": [x.W_Q[i] for x, i, _ in heads],
        "w_k": [x.W_K[g] for x, _, g in heads],
        "w_v": [x.W_V[g] for x, _, g in heads],
        "w_o": [x.W_O[i].T for x, i, _ in heads],
    }


def pair_cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.cos(scipy.linalg.subspace_angles(a, b))[::-1]  # SciPy returns angles in descending order


def angle_arrays(name: str, spaces: list[np.ndarray], heads: int) -> dict[str, np.ndarray]:
    count = len(spaces)
    kernel = np.empty((count, count))
    angles = {}
    for a in range(count):
        for b in range(count):
            angles[a, b] = pair_cosines(spaces[a], spaces[b])
            ranks = [np.linalg.matrix_rank(x) for x in (spaces[a], spaces[b])]
            kernel[a, b] = (angles[a, b] ** 2).sum() / np.sqrt(ranks[0] * ranks[1])
    first = np.array([[angles[a, b] for b in range(heads)] for a in range(heads)])
    return {
        f"{name}_effective_rank": np.array([effective_rank(np.linalg.svd(x, compute_uv=False)) for x in spaces]),
        f"{name}_kernel": kernel,
        f"{name}_cosines": first,  # of layer 0
    }


def composition_arrays(layers: list[LayerHeads]) -> dict[str, np.ndarray]:
    qk = [form_circuits(x, "qk") for x in layers]
    ov = [form_circuits(x, "ov") for x in layers]
    heads = [(layer, i) for layer in range(len(layers)) for i in range(len(layers[layer].W_Q))]
    arrays = {f"{kind}_composition": np.full((len(heads), len(heads)), np.nan) for kind in "qkv"}
    for a, (early, i) in enumerate(heads):
        for b, (late, j) in enumerate(heads):
            if early >= late:
                continue
            for kind, met in (("q", qk[late][j]), ("k", qk[late][j].T), ("v", ov[late][j])):
                norms = np.linalg.norm(ov[early][i]) * np.linalg.norm(met)
                arrays[f"{kind}_composition"][a, b] = np.linalg.norm(ov[early][i] @ met) / norms
    return arrays


def embeddings(model) -> tuple[np.ndarray, np.ndarray]:
    """Returns W_E [V, d] and W_U [d, V]."""
    W_E = array(model.get_input_embeddings().weight)
    W_U = array(model.get_output_embeddings().weight).T
    if model.config.model_type == "albert":
        W_E = W_E @ linear(model.base_model.encoder.embedding_hidden_mapping_in)
        W_U = linear(model.predictions.dense) @ W_U
    return W_E, W_U


def copying(model, layers: list[LayerHeads]) -> np.ndarray:
    W_E, W_U = embeddings(model)
    scores = []
    for layer in layers:
        for ov in form_circuits(layer, "ov"):
            whole = W_E @ ov @ W_U if len(W_E) <= WHOLE else ov @ (W_U @ W_E)
            values = np.linalg.eigvals(whole)
            scores.append(values.sum().real / np.abs(values).sum())
    return np.array(scores)


def map_arrays(name: str, similarity: np.ndarray) -> dict[str, np.ndarray]:
    distances = 1 - similarity
    np.fill_diagonal(distances, 0)
    distances = (distances + distances.T) / 2
    linkage = hierarchy.linkage(squareform(distances), "average")
    n = len(distances)
    centre = np.eye(n) - np.full((n, n), 1 / n)
    values, vectors = np.linalg.eigh(-0.5 * centre @ distances**2 @ centre)
    points = vectors[:, [-1, -2]] * np.sqrt(np.maximum(values[[-1, -2]], 0))
    points *= np.sign(points[np.abs(points).argmax(0), [0, 1]])
    drawn = np.linalg.norm(points[:, None] - points[None], axis=-1)
    return {
        f"{name}_similarity": similarity,
        f"{name}_linkage": linkage,
        f"{name}_leaves": hierarchy.leaves_list(linkage),
        f"{name}_points": points,
        f"{name}_stress": np.sqrt(((distances - drawn) ** 2).sum() / (distances**2).sum()),
        f"{name}_share": np.maximum(values[[-1, -2]], 0).sum() / np.abs(values).sum(),
    }


def model_arrays(directory: Path) -> dict[str, np.ndarray]:
    model_class = getattr(transformers, transformers.AutoConfig.from_pretrained(directory).architectures[0])
    model = model_class.from_pretrained(directory, torch_dtype=torch.float64)
    layers = layers_of(model)
    arrays = {"heads": np.array(len(layers[0].W_Q))}
    for name, spaces in projections(layers).items():
        arrays |= angle_arrays(name, spaces, len(layers[0].W_Q))
    arrays |= composition_arrays(layers)
    arrays["ov_copying"] = copying(model, layers)
    if model.config.model_type == "albert":
        return arrays  # layers share heads: distances are 0 or rounding errors
    for circuit in ("qk", "ov"):
        arrays |= map_arrays(circuit, cosines(np.concatenate([form_circuits(x, circuit) for x in layers])))
    return arrays


def tie_arrays() -> dict[str, np.ndarray]:
    """Distances with few values, so that trees depend on how ties are broken."""
    rng = np.random.default_rng(17)
    arrays = {}
    for index in range(24):
        n = 2 + index % 12
        distances = np.triu(rng.integers(1, 4, (n, n)), 1) / 4
        distances = distances + distances.T
        linkage = hierarchy.linkage(squareform(distances), "average")
        arrays |= {f"distances_{index}": distances, f"linkage_{index}": linkage,
                   f"leaves_{index}": hierarchy.leaves_list(linkage)}  # fmt: skip
    return arrays


def make_textbook(name: str, specialised: bool):
    """Bare attention with weights drawn as in the textbook, and the results of its code."""
    W_q, W_k = check_textbook.draw(d=32, heads=4, seed=5, specialised=specialised)
    similarity, ranks, _, _ = check_textbook.analyse(W_q, W_k)
    save(name, {"similarity": np.asarray(similarity), "effective_ranks": np.asarray(ranks)})
    np.savez_compressed(HERE / "subspaces" / name / "model.npz", W_q=W_q.numpy(), W_k=W_k.numpy())
    config = {"model_type": "attention", "heads": len(W_q)}
    (HERE / "subspaces" / name / "config.json").write_text(json.dumps(config) + "\n")


def save(name: str, arrays: dict):
    file = HERE / "subspaces" / name / "golden.npz"
    file.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(file, **arrays)
    print(f"{name:24} {file.stat().st_size / 1024:6.0f} KiB")


def main():
    torch.set_num_threads(1)
    for name, directory in MODELS.items():
        save(name, model_arrays(directory))
    save("ties", tie_arrays())
    make_textbook("textbook-random", specialised=False)
    make_textbook("textbook-specialised", specialised=True)


if __name__ == "__main__":
    main()
