"""A second implementation of the token order of `attnctl study --null-shuffle`."""
from make_roles import Xoshiro


def shuffled(ids, ordinary, seed, repetition, block, sequence):
    """Returns the ids with those at `ordinary` positions in random order (Fisher and Yates)."""
    of_block = Xoshiro(Xoshiro(seed, repetition).next(), block).next()
    draw = Xoshiro(of_block, sequence)
    ids = list(ids)
    for left in range(len(ordinary), 1, -1):
        a, b = ordinary[left - 1], ordinary[draw.next() % left]
        ids[a], ids[b] = ids[b], ids[a]
    return ids


class Blocks:
    """Assigns a sentence to a block and a position in it: consecutive sentences with at most `most` tokens."""

    def __init__(self, most):
        self.most, self.block, self.sequence, self.tokens = most, 0, -1, 0

    def add(self, tokens):
        self.sequence += 1
        if self.tokens and self.tokens + tokens > self.most:
            self.block, self.sequence, self.tokens = self.block + 1, 0, 0
        self.tokens += tokens
        return self.block, self.sequence
