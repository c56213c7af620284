"""The metrics of attention patterns by their definitions, one row at a time, in NumPy float64.

Every metric is a sum over query rows divided by the number of rows that have a value for it. Fully masked rows have
none. patterns/README.md lists the rows that each metric leaves out.
"""
from dataclasses import dataclass, field

import numpy as np

OFFSETS = range(-8, 9)


@dataclass
class Input:
    pattern: np.ndarray  # [h, n, m]
    special_keys: np.ndarray  # [m] bool: [CLS], [SEP], BOS, EOS, PAD
    end_queries: np.ndarray  # [n] bool: EOS or [SEP]
    end_keys: np.ndarray  # [m] bool


@dataclass
class Mean:
    total: float = 0.0
    count: int = 0

    def add(self, value: float):
        self.total += value
        self.count += 1

    def value(self) -> float:
        return self.total / self.count if self.count else np.nan


@dataclass
class Head:
    means: dict = field(default_factory=dict)
    offset_means: dict = field(default_factory=lambda: {o: Mean() for o in OFFSETS})
    peaks: dict = field(default_factory=lambda: {o: 0 for o in OFFSETS})
    rows: int = 0

    def add(self, name: str, value: float):
        self.means.setdefault(name, Mean()).add(value)


def row_entropy(row) -> float:
    return float(-sum(a * np.log(a) for a in row if a > 0))


def add_row(head: Head, given: Input, i: int, row: np.ndarray):
    """row [m], not fully masked"""
    m = len(row)
    head.rows += 1
    head.add("entropy", row_entropy(row))
    head.add("entropy_bits", row_entropy(row) / np.log(2))
    ordinary = row[~given.end_keys]
    if not given.end_queries[i] and len(ordinary):
        head.add("confidence", ordinary.max())
    head.add("distance", sum(a * abs(i - j) for j, a in enumerate(row)))
    head.add("signed_distance", sum(a * (j - i) for j, a in enumerate(row)))
    for name, offset in (("self", 0), ("previous_token", -1), ("next_token", 1)):
        if 0 <= i + offset < m:
            head.add(name, row[i + offset])
    head.add("first_token", row[0])
    head.add("special_token", row[given.special_keys].sum())
    for offset in OFFSETS:
        if 0 <= i + offset < m:
            head.offset_means[offset].add(row[i + offset])
    peak = int(np.argmax(row)) - i  # the first of equal largest weights
    if peak in head.peaks:
        head.peaks[peak] += 1


def results(head: Head) -> dict:
    values = {name: mean.value() for name, mean in head.means.items()}
    best = max(OFFSETS, key=lambda o: (head.peaks[o], -abs(o), -o))  # on ties the smaller, then the negative
    return values | {
        "rows": head.rows,
        "offset_mean": [head.offset_means[o].value() for o in OFFSETS],
        "offset_share": [head.peaks[o] / head.rows for o in OFFSETS],
        "best_offset": best,
        "best_offset_share": head.peaks[best] / head.rows,
    }


def metrics(inputs: list[Input]) -> dict[str, np.ndarray]:
    """Pools all inputs. Returns name -> [h] (offset_mean and offset_share [h, 17])."""
    heads = []
    for h in range(len(inputs[0].pattern)):
        head = Head()
        for given in inputs:
            for i, row in enumerate(given.pattern[h].astype(np.float64)):
                if row.any():
                    add_row(head, given, i, row)
        heads.append(results(head))
    names = dict.fromkeys(name for head in heads for name in head)
    return {name: np.array([head.get(name, np.nan) for head in heads]) for name in names}


def softmax(scores):
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def special(n: int, *positions: int) -> np.ndarray:
    mask = np.zeros(n, dtype=bool)
    mask[list(positions)] = True
    return mask


def make_inputs(rng) -> list[Input]:
    """0: causal, BOS first. 1: [CLS] ... [SEP] ... [SEP], with masked and tied rows. 2: cross-attention, 4 x 11."""
    causal = rng.normal(0, 2, (3, 12, 12))
    causal[:, np.triu(np.ones((12, 12), dtype=bool), 1)] = -np.inf
    causal[1, np.arange(1, 12), np.arange(11)] += 9  # a previous-token head
    both = softmax(rng.normal(0, 2, (3, 9, 9)))
    both[:, 4] = 0  # a query that sees no key
    both[0, 6] = 1 / 9  # every key ties
    both[2] = np.eye(9)[[1, 2, 3, 4, 0, 4, 5, 6, 7]]  # exact 0 and 1; the peaks tie, 4 at +1 and 4 at -1
    both[2, 4] = 0
    cross = softmax(rng.normal(0, 2, (3, 4, 11)))
    none = special(11)
    return [
        Input(softmax(causal).astype(np.float32), special(12, 0), special(12), special(12)),
        Input(both.astype(np.float32), special(9, 0, 5, 8), special(9, 5, 8), special(9, 5, 8)),
        Input(cross.astype(np.float32), none, special(4), none),
    ]


def make_arrays() -> dict[str, np.ndarray]:
    """Returns the patterns, the special keys, each metric per input (NAME_I), and of inputs 0 and 1 together."""
    inputs = make_inputs(np.random.default_rng(3))
    arrays = {}
    for index, given in enumerate(inputs):
        arrays |= {f"{name}_{index}": value for name, value in vars(given).items()}
        arrays |= {f"{name}_{index}": value for name, value in metrics([given]).items()}
    return arrays | {f"{name}_pooled": value for name, value in metrics(inputs[:2]).items()}
