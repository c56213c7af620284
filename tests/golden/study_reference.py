#!/usr/bin/env python3
"""A slow, independent program for syntax and coreference of a treebank: reads CoNLL-U, takes the patterns of
transformers in float64, and counts. Without arguments it makes study/treebank-*.json. With arguments it checks a
result of attnctl:

    study_reference.py MODEL TREEBANK STUDY.json [--block-tokens N] [--fold-subtypes] [--null-shuffle N]
"""
import argparse
import json
import re
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch
import transformers
from scipy.sparse.csgraph import minimum_spanning_tree

from shuffled_tokens import Blocks, shuffled

HERE = Path(__file__).resolve().parent
TYPES = {"PRON": "pronoun", "DET": "pronoun", "PROPN": "proper"}


def read(path):
    """Reads sentences as (text, words, mentions); a word is (begin, end, upos, head, deprel), a mention (entity,
    words)."""
    for piece in re.split(r"\n[ \t]*\n", Path(path).read_text(encoding="utf-8")):
        rows = [line.split("\t") for line in piece.split("\n") if line and not line.startswith("#")]
        if not rows:
            continue
        text = re.search(r"^# text = (.*)$", piece, re.M).group(1)
        yield text, words_of(rows, text), mentions_of(rows)


def words_of(rows, text):
    words, at, inside = [], 0, {}
    for row in rows:
        if "." in row[0]:
            continue
        if "-" in row[0]:
            first, last = map(int, row[0].split("-"))
            begin = text.index(row[1], at)
            at = begin + len(row[1])
            forms = [r[1] for r in rows if r[0].isdigit() and first <= int(r[0]) <= last]
            place = begin
            for number, form in enumerate(forms, first):
                whole = "".join(forms) != row[1]
                inside[number] = (begin, at) if whole else (place, place + len(form))
                place += len(form)
            continue
        number = int(row[0])
        if number in inside:
            begin, end = inside[number]
        else:
            begin = text.index(row[1], at)
            end = at = begin + len(row[1])
        words.append((begin, end, row[3], int(row[6]), row[7], row[1]))
    return words


def mentions_of(rows):
    opened, found, last = defaultdict(list), [], 0
    for row in rows:
        if "-" in row[0]:
            continue
        empty = "." in row[0]
        last = last if empty else int(row[0])
        first = last if empty else last - 1
        value = dict(f.split("=", 1) for f in row[9].split("|") if "=" in f).get("Entity", "")
        for opens, name, closes in re.findall(r"(\(?)([^()]+)(\)?)", value):
            name = name.split("-")[0]
            if opens:
                opened[name].append(first)
            if closes:
                begin = opened[name].pop()
                entity = name.split("[")[0]
                part = list(range(begin, last))
                if "[" in name and "[1/" not in name:
                    next(m for m in reversed(found) if m[0] == entity)[1].extend(part)
                else:
                    found.append((entity, part))
    return [(entity, words) for entity, words in found if words]


def head_of(mention, words):
    return next((w for w in mention if words[w][3] == 0 or words[w][3] - 1 not in mention), mention[-1])


class Patterns:
    def __init__(self, path):
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(path)
        self.model = transformers.AutoModel.from_pretrained(path, attn_implementation="eager").double().eval()

    def of(self, text, words, drawn=None):
        """Returns the words with a piece, and patterns over them [heads of all layers, words, words]. `drawn` (seed,
        repetition, block, sequence) shuffles the tokens, while the positions of words stay."""
        encoded = self.tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True, return_tensors="pt")
        if drawn:
            ids = encoded["input_ids"][0].tolist()
            ordinary = [i for i, token in enumerate(ids) if token not in self.tokenizer.all_special_ids]
            encoded["input_ids"] = torch.tensor([shuffled(ids, ordinary, *drawn)])
        offsets = encoded.pop("offset_mapping")[0].tolist()
        special = encoded.pop("special_tokens_mask")[0].tolist()
        with torch.no_grad():
            layers = self.model(**encoded, output_attentions=True).attentions
        tokens = torch.cat([layer[0] for layer in layers]).numpy()
        share = np.array([[not s and max(b, w[0]) < min(e, w[1]) for (b, e), s in zip(offsets, special)] for w in words])
        kept = [w for w in range(len(words)) if share[w].any()]
        to = share[kept].astype(float)
        return kept, np.einsum("wi,hij,vj->hwv", to / to.sum(1, keepdims=True), tokens, to)


def argmax(row, allowed):
    best = max((row[i] for i in allowed), default=0)
    return next((i for i in allowed if row[i] == best), None) if best > 0 else None


def same(words, mention):
    text = " ".join(words[w][5] for w in mention)
    return "".join(c.lower() if c.isascii() else c for c in text)


def syntax(words, kept, patterns, fold, add):
    place = {w: i for i, w in enumerate(kept)}
    n = len(kept)
    largest = [[argmax(head[i], [j for j in range(n) if j != i]) for i in range(n)] for head in patterns]
    for dependent in kept:
        _, _, _, head, relation, _ = words[dependent]
        if head == 0 or head - 1 not in place:
            continue
        relation = relation.split(":")[0] if fold else relation
        d, h = place[dependent], place[head - 1]
        add(relation, "count", 1)
        add(relation, head - 1 - dependent, 1)
        for number, of in enumerate(largest):
            add(relation, ("to_head", number), int(of[d] == h))
            add(relation, ("to_dependent", number), int(of[h] == d))
    nodes = [w for w in kept if words[w][4].split(":")[0] != "punct"]
    gold = {frozenset((nodes.index(w), nodes.index(words[w][3] - 1))) for w in nodes
            if words[w][3] and words[w][3] - 1 in nodes}
    if not gold:
        return
    pick = np.ix_(range(len(patterns)), [place[w] for w in nodes], [place[w] for w in nodes])
    weights = patterns[pick] + patterns[pick].transpose(0, 2, 1)
    add("tree", "count", len(gold))
    add("tree", "adjacent", sum(max(e) - min(e) == 1 for e in gold))
    for number, of in [*enumerate(weights), ("combined", weights.sum(0))]:
        values, place = np.unique(of, return_inverse=True)  # use ranks, so that no difference is too small
        tree = minimum_spanning_tree(np.triu(len(values) - place.reshape(of.shape), 1)).tocoo()
        add("tree", number, len(gold & {frozenset(e) for e in zip(tree.row.tolist(), tree.col.tolist())}))


def coreference(words, mentions, kept, patterns, add):
    place = {w: i for i, w in enumerate(kept)}
    heads = [head_of(words_of_one, words) for _, words_of_one in mentions]
    for (entity, mention), at in zip(mentions, heads):
        before = [(other, h) for other, h in zip(mentions, heads) if h < at and h in place]
        right = {h for other, h in before if other[0] == entity}
        if not right or at not in place:
            continue
        candidates = sorted({h for _, h in before})
        strings = [h for other, h in before if same(words, other[1]) == same(words, mention)]
        for kind in ("all", TYPES.get(words[at][2], "nominal")):
            add(kind, "count", 1)
            add(kind, "nearest", int(candidates[-1] in right))
            add(kind, "same_string", int(bool(strings) and max(strings) in right))
            add(kind, "random", len(right) / len(candidates))
            for number, head in enumerate(patterns):
                found = argmax(head[place[at]], [place[c] for c in candidates])
                add(kind, number, int(found is not None and kept[found] in right))


def measure(model, treebank, block_tokens=4096, fold=False, shuffles=0):
    """Returns {"syntax" and "coreference": {question: {answer: [even blocks, odd blocks]}}}, and the same for
    shuffled tokens."""
    patterns = Patterns(model)
    both = [{part: defaultdict(lambda: defaultdict(lambda: [0, 0])) for part in ("syntax", "coreference")}
            for _ in range(2)]
    blocks = Blocks(block_tokens)
    for text, words, mentions in read(treebank):
        block, sequence = blocks.add(len(patterns.tokenizer(text)["input_ids"]))
        for repetition in range(-1, shuffles):
            sums = both[repetition >= 0]
            drawn = (0, repetition, block, sequence) if repetition >= 0 else None
            kept, weights = patterns.of(text, words, drawn)

            def add(part, question, answer, count):
                sums[part][question][answer][block % 2] += count
            syntax(words, kept, weights, fold, lambda *what: add("syntax", *what))
            coreference(words, mentions, kept, weights, lambda *what: add("coreference", *what))
    return both


def share(right, count):
    return right / count if count else None


def best_of(rights):
    """Returns the answer that is most often correct in even blocks; of equal ones the first."""
    return max(range(len(rights)), key=lambda head: (rights[head][0], -head))


def relation_rows(sums, shuffled, names):
    for relation in sorted(sums["syntax"].keys() - {"tree"}, key=str.encode):
        of = sums["syntax"][relation]
        twin = shuffled["syntax"][relation]
        count = of["count"]
        for direction, sign in (("to_head", 1), ("to_dependent", -1)):
            offsets = {o: sum(of[sign * o]) for o in range(-5, 6) if o}
            offset = max(offsets, key=lambda o: (offsets[o], -abs(o), o < 0))
            rights = [of[direction, head] for head in range(len(names))]
            for head, right in enumerate(rights):
                yield {"relation": relation, "direction": direction, "name": names[head], "hits": sum(right),
                       "count": sum(count), "baseline": share(offsets[offset], sum(count)), "baseline_offset": offset,
                       "best": count[0] > 0 and best_of(rights) == head,
                       "accuracy_held_out": share(right[1], count[1]),
                       "shuffled_held_out": share(twin[direction, head][1], twin["count"][1]),
                       "baseline_held_out": share(of[sign * offset][1], count[1])}


def tree_rows(sums, shuffled, names):
    of, twin = sums["syntax"]["tree"], shuffled["syntax"]["tree"]
    for answer in [*range(len(names)), "combined", "adjacent"]:
        head = isinstance(answer, int)
        yield {"kind": "head" if head else answer, "name": names[answer] if head else None, "hits": sum(of[answer]),
               "count": sum(of["count"]), "accuracy_held_out": share(of[answer][1], of["count"][1]),
               "shuffled_held_out": share(twin[answer][1], twin["count"][1])}


def coreference_rows(sums, shuffled, names):
    for kind in ("all", "pronoun", "proper", "nominal"):
        of, twin = sums["coreference"][kind], shuffled["coreference"][kind]
        rights = [of[head] for head in range(len(names))]
        for head, right in enumerate(rights):
            row = {"mention_type": kind, "name": names[head], "hits": sum(right), "count": sum(of["count"]),
                   "best": of["count"][0] > 0 and best_of(rights) == head,
                   "accuracy_held_out": share(right[1], of["count"][1]),
                   "shuffled_held_out": share(twin[head][1], twin["count"][1])}
            for baseline in ("nearest", "same_string", "random"):
                row[baseline] = share(sum(of[baseline]), sum(of["count"]))
            yield row


def sections(both, names):
    return {"relations": list(relation_rows(*both, names)), "trees": list(tree_rows(*both, names)),
            "coreference": list(coreference_rows(*both, names))}


def compare(wanted, study):
    """Returns one line per difference."""
    for section, rows in wanted.items():
        if len(rows) != len(study[section]):
            yield f"{section}: attnctl has {len(study[section])} rows, the reference {len(rows)}"
        for want, found in zip(rows, study[section]):
            for name, value in want.items():
                near = isinstance(value, float) and found[name] is not None and abs(found[name] - value) <= 1e-6
                if not near and found[name] != value:
                    yield f"{section} {found}: {name} is {value} in the reference"


def make(name, fold):
    root = HERE.parent.parent / "data"
    both = measure(root / name, root / "treebank.conllu", 16, fold, 2)
    config = json.loads((root / name / "config.json").read_text())
    names = [f"{layer}.{head}" for layer in range(config["num_hidden_layers"])
             for head in range(config["num_attention_heads"])]
    parts = [json.dumps(part) + ": [\n" + ",\n".join(map(json.dumps, rows)) + "\n]"
             for part, rows in sections(both, names).items()]
    (HERE / "study" / f"treebank-{name}.json").write_text("{\n" + ",\n".join(parts) + "\n}\n")


def main():
    if len(sys.argv) == 1:
        make("tiny-bert", False)
        make("tiny-llama", True)
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("treebank")
    parser.add_argument("study")
    parser.add_argument("--block-tokens", type=int, default=4096)
    parser.add_argument("--fold-subtypes", action="store_true")
    parser.add_argument("--null-shuffle", type=int, default=0)
    given = parser.parse_args()
    study = json.loads(Path(given.study).read_text())
    both = measure(given.model, given.treebank, given.block_tokens, given.fold_subtypes, given.null_shuffle)
    wanted = sections(both, [head["name"] for head in study["heads"]])
    if "coreference" not in study:
        del wanted["coreference"]
    differences = list(compare(wanted, study))
    rows = sum(map(len, wanted.values()))
    print("\n".join(differences[:20]))
    print(f"{rows} rows, {len(differences)} differences")
    sys.exit(bool(differences))


if __name__ == "__main__":
    main()
