"""Measures what the heads of a model do: mean weights on positions and on special tokens."""

import dataclasses

import torch

REPEATED = 32  # number of tokens in one copy of the repeated sequence
SEQUENCES = 32


@dataclasses.dataclass(frozen=True)
class Row:
    """One input sequence for the text probes."""

    ids: torch.Tensor  # [n]
    types: torch.Tensor | None = None  # [n] token types, for models that have them


def patterns(model: torch.nn.Module, row: Row) -> torch.Tensor:
    """Returns [layers, heads, n, n]. The model must use eager attention."""
    types = {} if row.types is None else {"token_type_ids": row.types[None]}
    with torch.no_grad():
        result = model(input_ids=row.ids[None], output_attentions=True, **types)
    return torch.cat(result.attentions).double()


def text_probe(model: torch.nn.Module, rows: list[Row], specials: dict[str, int],
               causal: bool) -> dict[str, torch.Tensor]:
    """Returns per measure [layers, heads]: the mean over all query rows that have such a key.

    previous, self, next: weight on key i-1, i, i+1. For each special token: weight on all its occurrences, and as
    `NAME uniform` the same for uniform attention over the visible keys.
    """
    sums: dict[str, torch.Tensor] = {}
    counts: dict[str, int] = {}

    def add(name: str, weights: torch.Tensor) -> None:  # [layers, heads, rows]
        sums[name] = sums.get(name, 0) + weights.sum(-1)
        counts[name] = counts.get(name, 0) + weights.shape[-1]

    for row in rows:
        pattern = patterns(model, row)
        n = pattern.shape[-1]
        visible = torch.ones(n, n, dtype=torch.double)
        visible = visible.tril() if causal else visible
        uniform = (visible / visible.sum(-1, keepdim=True)).expand_as(pattern)
        for name, offset in (("previous", -1), ("self", 0), ("next", 1)):
            add(name, torch.diagonal(pattern, offset, -2, -1))
        for name, token in specials.items():
            keys = row.ids == token
            add(name, pattern[..., keys].sum(-1))
            add(f"{name} uniform", uniform[..., keys].sum(-1))
    return {name: total / counts[name] for name, total in sums.items()}


def repeat_probe(model: torch.nn.Module, begin: int, ordinary: list[int], seed: int) -> dict[str, torch.Tensor]:
    """Runs BOS, L random tokens, and the same L again. Returns means over the queries of the second copy.

    induction, duplicate, previous: weight at offset 1-L, -L, -1. `induction control` is the first measure with other
    random tokens in the second half.
    """
    draw = torch.Generator().manual_seed(seed)
    vocabulary = torch.tensor(ordinary)

    def tokens() -> torch.Tensor:
        return vocabulary[torch.randint(len(vocabulary), (REPEATED,), generator=draw)]

    def diagonal(pattern: torch.Tensor, offset: int) -> torch.Tensor:
        queries = torch.arange(REPEATED + 1, 2 * REPEATED + 1)
        return pattern[..., queries, queries + offset].mean(-1)

    results = []
    for _ in range(SEQUENCES):
        first = tokens()
        start = torch.tensor([begin])
        repeated = patterns(model, Row(torch.cat([start, first, first])))
        fresh = patterns(model, Row(torch.cat([start, first, tokens()])))
        results.append({"induction": diagonal(repeated, 1 - REPEATED),
                        "duplicate": diagonal(repeated, -REPEATED),
                        "previous": diagonal(repeated, -1),
                        "induction control": diagonal(fresh, 1 - REPEATED)})
    return {name: torch.stack([r[name] for r in results]).mean(0) for name in results[0]}


@torch.no_grad()
def second_copy_loss(model: torch.nn.Module, begin: int, ordinary: list[int], seed: int) -> float:
    """Returns nats per token of a causal model on the second copy, without its first token."""
    draw = torch.Generator().manual_seed(seed)
    choice = torch.randint(len(ordinary), (SEQUENCES, REPEATED), generator=draw)
    copy = torch.tensor(ordinary)[choice]
    ids = torch.cat([torch.full((SEQUENCES, 1), begin), copy, copy], dim=1)
    logits = model(input_ids=ids).logits[:, REPEATED + 1:-1]
    return float(torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), ids[:, REPEATED + 2:].flatten()))
