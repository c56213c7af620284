"""Writes tests/golden/view/: patterns as other programs save them, and expected.json with the metrics of their heads.

The metrics are those of pattern_metrics.py, in float64, of the values as they are stored.
"""
import json
from pathlib import Path

import numpy as np

import pattern_metrics
from pattern_metrics import Input, softmax, special

OUT = Path(__file__).parent / "view"
LAYERS, BATCH, HEADS, N = 2, 2, 3, 6
TOKENS = [["[CLS]", "the", "cat", "sat", ".", "[SEP]"], ["[CLS]", "a", "d\u00f6g", "ran", "[SEP]", "[PAD]"]]
METRICS = ["entropy", "confidence", "distance", "signed_distance", "self", "previous_token", "next_token", "first_token",
           "special_token", "best_offset_share", "rows"]


def scores(rng, *shape):
    """Random scores; those of head 1 are causal."""
    values = rng.normal(0, 2, shape)
    n, m = shape[-2:]
    values[..., 1, :, :][..., np.triu(np.ones((n, m), dtype=bool), 1)] = -np.inf
    return values


def heads(patterns, marks, component=None) -> list[dict]:
    """Returns the metrics of each head. patterns [layers, batch, heads, n, m], marks: (special, end) per input."""
    found = []
    for layer, of_layer in enumerate(patterns):
        inputs = [Input(pattern, np.array(keys), np.array(ends), np.array(key_ends))
                  for pattern, (keys, ends, key_ends) in zip(of_layer, marks)]
        values = pattern_metrics.metrics(inputs)
        for head in range(of_layer.shape[1]):
            name = f"{component}.{layer}.{head}" if component else f"{layer}.{head}"
            numbers = {key: float(values[key][head]) for key in METRICS}
            if component == "cross":  # queries and keys are other tokens, so there is no distance between them
                numbers |= dict.fromkeys(["self", "previous_token", "next_token", "best_offset_share"])
            found.append({"name": name} | numbers)
    return found


def none(n: int, m: int, batch: int = 1):
    return [(special(m), special(n), special(m))] * batch


def of_tokens(tokens):
    ends = [[token == "[SEP]" for token in text] for text in tokens]
    marked = [[token.startswith("[") for token in text] for text in tokens]
    return list(zip(marked, ends, ends))


def main() -> None:
    rng = np.random.default_rng(24)
    OUT.mkdir(exist_ok=True)
    expected = {}

    def save(name: str, found: list[dict], options=(), **arrays) -> None:
        np.savez(OUT / f"{name}.npz", **arrays)
        expected[f"{name}.npz"] = {"options": list(options), "heads": found}

    raw = scores(rng, LAYERS, BATCH, HEADS, N, N)
    patterns = softmax(raw)
    single = patterns.astype(np.float32)
    half = patterns.astype(np.float16)
    tokens = np.array(TOKENS)
    marks = of_tokens(TOKENS)
    plain = none(N, N, BATCH)

    # torch: np.savez(file, *outputs.attentions)
    np.savez(OUT / "torch.npz", *single, tokens=tokens)
    expected["torch.npz"] = {"options": [], "heads": heads(single, marks)}
    # TransformerLens: np.savez(file, **cache)
    cache = {f"blocks.{layer}.attn.hook_pattern": single[layer] for layer in range(LAYERS)}
    cache |= {f"blocks.{layer}.attn.hook_attn_scores": raw[layer].astype(np.float32) for layer in range(LAYERS)}
    cache["hook_embed"] = np.ones((BATCH, N, 4), np.float32)
    save("transformerlens", heads(single, plain), **cache)
    save("scores", heads(softmax(raw.astype(np.float32).astype(np.float64)), plain),
         ["--array", "blocks.#.attn.hook_attn_scores", "--softmax"], **cache)
    # JAX: np.savez(file, attentions=jnp.stack(attentions))
    save("stack", heads(half, plain), attentions=half)
    save("own-names", heads(single, plain), ["--array", "encoder/layer_#/weights"],
         **{f"encoder/layer_{layer}/weights": single[layer] for layer in range(LAYERS)})
    save("layers", heads(single[:, :1], of_tokens(TOKENS[:1])), tokens=tokens[0].astype("S"),
         **{f"layer_{layer}": single[layer, 0] for layer in range(LAYERS)})
    save("one-head", heads(single[:, :1, :1], none(N, N)), **{f"attentions_{layer}": single[layer, 0, 0] for layer in range(LAYERS)})
    # The last token of input 1 is padding.
    mask = np.array([[1] * N, [1] * (N - 1) + [0]])
    cut = single.copy()
    cut[:, 1, :, :, N - 1] = 0
    cut[:, 1] /= cut[:, 1].sum(-1, keepdims=True)
    pooled = [heads_of_inputs(cut[layer], marks, [N, N - 1]) for layer in range(LAYERS)]
    save("padded", [head | {"name": f"{layer}.{index}"} for layer, found in enumerate(pooled) for index, head in enumerate(found)],
         attention_mask=mask, tokens=tokens, **{f"attentions.{layer}": cut[layer] for layer in range(LAYERS)})
    # Cross-attention: 4 queries, 6 keys.
    crossed = softmax(rng.normal(0, 2, (LAYERS, 1, HEADS, 4, N))).astype(np.float32)
    decoder = softmax(scores(rng, LAYERS, 1, HEADS, 4, 4)).astype(np.float32)
    save("encoder-decoder",
         heads(single[:, :1], none(N, N), "enc") + heads(decoder, none(4, 4), "dec") + heads(crossed, none(4, N), "cross"),
         **{f"encoder_attentions_{layer}": single[layer, :1] for layer in range(LAYERS)},
         **{f"decoder_attentions_{layer}": decoder[layer] for layer in range(LAYERS)},
         **{f"cross_attentions_{layer}": crossed[layer] for layer in range(LAYERS)})
    # Arrays without an archive: big-endian and column-major, [layers, heads, n, m], [heads, n, m] and [n, m].
    for name, array in {"four": patterns[:, 0], "three": patterns[0, 0], "two": patterns[0, 0, 0]}.items():
        np.save(OUT / f"{name}.npy", np.asfortranarray(array.astype(">f8")))
        axes = array.reshape((1,) * (4 - array.ndim) + array.shape)[:, None]
        expected[f"{name}.npy"] = {"options": [], "heads": heads(axes, none(N, N))}
    text = json.dumps(expected, indent=1, allow_nan=True).replace("NaN", "null")
    (OUT / "expected.json").write_text(text + "\n")


def heads_of_inputs(of_layer, marks, lengths) -> list[dict]:
    """As heads() for one layer [batch, heads, n, n], but only the first tokens of each input."""
    inputs = [Input(pattern[:, :n, :n], *(np.array(mark[:n]) for mark in mark_of_input))
              for pattern, mark_of_input, n in zip(of_layer, marks, lengths)]
    values = pattern_metrics.metrics(inputs)
    return [{key: float(values[key][head]) for key in METRICS} for head in range(of_layer.shape[1])]


if __name__ == "__main__":
    main()
