#!/usr/bin/env python3
"""Makes study/rare-NAME.json: the expected result of `attnctl study --measures rare,repeats --null-shuffle 2` over
study/corpus.txt, by docs/study.md. Patterns are those of transformers in float64; tokens are counted and shuffled
independently of attnctl.
"""
from collections import Counter

import numpy as np

from make_roles import Ratio, Study
from shuffled_tokens import Blocks, shuffled
from study_goldens import head_keys, write_goldens

BLOCK_TOKENS, REPETITIONS, SEED = 500, 2, 0


class Rare:
    """For one head: the terms of each sentence, and peaks."""

    def __init__(self):
        self.ratio, self.peaks, self.without = Ratio(), 0, 0

    def add(self, pattern, targets, causal):
        terms = []
        for i, row in enumerate(pattern):
            visible = [j for j in range(len(row)) if j <= i or not causal]
            keys = [j for j in targets if j in visible]
            if not keys or len(keys) == len(visible):
                self.without += 1
                continue
            terms.append((sum(row[j] for j in keys), len(keys) / len(visible)))
            self.peaks += int(np.argmax(row)) in keys
        self.ratio.add(terms)


class Share:
    def __init__(self):
        self.weight, self.total = 0.0, 0.0

    def add(self, row, keys):
        if keys:
            self.weight += sum(row[j] for j in keys)
            self.total += row.sum()


class Repeats:
    def __init__(self):
        self.kinds = {kind: Share() for kind in ("previous", "duplicate", "induction")}

    def add(self, pattern, ids, causal):
        for i, row in enumerate(pattern):
            same = [j for j in range(i) if ids[j] == ids[i]]
            self.kinds["previous"].add(row, [i - 1] if i else [])
            self.kinds["duplicate"].add(row, same)
            self.kinds["induction"].add(row, [j + 1 for j in same if j + 1 <= i or not causal])


def make(name, lines):
    study = Study(name)
    sentences = [study.tokenizer(line)["input_ids"] for line in lines]
    counts = Counter(token for ids in sentences for token in ids if token not in study.special)
    blocks = Blocks(BLOCK_TOKENS)
    heads = {}
    for ids in sentences:
        ordinary = [i for i, token in enumerate(ids) if token not in study.special]
        least = min((counts[ids[i]] for i in ordinary), default=0)
        targets = [i for i in ordinary if counts[ids[i]] == least]
        place = blocks.add(len(ids))
        orders = [shuffled(ids, ordinary, SEED, repetition, *place) for repetition in range(REPETITIONS)]
        for number, order in enumerate([ids] + orders):
            said = "shuffled" if number else "text"
            for head, pattern in study.patterns(order).items():
                of = heads.setdefault(head, {"text": (Rare(), Repeats()), "shuffled": (Rare(), Repeats())})[said]
                of[0].add(pattern, targets, study.causal)
                of[1].add(pattern, ids, study.causal)
    document = {"rare": [], "repeats": []}
    for (layer, h), of in sorted(heads.items()):
        rare, twin = of["text"][0], of["shuffled"][0]
        found = rare.ratio.found()
        document["rare"].append(head_keys(layer, h) | {
            "weight": found["score"], "low": found["low"], "high": found["high"],
            "uniform": found["null"], "shuffled": twin.ratio.found()["score"], "peaks": rare.peaks / found["count"],
            "rows": found["count"], "rows_without": rare.without})
        for kind, share in of["text"][1].kinds.items():
            other = of["shuffled"][1].kinds[kind]
            document["repeats"].append(head_keys(layer, h) | {"kind": kind, "share": share.weight / share.total,
                                                              "shuffled": other.weight / other.total})
    return document


if __name__ == "__main__":
    write_goldens("rare-", make)
