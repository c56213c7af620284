"""The measures of study.py that need all layers: pairs of heads, and rollout."""
import math

import torch

CHUNK = 16384  # weights per head compared at a time
TINY = 1e-30


class Pairs:
    """Jensen-Shannon divergence and cosine of the patterns of all pairs of heads, linear CKA of their outputs."""

    def __init__(self, heads, width):
        self.heads = heads
        self.divergence = torch.zeros(heads, heads, dtype=torch.float64)
        self.products = torch.zeros(heads, heads, dtype=torch.float64)
        self.covariance = torch.zeros(heads * width, heads * width, dtype=torch.float64)
        self.outputs = torch.zeros(heads * width, dtype=torch.float64)
        self.rows = 0

    def add(self, layers, outputs, batch):
        """Adds patterns [b, h, n, n] and outputs [b, n, h width] of each layer."""
        patterns = torch.cat(layers, 1).transpose(0, 1)[:, batch.valid].flatten(1)  # [heads, weights]
        self.products += patterns @ patterns.T
        for chunk in patterns.split(CHUNK, 1):
            chunk = chunk.contiguous()
            entropy, sums = -torch.xlogy(chunk, chunk).sum(1), chunk.sum(1)
            for i in range(self.heads - 1):  # entropy of the mean, from the sum of both rows
                both = chunk[i + 1 :] + chunk[i]
                joint = math.log(2) * (sums[i] + sums[i + 1 :]) - torch.linalg.vecdot(both, both.clamp_min(TINY).log_())
                self.divergence[i, i + 1 :] += (joint - entropy[i] - entropy[i + 1 :]) / 2
        z = torch.cat(outputs, -1)[batch.valid]
        self.covariance += z.T @ z
        self.outputs += z.sum(0)
        self.rows += len(z)

    def results(self):
        norms = self.products.diagonal()
        mean = self.outputs / self.rows
        centred = self.covariance - self.rows * torch.outer(mean, mean)
        width = len(mean) // self.heads
        norm = centred.square().reshape(self.heads, width, self.heads, width).sum((1, 3))
        return {"divergence": (self.divergence / self.rows).tolist(),
                "cosine": (self.products / torch.sqrt(torch.outer(norms, norms))).tolist(),
                "cka": (norm / torch.sqrt(torch.outer(norm.diagonal(), norm.diagonal()))).tolist()}  # fmt: skip


class Rollout:
    """Rollout on special tokens and position 0, per layer."""

    def __init__(self, layers, keys):
        self.weight, self.rows = torch.zeros(layers, keys, dtype=torch.float64), 0

    def add(self, layers, keys, batch):
        """`keys`: [b, n, keys] of 1 for each"""
        rolled = None
        self.rows += int(batch.valid.sum())
        for i, patterns in enumerate(layers):
            mixed = patterns.mean(1) / 2
            mixed.diagonal(0, -2, -1).add_(batch.valid / 2)
            rolled = mixed if rolled is None else mixed @ rolled
            self.weight[i] += (rolled @ keys).sum((0, 1))

    def results(self):
        return (self.weight / self.rows).tolist()
