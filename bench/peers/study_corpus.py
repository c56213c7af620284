"""Reads a treebank for study.py: sentences of CoNLL-U with tokens, in batches of similar length."""
import re
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import torch

BLOCK_TOKENS = 4096  # block size of attnctl, for even and odd blocks
RUN = 8  # consecutive sentences of a block in the same group
GROUPS = 64


@dataclass
class Sentence:
    text: str
    spans: list  # [words] (begin, end) in the text
    heads: list  # [words] from 1, 0: the root
    relations: list
    ids: list = None
    special: list = None
    pieces: list = None  # [tokens] (begin, end)
    kept: list = field(default_factory=list)  # words with a token
    group: int = 0  # of sentences; even groups contain even blocks


def read(path):
    with open(path, encoding="utf-8") as file:
        for piece in re.split(r"\n[ \t]*\n", file.read()):
            lines = piece.splitlines()
            rows = [line.split("\t") for line in lines if line and not line.startswith("#")]
            if rows:
                text = next(line[9:] for line in lines if line.startswith("# text = "))
                yield sentence_of(text, rows)


def sentence_of(text, rows):
    spans, at, inside = [], 0, {}
    for row in rows:
        number = row[0]
        if "-" in number:
            first, last = map(int, number.split("-"))
            begin = place = text.index(row[1], at)
            at = begin + len(row[1])
            forms = [r[1] for r in rows if r[0].isdigit() and first <= int(r[0]) <= last]
            for word, form in enumerate(forms, first):
                inside[word] = (place, place + len(form)) if "".join(forms) == row[1] else (begin, at)
                place += len(form)
        elif number.isdigit():
            if int(number) not in inside:
                begin = text.index(row[1], at)
                at = begin + len(row[1])
                inside[int(number)] = (begin, at)
            spans.append(inside[int(number)])
    words = [row for row in rows if row[0].isdigit()]
    return Sentence(text, spans, [int(row[6]) for row in words], [row[7] for row in words])


def tokenized(path, tokenizer):
    sentences = list(read(path))
    encoded = tokenizer([s.text for s in sentences], return_offsets_mapping=True, return_special_tokens_mask=True)
    block, tokens, place = 0, 0, 0
    for i, sentence in enumerate(sentences):
        sentence.ids, sentence.pieces = encoded["input_ids"][i], encoded["offset_mapping"][i]
        sentence.special = encoded["special_tokens_mask"][i]
        if tokens and tokens + len(sentence.ids) > BLOCK_TOKENS:
            block, tokens, place = block + 1, 0, 0
        tokens += len(sentence.ids)
        runs = GROUPS // 2  # groups of even blocks are even
        sentence.group = 2 * ((block // 2 * 31 + place // RUN) % runs) + block % 2
        place += 1
    return sentences


def membership(sentence):
    """Returns [words, tokens] of bool: the tokens of each word."""
    pieces, words = np.array(sentence.pieces), np.array(sentence.spans)
    shared = np.maximum(pieces[:, 0], words[:, :1]) < np.minimum(pieces[:, 1], words[:, 1:])
    return shared & (np.array(sentence.special) == 0)


@dataclass
class Batch:
    sentences: list
    ids: torch.Tensor  # [b, n], as the next three
    valid: torch.Tensor
    special: torch.Tensor
    rarest: torch.Tensor
    words: torch.Tensor  # [b, words, n] of 1 for the pieces of a word
    counts: torch.Tensor  # [b] words
    pairs: torch.Tensor  # [pairs, 4] sentence, dependent, head, relation


def batches(sentences, relations, most_tokens):
    """Yields sentences sorted by length, so that there is almost no padding."""
    frequencies = Counter(i for s in sentences for i in s.ids)
    order = sorted(sentences, key=lambda s: len(s.ids))
    while order:
        longest, count = len(order[-1].ids), 0
        count = max(1, most_tokens // longest)
        yield batch_of(order[-count:], relations, frequencies)
        del order[-count:]


def batch_of(sentences, relations, frequencies):
    longest = max(len(s.ids) for s in sentences)
    ids = np.zeros((len(sentences), longest), np.int64)
    valid, special = np.zeros(ids.shape, bool), np.ones(ids.shape, bool)
    rarest = np.zeros(ids.shape, bool)
    members, pairs = [], []
    for i, sentence in enumerate(sentences):
        n = len(sentence.ids)
        ids[i, :n], valid[i, :n], special[i, :n] = sentence.ids, True, sentence.special
        known = np.array([frequencies[t] if not s else np.inf for t, s in zip(sentence.ids, sentence.special)])
        rarest[i, :n] = np.isfinite(known) & (known == known.min())
        member = membership(sentence)
        sentence.kept = np.flatnonzero(member.any(1)).tolist()
        members.append(member[sentence.kept])
        place = {w: k for k, w in enumerate(sentence.kept)}
        pairs += [(i, place[w], place[sentence.heads[w] - 1], relations.setdefault(sentence.relations[w], len(relations)))
                  for w in sentence.kept if sentence.heads[w] - 1 in place]  # fmt: skip
    words = np.zeros((len(sentences), max(map(len, members)), longest), np.float32)
    for i, member in enumerate(members):
        words[i, : len(member), : member.shape[1]] = member
    tensors = (torch.from_numpy(a) for a in (ids, valid, special, rarest, words))
    return Batch(sentences, *tensors, torch.tensor([len(m) for m in members]),
                 torch.tensor(pairs, dtype=torch.int64).reshape(-1, 4))  # fmt: skip
