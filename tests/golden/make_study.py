#!/usr/bin/env python3
"""Makes study/: a corpus of 200 sentences and the expected study of it, by the definitions, one row at a time.

Patterns are those of transformers in float64, tokens those of its tokenizer. The rest is plain NumPy and shares
nothing with attnctl. NAME.json holds the sections of a study. Reals are compared to 1e-6, extremes to 1e-5.
"""
import random

import numpy as np
import torch
import transformers

from float64_mode import float64_throughout
from study_goldens import HERE, MODELS, ROOT, head_keys, write_goldens

OFFSETS = range(-8, 9)


WORDS = """the a cat dog animal street mat mechanic engine wrench hammer tired old because it was and not cross sat ran on
fixed with saw that who slept barked did she he they walked home to house again . , ?""".split()


def make_corpus():
    """Sentences of one to twenty-four words, some of which occur again in the same sentence."""
    draw = random.Random(8)
    lines = []
    for _ in range(200):
        pool = draw.sample(WORDS, draw.randint(1, 14))
        lines.append(" ".join(draw.choice(pool) for _ in range(draw.randint(1, 24))))
    return lines


class Mean:
    def __init__(self):
        self.values = []

    def add(self, value):
        self.values.append(value)

    def moments(self, name):
        v = np.array(self.values)
        return {name: v.mean() if len(v) else None, f"{name}_variance": v.var() if len(v) else None,
                f"{name}_count": len(v)}

    def mean(self):
        return float(np.mean(self.values)) if self.values else None


class Share:
    """The share of the weight of some rows that is on some keys."""

    def __init__(self):
        self.weight, self.total, self.uniform, self.rows = 0.0, 0.0, 0.0, 0

    def add(self, row, visible, targets):
        targets = [j for j in targets if visible[j]]
        if not targets:
            return
        self.rows += 1
        self.weight += sum(row[j] for j in targets)
        self.total += row.sum()
        self.uniform += len(targets) / visible.sum()

    def record(self, rows):
        return {"share": self.weight / self.total if self.rows else None,
                "uniform": self.uniform / self.rows if self.rows else None,
                "rows": self.rows, "rows_without": rows - self.rows}


class Head:
    def __init__(self, layer, head):
        self.keys = head_keys(layer, head)
        self.rows = 0
        self.metrics = {name: Mean() for name in (
            "entropy", "entropy_bits", "confidence", "distance", "signed_distance", "self", "previous_token", "next_token",
            "first_token", "special_token")}
        self.offsets = {o: (Mean(), Mean()) for o in OFFSETS}
        self.peaks = {o: 0 for o in OFFSETS}
        self.kinds = {kind: Share() for kind in ("previous", "duplicate", "induction")}
        self.targets = {}
        self.bins = []

    def add(self, given, i, row, visible):
        n = len(row)
        self.rows += 1
        m = self.metrics
        entropy = -sum(a * np.log(a) for a in row if a > 0)
        m["entropy"].add(entropy)
        m["entropy_bits"].add(entropy / np.log(2))
        if not given["end"][i]:
            m["confidence"].add(max(row[j] for j in range(n) if not given["end"][j]))
        m["distance"].add(sum(row[j] * abs(i - j) for j in range(n)))
        m["signed_distance"].add(sum(row[j] * (j - i) for j in range(n)))
        for name, o in (("self", 0), ("previous_token", -1), ("next_token", 1)):
            if 0 <= i + o < n:
                m[name].add(row[i + o])
        m["first_token"].add(row[0])
        m["special_token"].add(sum(row[j] for j in range(n) if given["special"][j]))
        for o in OFFSETS:
            if 0 <= i + o < n and visible[i + o]:
                self.offsets[o][0].add(row[i + o])
                self.offsets[o][1].add(1 / visible.sum())
        peak = int(np.argmax(row)) - i
        if peak in self.peaks:
            self.peaks[peak] += 1
        ids = given["ids"]
        same = [j for j in range(i) if ids[j] == ids[i]]
        self.kinds["previous"].add(row, visible, [i - 1] if i > 0 else [])
        self.kinds["duplicate"].add(row, visible, same)
        self.kinds["induction"].add(row, visible, [j + 1 for j in same])
        self.targets.setdefault((-1, None), Share()).add(row, visible, [0])
        for token in sorted(set(ids[j] for j in range(n) if given["special"][j])):
            keys = [j for j in range(n) if ids[j] == token]
            self.targets.setdefault((token, given["name"](token)), Share()).add(row, visible, keys)
        for j in range(n):
            if visible[j]:
                d = abs(i - j)
                b = 0 if d == 0 else 1 + (d - 1).bit_length()
                while len(self.bins) <= b:
                    self.bins.append([0, 0.0, 0.0])
                self.bins[b][0] += 1
                self.bins[b][1] += row[j]
                self.bins[b][2] += 1 / visible.sum()

    def best(self):
        best = 0
        for size in range(1, 9):
            for o in (-size, size):
                if self.peaks[o] > self.peaks[best]:
                    best = o
        return best

    def documents(self):
        head = self.keys | {"rows": self.rows}
        for name, mean in self.metrics.items():
            head |= mean.moments(name)
        head |= {"best_offset": self.best(), "best_offset_share": self.peaks[self.best()] / self.rows}
        extremes = [self.keys | {"metric": k, "count": len(v.values), "minimum": min(v.values), "maximum": max(v.values)}
                    for k, v in self.metrics.items()]
        positional = [self.keys | {
            "rows": self.rows, "offset": o, "count": len(self.offsets[o][0].values), "weight": self.offsets[o][0].mean(),
            "uniform": self.offsets[o][1].mean(), "peaks": self.peaks[o] / self.rows} for o in OFFSETS]
        special = [self.keys | {"token": token, "position": 0 if token is None else None} | share.record(self.rows)
                   for (_, token), share in sorted(self.targets.items(), key=lambda item: item[0][0])]
        repeats = [self.keys | {"kind": kind} | share.record(self.rows) for kind, share in self.kinds.items()]
        bins = range(len(self.bins))
        distance = self.keys | {
            "rows": self.rows, "first": [b if b < 2 else 2 ** (b - 2) + 1 for b in bins],
            "last": [b if b < 2 else 2 ** (b - 1) for b in bins], "pairs": [b[0] for b in self.bins],
            "weight": [b[1] / self.rows for b in self.bins], "uniform": [b[2] / self.rows for b in self.bins]}
        return {"heads": [head], "distributions": extremes, "positional": positional, "special": special,
                "repeats": repeats, "distance": [distance]}


def patterns_of(name, lines):
    """Yields the data of each sentence, and its patterns [layers, h, n, n]."""
    path = ROOT / "data" / name
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    model = MODELS[name].from_pretrained(path, attn_implementation="eager").double().eval()
    special = set(tokenizer.all_special_ids)
    ends = {tokenizer.sep_token_id, tokenizer.eos_token_id} - {None}
    for line in lines:
        encoded = tokenizer(line, return_tensors="pt")
        with float64_throughout(model, []), torch.no_grad():
            patterns = model(**encoded, output_attentions=True).attentions
        ids = encoded["input_ids"][0].tolist()
        given = {"ids": ids, "special": [i in special for i in ids], "end": [i in ends for i in ids],
                 "name": tokenizer.convert_ids_to_tokens}
        yield given, np.stack([p[0].detach().numpy() for p in patterns])


def study(name, lines):
    heads = {}
    tokens = 0
    for given, patterns in patterns_of(name, lines):
        n = len(given["ids"])
        tokens += n
        causal = MODELS[name] is transformers.LlamaModel
        for layer, of_layer in enumerate(patterns):
            for h, pattern in enumerate(of_layer):
                head = heads.setdefault((layer, h), Head(layer, h))
                for i in range(n):
                    head.add(given, i, pattern[i], np.arange(n) <= i if causal else np.ones(n, bool))
    document = {"corpus": {"sentences": len(lines), "words": sum(len(line.split()) for line in lines), "tokens": tokens,
                           "skipped": 0}}
    for _, head in sorted(heads.items()):
        for section, items in head.documents().items():
            document.setdefault(section, []).extend(items)
    return document


def main():
    folder = HERE / "study"
    folder.mkdir(exist_ok=True)
    (folder / "corpus.txt").write_text("".join(line + "\n" for line in make_corpus()))
    write_goldens("", study)


if __name__ == "__main__":
    main()
