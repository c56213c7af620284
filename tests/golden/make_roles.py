#!/usr/bin/env python3
"""Makes study/roles-NAME.json: the expected result of `attnctl study --measures probe,roles` over study/corpus.txt,
by docs/roles.md.

Patterns are those of transformers in float64. The sequences of the probe come from a second implementation of
xoshiro256++. Intervals are those of make_intervals.py, computed sentence by sentence. Reals are compared to 1e-6.
"""

import numpy as np
import torch
import transformers

from float64_mode import float64_throughout
from make_intervals import wilson
from study_goldens import MODELS, ROOT, head_keys, write_goldens

PAIRS, LENGTH, SEED = 32, 32, 0
MASK = 2**64 - 1


class Xoshiro:
    """xoshiro256++ of Blackman and Vigna, seeded by SplitMix64."""

    def __init__(self, seed, stream):
        x = (seed + 0x9E3779B97F4A7C15 * (stream + 1)) & MASK
        self.state = []
        for _ in range(4):
            x = (x + 0x9E3779B97F4A7C15) & MASK
            z = x
            z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
            z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
            self.state.append(z ^ (z >> 31))

    def next(self):
        def rotate(x, k):
            return ((x << k) | (x >> (64 - k))) & MASK
        s = self.state
        result = (rotate((s[0] + s[3]) & MASK, 23) + s[0]) & MASK
        t = (s[1] << 17) & MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotate(s[3], 45)
        return result


def probes(begin, ordinary):
    """Returns pairs of a repeated sequence and its control."""
    for stream in range(PAIRS):
        draw = Xoshiro(SEED, stream)
        drawn = []
        while len(drawn) < 2 * LENGTH:
            token = ordinary[draw.next() % len(ordinary)]
            if token not in drawn:
                drawn.append(token)
        yield begin + 2 * drawn[:LENGTH], begin + drawn[LENGTH:] + drawn[:LENGTH]


class Ratio:
    """Sums of each sentence: of the score, of its null, and the number of rows."""

    def __init__(self):
        self.sentences = []

    def add(self, terms):
        if terms:
            self.sentences.append((sum(t[0] for t in terms), sum(t[1] for t in terms), len(terms)))

    def found(self):
        a, null, b = np.array(self.sentences, float).T
        ratio = a.sum() / b.sum()
        low, high = wilson(ratio, a, b)
        return {"score": ratio, "null": null.sum() / b.sum(), "low": low, "high": high, "count": int(b.sum())}

    def corrected_low(self, tests):
        a, _, b = np.array(self.sentences, float).T
        return wilson(a.sum() / b.sum(), a, b, tests)[0]


def decide(keys, evidence, heads):
    """Returns the records of the head with these keys. `evidence`: role, detail, found, Ratio of at least ten
    sentences. `heads` is the number of heads."""
    rules = {"induction": (0.3, 0, True), "duplicate-token": (0.3, 0, True), "positional": (0.9, 0, True),
             "separator": (0.5, 0, True), "sink": (0.5, 0, True), "local": (0.5, 0.1, True), "broad": (0.9, None, False)}
    met = []
    for role in rules:
        least, margin, above = rules[role]
        for which, detail, found, ratio in evidence:
            enough = found["score"] >= least and (margin is None or found["score"] >= found["null"] + margin)
            tests = heads * (17 if role == "positional" else 1)  # 17 offsets
            if which == role and enough and (not above or ratio.corrected_low(tests) > found["null"]):
                met.append(keys | {"role": role, "detail": detail} | found)
    if any(record["role"] == "positional" for record in met):
        met = [record for record in met if record["role"] != "local"]
    return met or [keys | {"role": None}]


def terms_of(given, pattern, causal):
    """Returns the terms of each row of a sentence: per target, a list of (value, null)."""
    terms = {}
    n = len(pattern)
    for i in range(n):
        visible = [j for j in range(n) if j <= i or not causal]
        if len(visible) < 2:
            continue
        row, even = pattern[i], 1 / len(visible)
        peak = int(np.argmax(row))
        for offset in range(-8, 9):
            if i + offset in visible:
                terms.setdefault(("positional", offset), []).append((float(peak == i + offset), even))
        if i > 0:
            terms.setdefault(("sink", "position 0"), []).append((row[0], even))
        near = [j for j in visible if abs(i - j) <= 2]
        if len(near) < len(visible):
            terms.setdefault(("local", None), []).append((sum(row[j] for j in near), len(near) * even))
        entropy = -sum(row[j] * np.log(row[j]) for j in visible if row[j] > 0)
        terms.setdefault(("broad", None), []).append((entropy / np.log(len(visible)), 1))
        for token in {t for j, t in enumerate(given["ids"]) if j > 0 and given["special"][j]}:
            keys = [j for j in visible if j > 0 and given["ids"][j] == token]
            if keys:
                terms.setdefault(("separator", given["name"](token)), []).append(
                    (sum(row[j] for j in keys), len(keys) * even))
    return terms


class Study:
    def __init__(self, name):
        path = ROOT / "data" / name
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(path)
        self.model = MODELS[name].from_pretrained(path, attn_implementation="eager").double().eval()
        self.causal = MODELS[name] is transformers.LlamaModel
        self.special = set(self.tokenizer.all_special_ids)

    def patterns(self, ids):
        with float64_throughout(self.model, []), torch.no_grad():
            found = self.model(input_ids=torch.tensor([ids]), output_attentions=True).attentions
        return {(layer, h): pattern.numpy() for layer, heads in enumerate(found) for h, pattern in enumerate(heads[0])}

    def corpus(self, lines):
        sums = {}
        for line in lines:
            ids = self.tokenizer(line)["input_ids"]
            given = {"ids": ids, "special": [i in self.special for i in ids],
                     "name": self.tokenizer.convert_ids_to_tokens}
            for head, pattern in self.patterns(ids).items():
                for what, terms in terms_of(given, pattern, self.causal).items():
                    sums.setdefault(head, {}).setdefault(what, Ratio()).add(terms)
        return sums

    def probe(self, line):
        begin = []
        for token in self.tokenizer(line)["input_ids"]:
            if token not in self.special:
                break
            begin.append(token)
        ordinary = [i for i in range(self.model.config.vocab_size) if i not in self.special]
        sums = {}
        for pair in probes(begin, ordinary):
            for ids, said in zip(pair, ("repeated", "control")):
                for head, pattern in self.patterns(ids).items():
                    for kind, offset in (("induction", 1 - LENGTH), ("duplicate", -LENGTH), ("previous", -1)):
                        queries = range(len(begin) + LENGTH, len(ids))
                        terms = [(pattern[i, i + offset], 1 / (i + 1 if self.causal else len(ids))) for i in queries]
                        sums.setdefault(head, {}).setdefault((kind, said), Ratio()).add(terms)
        return sums


def best_offset(sums):
    scores = {what[1]: ratio.found()["score"] for what, ratio in sums.items() if what[0] == "positional"}
    return max(sorted(scores, key=lambda o: (abs(o), o > 0)), key=scores.get)


def make(name, lines):
    study = Study(name)
    corpus, probe = study.corpus(lines), study.probe(lines[0])
    document = {"probe": [], "roles": []}
    for head in sorted(corpus):
        keys = head_keys(*head)
        evidence = []
        for kind, role in (("induction", "induction"), ("duplicate", "duplicate-token"), ("previous", None)):
            found, control = probe[head][kind, "repeated"].found(), probe[head][kind, "control"].found()
            document["probe"].append(keys | {
                "kind": kind, "score": found["score"], "low": found["low"], "high": found["high"],
                "control": control["score"], "uniform": found["null"], "sequences": PAIRS, "rows": found["count"]})
            if role:
                evidence.append((role, None, found | {"null": control["score"]}, probe[head][kind, "repeated"]))
        best = best_offset(corpus[head])
        for (role, detail), ratio in corpus[head].items():
            if role != "positional":
                evidence.append((role, detail, ratio.found(), ratio))
            elif detail == best:
                evidence.append((role, f"{detail:+d}" if detail else "0", ratio.found(), ratio))
        document["roles"] += decide(keys, evidence, len(corpus))
    return document


if __name__ == "__main__":
    write_goldens("roles-", make)
