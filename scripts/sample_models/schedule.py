"""The training loop of both models."""

import dataclasses
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import torch

WARM_UP = 50
SAVE_EVERY = 100


@dataclasses.dataclass(frozen=True)
class Schedule:
    """Length and learning rate of the training, and the checkpoint file of an interrupted training."""

    steps: int
    peak_rate: float
    betas: tuple[float, float]  # of AdamW
    state: Path
    keep: Callable[[int], None] = lambda step: None  # called after each step, to keep some of the models

    def rate(self, step: int) -> float:
        """Linear warm-up, then cosine decay to zero."""
        warm = min(1.0, (step + 1) / WARM_UP)
        return self.peak_rate * warm * 0.5 * (1 + math.cos(math.pi * step / self.steps))


class Source(Protocol):
    """The part of the batch source that a checkpoint stores."""

    draw: torch.Generator
    progress: dict[str, float]


class Training:
    """A model, its AdamW optimizer and the state of its batches: the contents of a checkpoint."""

    def __init__(self, model: torch.nn.Module, source: Source, schedule: Schedule):
        self.model, self.source, self.state = model, source, schedule.state
        self.optimiser = torch.optim.AdamW(model.parameters(), betas=schedule.betas)
        self.step = 0
        if self.state.exists():
            saved = torch.load(self.state)
            model.load_state_dict(saved["model"])
            self.optimiser.load_state_dict(saved["optimiser"])
            source.draw.set_state(saved["draw"])
            source.progress = saved["progress"]
            self.step = saved["step"]

    def save(self) -> None:
        unfinished = self.state.with_suffix(".tmp")
        torch.save({"model": self.model.state_dict(), "optimiser": self.optimiser.state_dict(),
                    "draw": self.source.draw.get_state(), "progress": self.source.progress,
                    "step": self.step}, unfinished)
        unfinished.replace(self.state)


def train(model: torch.nn.Module, next_loss: Callable[[], torch.Tensor], source: Source,
          schedule: Schedule) -> None:
    """Trains the model. `next_loss()` draws a batch from `source` and returns the loss of the model."""
    training = Training(model, source, schedule)
    model.train()
    started = time.monotonic()
    while training.step < schedule.steps:
        for group in training.optimiser.param_groups:
            group["lr"] = schedule.rate(training.step)
        training.optimiser.zero_grad(set_to_none=True)
        loss = next_loss()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        training.optimiser.step()
        training.step += 1
        schedule.keep(training.step)
        if training.step % SAVE_EVERY == 0 or training.step == schedule.steps:
            seconds = time.monotonic() - started
            print(f"step {training.step:5d}  loss {float(loss.detach()):.4f}  {seconds:.0f} s  "
                  f"{source.progress}", file=sys.stderr)
            training.save()
    schedule.state.unlink()
    model.eval()
