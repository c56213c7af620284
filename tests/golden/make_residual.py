#!/usr/bin/env python3
"""Makes study/residual-NAME.json: the expected result of `attnctl study --measures residual` over study/corpus.txt, and
over study/residual-planted.jsonl for the model sinks/planted/model, whose first token writes a massive activation.

transformers gives patterns, residual streams and the inputs of the value projections, in float64. The rest is NumPy.
"""
import json
from collections import Counter

import numpy as np
import scipy.stats
import torch
import transformers

from make_intervals import error_of
from make_mixing import load, run_layers
from make_sinks import PLANTED
from study_goldens import HERE, MODELS, ROOT, head_keys, write_golden, write_goldens

IDLE = 0.01  # --idle-ratio
DIMENSIONS = 5


def mean_with_interval(sums, counts):
    """The mean of all positions, and its interval over sentences by Student's t."""
    a, b = np.array(sums), np.array(counts)
    mean = a.sum() / b.sum()
    half = scipy.stats.t.ppf(0.975, len(a) - 1) * error_of(mean, a, b)
    return {"write_ratio": mean, "low": max(0.0, mean - half), "high": mean + half, "count": int(b.sum()),
            "idle": bool(mean < IDLE)}


class Massive:
    """Massive values of the stream before one layer."""

    def __init__(self):
        self.sentences, self.largest, self.positions, self.dimensions = [], 0.0, [], Counter()

    def add(self, stream):
        sizes = np.abs(stream)
        median = np.median(sizes)
        limit = max(100, 1000 * median)
        assert (np.abs(sizes / limit - 1) > 1e-3).all(), "a value is too near to the limit for float32"
        where = np.argwhere(sizes > limit)
        self.sentences.append(len(where) > 0)
        self.positions += sorted({int(i) for i, _ in where})
        self.dimensions.update(int(d) for _, d in where)
        self.largest = max(self.largest, sizes.max() / median)

    def record(self):
        return {"sentences": len(self.sentences), "massive_sentences": sum(self.sentences),
                "massive_positions": len(self.positions),
                "first_share": float(self.positions.count(0) / len(self.positions)) if self.positions else None,
                "largest_ratio": self.largest}

    def most_frequent(self):
        return sorted(self.dimensions.items(), key=lambda item: (-item[1], item[0]))[:DIMENSIONS]


def study(directory, model_class, sentences):
    model, layers = load(directory, model_class)
    ratios = {}
    massive = [Massive() for _ in layers]
    for ids in sentences:
        for index, layer in enumerate(run_layers(model, layers, ids)):
            massive[index].add(layer.stream)
            stream = np.linalg.norm(layer.stream, axis=1)
            assert (stream > 0).all()
            for head in range(layer.heads):
                written = np.linalg.norm(layer.pattern[head] @ layer.f(head), axis=1)
                ratios.setdefault((index, head), []).append((written / stream).sum())
    counts = [len(ids) for ids in sentences]
    writes = [head_keys(*head) | mean_with_interval(sums, counts) for head, sums in sorted(ratios.items())]
    return {
        "writes": writes,
        "massive": [{"layer": index} | each.record() for index, each in enumerate(massive)],
        "massive_dimensions": [{"layer": index, "dimension": dimension, "count": count}
                               for index, each in enumerate(massive) for dimension, count in each.most_frequent()]}


def of_corpus(name, lines):
    path = ROOT / "data" / name
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    return study(path, MODELS[name], [tokenizer(line)["input_ids"] for line in lines])


def planted_sentences():
    """Sentences of 2 to 16 ids: token 0 is the first token of some, a later token of others, and in the rest absent."""
    draw = np.random.default_rng(7)
    sentences = []
    for number in range(40):
        ids = draw.integers(1, 24, draw.integers(2, 17)).tolist()
        if number % 3 == 0:
            ids[0] = 0
        if number % 4 == 1:
            ids[draw.integers(1, len(ids))] = 0
        sentences.append(ids)
    return sentences


if __name__ == "__main__":
    write_goldens("residual-", of_corpus)
    torch.set_num_threads(1)
    planted = planted_sentences()
    (HERE / "study" / "residual-planted.jsonl").write_text("".join(json.dumps({"ids": ids}) + "\n" for ids in planted))
    write_golden("residual-planted", study(PLANTED, transformers.GPT2Model, planted))
