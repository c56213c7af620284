#!/usr/bin/env python3
"""Makes attributions/NAME.npz: make_attributions.py [CASE...] (default: all; --list prints the names).

Parts of logits and of attention scores by what wrote into the residual stream, by hooks in transformers in float64.
"""
import argparse
import zlib
from pathlib import Path

import numpy as np
import torch
import transformers

from attributions import GatedModel
from intervention_cases import Checkpoint, find_checkpoints
from make_goldens import shortened
from model_reference import load_both

HERE = Path(__file__).resolve().parent
# Models whose softmax reads more than scores: terms of positions are added, or (gpt_oss) the largest one is subtracted.
MORE_THAN_SCORES = ("bloom", "deberta", "falcon-alibi", "gpt_oss", "mpnet", "mpt")
# Cases that differ from another one only in rotary frequencies, storage or hidden keys. deberta-v2 has a convolution,
# which mixes the writers of several positions.
LEFT_OUT = ("llama-", "bloom-padding", "deberta-v2", "gpt_neox-native", "llava-tower-native", "mixtral-packed",
            "opt-padding", "phi3-su", "qwen2_moe-packed")  # fmt: skip


def check_logits(terms: np.ndarray, logits: np.ndarray):
    np.testing.assert_allclose(terms.sum(axis=1), logits, rtol=1e-10, atol=1e-12)


@torch.no_grad()
def check_llama(model: GatedModel, pairs: list, terms: np.ndarray):
    """Compares the parts of heads with products of their z, their rows of W_O, the frozen norm and a column of W_U."""
    whole = model.changed.model
    stream = []
    hook = whole.model.norm.register_forward_pre_hook(lambda _module, args: stream.append(args[0][0]))
    z = model.changed.run(model.inputs).z
    hook.remove()
    norm = whole.model.norm
    for index, (position, token) in enumerate(pairs):
        scale = (stream[0][position].square().mean() + norm.variance_epsilon).rsqrt()
        column = whole.lm_head.weight[token] * norm.weight * scale  # [d]
        for place, of_layer in z.items():
            width = of_layer.shape[2]
            output = whole.model.layers[place[1]].self_attn.o_proj.weight  # [d, h * v]
            expected = [column @ output[:, h * width : (h + 1) * width] @ of_layer[h, position]
                        for h in range(len(of_layer))]  # fmt: skip
            np.testing.assert_allclose(terms[index, model.writers.of_heads(place[1])], expected, rtol=1e-9, atol=1e-12)


def chosen_scores(model: GatedModel) -> list[tuple]:
    """Returns (layer, head, query, key) of a head of the last layer and one of the layer in the middle: from the last
    query to the visible key in the middle. Scores of clamped queries and keys are no sums."""
    if getattr(model.changed.model.config, "clip_qkv", None):
        return []
    layers, heads = model.writers.layers, model.writers.heads
    query = len(model.inputs["input_ids"]) - 1
    chosen = []
    for layer, head in ((layers - 1, heads - 1), (layers // 2, 0)):
        row = model.clean.patterns[model.places[layer]][head, query, :query]
        visible = [key for key in range(query) if row[key] > 0]
        chosen.append((layer, head, query, visible[len(visible) // 2]))
    return chosen


def make(checkpoint: Checkpoint, folder: Path):
    _, double = load_both(checkpoint.directory, getattr(transformers, checkpoint.model_class))
    model = GatedModel(double, checkpoint.inputs)
    ids, logits = checkpoint.inputs["input_ids"], model.clean.logits
    n, vocabulary = logits.shape
    rng = np.random.default_rng(zlib.crc32(f"attributions {checkpoint.name}".encode()))
    best = logits.argmax(dim=1)
    pairs = [(n - 1, int(best[n - 1])), (n - 1, int(rng.integers(vocabulary))), (n // 2, int(best[n // 2])),
             (0, int(rng.integers(vocabulary)))]  # fmt: skip
    of_pairs = np.array([logits[position, token].item() for position, token in pairs])
    logit_terms = np.array([model.logit_terms(*pair) for pair in pairs])
    check_logits(logit_terms, of_pairs)
    if checkpoint.model_class == "LlamaForCausalLM":
        check_llama(model, pairs, logit_terms)
    chosen, score_terms = chosen_scores(model), np.zeros((0, len(model.writers), len(model.writers)))
    for place in chosen:
        terms, score = model.score_terms(*place)
        score_terms = np.concatenate([score_terms, terms[None]])
        if checkpoint.name not in MORE_THAN_SCORES:
            np.testing.assert_allclose(terms.sum(), score, rtol=1e-10, atol=1e-12)
    file = folder / f"{checkpoint.name}.npz"
    file.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(file, ids=ids, positions=[p for p, _ in pairs], tokens=[t for _, t in pairs], logits=of_pairs,
                        logit_terms=shortened(logit_terms),
                        scores=np.array(chosen, dtype=np.int64).reshape(-1, 4), score_terms=shortened(score_terms))  # fmt: skip
    print(f"{checkpoint.name:24} {file.stat().st_size / 1024:6.1f} KiB  logit {of_pairs[0]:.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--out", type=Path, default=HERE / "attributions", help="where the files go")
    options = parser.parse_args()
    checkpoints = {name: checkpoint for name, checkpoint in find_checkpoints().items() if not name.startswith(LEFT_OUT)}
    if options.list:
        print("\n".join(checkpoints))
        return
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for name in options.cases or checkpoints:
        checkpoint = checkpoints[name]()
        if "decoder_input_ids" not in checkpoint.inputs:
            make(checkpoint, options.out)


if __name__ == "__main__":
    main()
