"""The measures of study.py, as an experienced PyTorch and NumPy user would write them: tensors over all sentences,
heads and rows of a batch, and sums in float64. Patterns of a layer are [sentences, heads, n, n], with zero rows for
padding.
"""
import numpy as np
import torch

from study_corpus import GROUPS

RELATIONS = 128  # maximum number of relations
LARGEST_OFFSET = 8
METRICS = ("entropy", "entropy_bits", "distance", "signed_distance", "self", "first_token", "special_token", "previous_token",
           "next_token", "confidence")  # fmt: skip
BINS = 256


class Rows:
    """Metrics over rows: moments and histograms, and sums by position, from which offsets and distances follow."""

    def __init__(self, heads, longest):
        self.sums, self.squares = (torch.zeros(len(METRICS), heads, dtype=torch.float64) for _ in range(2))
        self.counts = torch.zeros(len(METRICS), dtype=torch.int64)
        self.least, self.most = torch.full((len(METRICS), heads), np.inf), torch.full((len(METRICS), heads), -np.inf)
        self.histogram = torch.zeros(len(METRICS), heads, BINS, dtype=torch.int64)
        self.places = torch.zeros(heads, longest, longest, dtype=torch.float64)
        self.pairs, self.uniform = (torch.zeros(longest, longest, dtype=torch.float64) for _ in range(2))
        self.peaks = torch.zeros(heads, 2 * LARGEST_OFFSET + 1, dtype=torch.int64)
        high = torch.tensor([12.8, 19.2, 512, 512, 1, 1, 1, 1, 1, 1])
        low = torch.tensor([0.0, 0, 0, -512, 0, 0, 0, 0, 0, 0])
        self.low, self.scale = low[:, None, None], BINS / (high - low)[:, None, None]

    def add_batch(self, batch):
        valid = batch.valid.double()
        n = valid.shape[1]
        self.pairs[:n, :n] += valid.T @ valid
        self.uniform[:n, :n] += (valid / valid.sum(1, keepdim=True)).T @ valid
        steps = torch.arange(n, dtype=torch.float32)
        self.steps = steps - steps[:, None]  # j - i
        self.weights_of_keys = torch.stack([batch.special.float(), batch.valid.float()], -1)[:, None]
        self.ends = batch.ends

    def add(self, first, patterns, batch, argmax):
        valid, n = batch.valid, patterns.shape[-1]
        self.places[first : first + patterns.shape[1], :n, :n] += patterns.sum(0)
        entropy = -torch.xlogy(patterns, patterns).sum(-1)
        # |j - i| and j - i as two columns of one product per row
        moved = torch.stack([(patterns * self.steps.abs()).sum(-1), (patterns * self.steps).sum(-1)])
        special = (patterns @ self.weights_of_keys[..., :1]).squeeze(-1)
        values = torch.stack([entropy, entropy / np.log(2), *moved, patterns.diagonal(0, -2, -1), patterns[..., 0], special])
        self._take(slice(0, 7), first, values.transpose(1, 2)[..., valid])
        if n > 1:
            self._take(slice(7, 8), first, patterns.diagonal(-1, -2, -1).transpose(0, 1)[:, valid[:, 1:]][None])
            self._take(slice(8, 9), first, patterns.diagonal(1, -2, -1).transpose(0, 1)[:, valid[:, 1:]][None])
        largest = patterns.masked_fill(self.ends[:, None, None], 0).amax(-1)
        self._take(slice(9, 10), first, largest.transpose(0, 1)[:, valid & ~self.ends][None])
        offset = argmax - torch.arange(n) + LARGEST_OFFSET
        offset = offset.transpose(0, 1)[:, valid]
        heads = torch.arange(len(offset))[:, None] * (2 * LARGEST_OFFSET + 1)
        inside = (offset >= 0) & (offset <= 2 * LARGEST_OFFSET)
        found = torch.bincount((offset + heads)[inside], minlength=len(offset) * (2 * LARGEST_OFFSET + 1))
        self.peaks[first : first + len(offset)] += found.reshape(len(offset), -1)

    def _take(self, metrics, first, values):
        """[metrics, heads, rows]"""
        count, heads, rows = values.shape
        to = (metrics, slice(first, first + heads))
        self.sums[to] += values.sum(-1, dtype=torch.float64)
        self.squares[to] += values.square().sum(-1, dtype=torch.float64)
        self.least[to] = torch.minimum(self.least[to], values.amin(-1))
        self.most[to] = torch.maximum(self.most[to], values.amax(-1))
        if first == 0:
            self.counts[metrics] += rows
        bins = ((values - self.low[metrics]) * self.scale[metrics]).clamp_(0, BINS - 1).int()
        bins += torch.arange(count * heads, dtype=torch.int32).reshape(count, heads, 1) * BINS
        self.histogram[to] += torch.bincount(bins.flatten(), minlength=count * heads * BINS).reshape(count, heads, BINS)

    def results(self):
        count = self.counts[:, None]
        mean = self.sums / count
        shares = torch.cumsum(self.histogram, -1) / self.histogram.sum(-1, keepdim=True)
        bins = (shares[..., None] >= torch.tensor([0.05, 0.25, 0.5, 0.75, 0.95])).int().argmax(-2)
        offsets = range(-LARGEST_OFFSET, LARGEST_OFFSET + 1)
        rows = [float(self.pairs.diagonal(o).sum()) for o in offsets]
        weight = torch.stack([self.places.diagonal(o, -2, -1).sum(-1) for o in offsets], -1) / torch.tensor(rows)
        n = len(self.pairs)
        distance = (torch.arange(n) - torch.arange(n)[:, None]).abs()
        bin_of = torch.where(distance > 0, 1 + torch.ceil(torch.log2(distance.clamp(min=1).double())), 0).long()
        onehot = torch.nn.functional.one_hot(bin_of.flatten()).double()
        total = float(self.pairs.diagonal().sum())
        return {"mean": dict(zip(METRICS, mean.tolist())), "variance": (self.squares / count - mean.square()).tolist(),
                "minimum": self.least.tolist(), "maximum": self.most.tolist(),
                "quantiles": (bins / self.scale + self.low).tolist(),
                "positional": {"weight": weight.tolist(), "peaks": (self.peaks / total).tolist(),
                               "uniform": [float(self.uniform.diagonal(o).sum()) / r for o, r in zip(offsets, rows)]},
                "distance": {"weight": (self.places.flatten(1) @ onehot / total).tolist(),
                             "uniform": (self.uniform.flatten() @ onehot / total).tolist()}}  # fmt: skip


class Targets:
    """Shares of the weight on special tokens, on repetitions of the query's token, and on the rarest token."""

    def __init__(self, heads, special_ids):
        self.special_ids = special_ids
        self.weight, self.total = (torch.zeros(len(special_ids) + 4, heads, dtype=torch.float64) for _ in range(2))
        self.rare = torch.zeros(2, heads, dtype=torch.float64)
        self.rows = torch.zeros(len(special_ids) + 4, dtype=torch.int64)
        self.rare_rows = 0

    def add_batch(self, batch):
        keys = [batch.ids == i for i in self.special_ids]
        first = torch.zeros_like(batch.valid)
        first[:, 0] = True
        self.keys = torch.stack([first, *keys, batch.rarest], -1)  # [b, n, k]
        same = (batch.ids[:, :, None] == batch.ids[:, None]) & batch.valid[:, None] & batch.valid[:, :, None]
        earlier = same.tril(-1)
        behind = torch.zeros_like(earlier)
        behind[..., 1:] = earlier[..., :-1]
        behind &= batch.valid[:, None]
        previous = torch.zeros_like(earlier)
        previous.diagonal(-1, -2, -1)[:] = batch.valid[:, 1:]
        self.places = torch.stack([previous, earlier, behind], 1)  # [b, 3, n, n]
        has_key = (self.keys & batch.valid[..., None]).any(1)[:, None] & batch.valid[..., None]  # [b, n, k]
        self.has = torch.cat([has_key[..., :-1], self.places.any(-1).transpose(1, 2)], -1).float()  # [b, n, targets]
        self.rows += self.has.sum((0, 1)).long()
        self.rare_rows += int(has_key[..., -1].sum())
        self.keys, self.places = self.keys.float(), self.places.float()

    def add(self, first, patterns, batch, argmax):
        to = slice(first, first + patterns.shape[1])
        on_keys = patterns @ self.keys[:, None]  # [b, h, n, k]
        by_key = on_keys.sum((0, 2), dtype=torch.float64).T
        by_place = (patterns.flatten(2) @ self.places.flatten(2).transpose(1, 2)).sum(0, dtype=torch.float64).T
        self.weight[:, to] += torch.cat([by_key[:-1], by_place])
        self.total[:, to] += (patterns.sum(-1) @ self.has).sum(0, dtype=torch.float64).T
        self.rare[0, to] += by_key[-1]
        peaks = batch.rarest[:, None].expand(argmax.shape).gather(-1, argmax) & batch.valid[:, None]
        self.rare[1, to] += peaks.sum((0, 2))

    def results(self):
        share = (self.weight / self.total).tolist()
        names = ["position 0", *map(str, self.special_ids), "previous", "duplicate", "induction"]
        return {"shares": dict(zip(names, share)), "rows": dict(zip(names, self.rows.tolist())),
                "rare": dict(zip(("weight", "peaks"), (self.rare / self.rare_rows).tolist()))}  # fmt: skip


def spanning_trees(weights):
    """Prim's algorithm for a batch of [..., n, n] symmetric weights: returns the parent of each node except 0.
    SciPy's function takes one matrix at a time, and would take longer than the rest of the study."""
    n = weights.shape[-1]
    inside = torch.zeros(weights.shape[:-1], dtype=torch.bool)
    inside[..., 0] = True
    best, parent = weights[..., 0, :].clone(), torch.zeros(weights.shape[:-1], dtype=torch.int64)
    best[..., 0] = -np.inf
    for _ in range(n - 1):
        node = best.argmax(-1, keepdim=True)
        inside.scatter_(-1, node, True)
        row = weights.gather(-2, node[..., None].expand(*node.shape, n)).squeeze(-2)
        best.scatter_(-1, node, -np.inf)
        better = (row > best) & ~inside
        best = torch.where(better, row, best)
        parent = torch.where(better, node, parent)
    return parent


class Syntax:
    """Relations in both directions and trees, counted by groups of sentences."""

    def __init__(self, heads):
        self.hits = torch.zeros(RELATIONS * GROUPS, 2, heads)
        self.counts = torch.zeros(RELATIONS * GROUPS)
        self.offsets = torch.zeros(RELATIONS * GROUPS, 2, 11)
        self.trees, self.edges = torch.zeros(GROUPS, heads + 1), torch.zeros(GROUPS)

    def add_batch(self, batch):
        self.words = batch.words
        self.mean = batch.words / batch.words.sum(-1, keepdim=True).clamp(min=1)
        self.groups = torch.tensor([s.group for s in batch.sentences])
        sentence, dependent, head, relation = batch.pairs.T
        self.cells = relation * GROUPS + self.groups[sentence]
        self.counts.index_add_(0, self.cells, torch.ones(len(sentence)))
        kept = [torch.tensor(s.kept, dtype=torch.int64) for s in batch.sentences]
        words = torch.nn.utils.rnn.pad_sequence(kept, batch_first=True)
        offset = words[sentence, head] - words[sentence, dependent]
        near = (offset.abs() <= 5).nonzero().squeeze(-1)
        for direction, sign in enumerate((1, -1)):
            self.offsets[:, direction].index_put_((self.cells[near], sign * offset[near] + 5), torch.ones(()), True)
        self.nodes, self.gold = self._nodes(batch)
        self.together = 0

    def _nodes(self, batch):
        """Returns the words that are not punctuation [b, m], padded with -1, and the node of the head of each word,
        or -1."""
        nodes, gold = [], []
        for sentence in batch.sentences:
            of = [k for k, w in enumerate(sentence.kept) if sentence.relations[w].split(":")[0] != "punct"]
            place = {sentence.kept[k]: m for m, k in enumerate(of)}
            nodes.append(torch.tensor(of, dtype=torch.int64))
            gold.append(torch.tensor([place.get(sentence.heads[sentence.kept[k]] - 1, -1) for k in of], dtype=torch.int64))
        padded = [torch.nn.utils.rnn.pad_sequence(x, batch_first=True, padding_value=-1) for x in (nodes, gold)]
        self.edges.index_add_(0, self.groups, (padded[1] >= 0).sum(1).float())
        return padded

    def _tree_hits(self, weights):
        """Counts correct edges [b, h] of word patterns [b, h, w, w]."""
        nodes = self.nodes.clamp(min=0)[:, None]
        if nodes.shape[-1] == 0:
            return torch.zeros(weights.shape[:2])
        b, h, w, _ = weights.shape
        m = nodes.shape[-1]
        picked = weights.gather(2, nodes[..., None].expand(b, h, m, w)).gather(3, nodes[:, :, None].expand(b, h, m, m))
        out = (self.nodes < 0)[:, None]
        picked = (picked + picked.transpose(-1, -2)).masked_fill_(out[..., None] | out[:, :, None], -np.inf)
        parent = spanning_trees(picked)[..., 1:]
        gold, node = self.gold[:, None].expand(b, h, m), torch.arange(1, m)
        right = (gold[..., 1:] == parent) | (gold.gather(-1, parent) == node)
        return (right & (self.nodes[:, None, 1:] >= 0)).sum(-1).float()

    def add(self, first, patterns, batch, argmax):
        to = slice(first, first + patterns.shape[1])
        weights = self.mean[:, None] @ (patterns @ self.words[:, None].transpose(-1, -2))
        weights.diagonal(0, -2, -1).fill_(-1)
        largest = weights.argmax(-1)
        sentence, dependent, head, _ = batch.pairs.T
        for direction, (row, right) in enumerate(((dependent, head), (head, dependent))):
            hit = largest[sentence, :, row] == right[:, None]
            self.hits[:, direction, to].index_add_(0, self.cells, hit.float())
        self.trees[:, to].index_add_(0, self.groups, self._tree_hits(weights))
        self.together = self.together + weights.sum(1, keepdim=True)

    def end_batch(self):
        self.trees[:, -1:].index_add_(0, self.groups, self._tree_hits(self.together))

    def results(self, relations):
        """For each relation and direction: accuracies, the baseline, and the best head of one half, scored on the
        other."""
        draws = np.random.default_rng(0).multinomial(GROUPS // 2, np.full(GROUPS // 2, 2 / GROUPS), 1000)
        found, counts = {}, self.counts.reshape(RELATIONS, GROUPS).numpy()
        for name, r in relations.items():
            count = counts[r]
            for d, direction in enumerate(("to_head", "to_dependent")):
                hits = self.hits.reshape(RELATIONS, GROUPS, 2, -1)[r, :, d].numpy()
                offsets = self.offsets.reshape(RELATIONS, GROUPS, 2, -1)[r, :, d].numpy()
                best, baseline = hits[::2].sum(0).argmax(), offsets.sum(0).argmax()
                gain = hits[1::2, best] - offsets[1::2, baseline]
                with np.errstate(invalid="ignore", divide="ignore"):
                    drawn = (draws @ gain) / (draws @ count[1::2])
                    interval = np.nanquantile(drawn, [0.025, 0.975]) if count[1::2].any() else [np.nan] * 2
                found[f"{name} {direction}"] = {
                    "count": int(count.sum()), "hits": hits.sum(0).astype(int).tolist(), "best": int(best),
                    "baseline_offset": int(baseline) - 5, "baseline_hits": int(offsets[:, baseline].sum()),
                    "held_out": int(hits[1::2, best].sum()), "gain_interval": list(map(float, interval))}  # fmt: skip
        return {"relations": found, "trees": {"hits": self.trees.sum(0).int().tolist(), "edges": int(self.edges.sum())}}
