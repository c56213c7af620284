"""Positions computed by NumPy: positions.json (for the tests of the experiment positions)."""

import json
import pathlib

import numpy as np
from safetensors.numpy import load_file

HERE = pathlib.Path(__file__).parent


def sinusoidal(positions, d):
    p = np.arange(positions)[:, None]
    i = np.arange(d)[None, :]
    angles = p / np.power(10000.0, (2 * (i // 2)) / d)
    return np.where(i % 2 == 0, np.sin(angles), np.cos(angles))


def by_distance(rows):
    gram = rows @ rows.T
    diagonals = [np.diagonal(gram, o) for o in range(len(rows))]
    return [x.mean() for x in diagonals], [x.std() for x in diagonals]


def smallest(rows):
    distances = np.linalg.norm(rows[:, None] - rows[None], axis=-1)
    return distances[np.triu_indices(len(rows), 1)].min()


def rotary_kernel(config, positions):
    """Uses transformers' own inverse frequencies of an unscaled configuration."""
    d_head = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    theta = config.get("rope_theta") or config.get("rope_parameters", {}).get("rope_theta", 10000.0)
    inverse = 1.0 / theta ** (np.arange(0, d_head, 2) / d_head)
    return [np.cos(o * inverse).mean() for o in range(positions)]


def main():
    data = HERE.parent.parent / "data"
    pe = sinusoidal(16, 64)
    learned = load_file(data / "tiny-bert" / "model.safetensors")
    learned = learned["bert.embeddings.position_embeddings.weight"].astype(np.float64)[:32]
    mean, deviation = by_distance(learned)
    golden = {
        "sinusoidal_row_5": pe[5].tolist(),
        "sinusoidal_dot_product": by_distance(pe)[0],
        "sinusoidal_smallest_distance": smallest(pe),
        "learned_dot_product": mean,
        "learned_dot_product_deviation": deviation,
        "learned_smallest_distance": smallest(learned),
        "rotary_kernel": rotary_kernel(json.loads((data / "tiny-llama" / "config.json").read_text()), 32),
    }
    (HERE / "positions.json").write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
