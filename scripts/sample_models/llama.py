"""tiny-llama: a decoder whose training makes previous-token and induction heads grow."""

import math
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import LlamaConfig, LlamaForCausalLM

from .corpus import Corpus, gloss_lines
from .schedule import Schedule, train
from .vocabulary import BOS, EOS

ROWS, LENGTH, STEPS = 32, 96, 3000
LONGEST = 256  # rotary positions reach further than the rows trained on
SHORTEST_SEGMENT = 4
FIRST_ALPHABET = 32
LEARNED = 1.0  # nats a repeated random token at which the repeats become harder
MEMORY = 0.95  # of the running mean of that loss
IGNORED = -100  # torch's label of a position without loss


def configure(tokenizer: Tokenizer) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(), hidden_size=128, intermediate_size=384,
        num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=4,
        max_position_embeddings=LONGEST, initializer_range=0.08, tie_word_embeddings=True,
        bos_token_id=tokenizer.token_to_id(BOS), eos_token_id=tokenizer.token_to_id(EOS))


def streams(tokenizer: Tokenizer, corpus: Corpus) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Per source: all its training tokens, each line closed by </s>, and where lines begin."""
    end = tokenizer.token_to_id(EOS)
    result = []
    for lines in (corpus.train_verses, gloss_lines(corpus.train_glosses)):
        ids, starts = [], []
        for encoding in tokenizer.encode_batch(lines, add_special_tokens=False):
            starts.append(len(ids))
            ids.extend(encoding.ids)
            ids.append(end)
        ids = torch.tensor(ids)
        starts = torch.tensor(starts)
        result.append((ids, starts[starts + LENGTH < len(ids)]))
    return result


def lessons(vocabulary: int) -> list[tuple[int, int]]:
    """Alphabet and longest segment of the repeats, easy ones first.

    Short segments come back often, so the first faint induction head already pays; once it is
    there it carries over to longer segments and, doubling by doubling, to the whole vocabulary.
    """
    alphabets = [FIRST_ALPHABET]
    while alphabets[-1] < vocabulary:
        alphabets.append(min(2 * alphabets[-1], vocabulary))
    return [(FIRST_ALPHABET, 8), (FIRST_ALPHABET, 16), *((size, 32) for size in alphabets)]


class Batches:
    """One quarter plain text; of the rest, half repeats text and half random tokens.

    `progress` is what an interrupted training must know again: the lesson, and the running mean
    of its loss on repeated random tokens.
    """

    def __init__(self, tokenizer: Tokenizer, corpus: Corpus, seed: int):
        self.progress = {"lesson": 0, "noise_loss": math.inf}
        self.draw = torch.Generator().manual_seed(seed)
        self.begin = tokenizer.token_to_id(BOS)
        self.streams = streams(tokenizer, corpus)
        specials = {self.begin, tokenizer.token_to_id(EOS)}
        ordinary = [i for i in range(tokenizer.get_vocab_size()) if i not in specials]
        # The alphabet grows along a random order, else it would begin with bytes that no text has.
        self.order = torch.tensor(ordinary)[torch.randperm(len(ordinary), generator=self.draw)]
        self.lessons = lessons(len(ordinary))

    def integer(self, low: int, high: int) -> int:
        """Uniform over low .. high - 1."""
        return int(torch.randint(low, high, (1,), generator=self.draw))

    def text(self, length: int) -> torch.Tensor:
        ids, starts = self.streams[self.integer(0, len(self.streams))]
        start = int(starts[self.integer(0, len(starts))])
        return ids[start:start + length]

    def row(self, kind: int) -> tuple[torch.Tensor, torch.Tensor]:
        """kind: its number modulo 8; 0 and 1 plain text, 2-4 repeated text, 5-7 repeated noise."""
        alphabet, longest = self.lessons[self.progress["lesson"]]
        room = LENGTH - 1
        if kind < 2:
            body, first_copy = self.text(room), 0
        else:
            first_copy = self.integer(SHORTEST_SEGMENT, longest + 1)
            if kind < 5:
                segment = self.text(first_copy)
            else:  # all different, so that each token says which one follows
                chosen = torch.randperm(alphabet, generator=self.draw)[:first_copy]
                segment = self.order[chosen]
            body = segment.repeat(-(-room // first_copy))[:room]
        ids = torch.cat([torch.tensor([self.begin]), body])
        labels = ids.clone()
        labels[:1 + first_copy] = IGNORED  # nothing can predict the first copy
        return ids, labels

    def __call__(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """ids and labels [ROWS, LENGTH], and which rows repeat noise [ROWS]."""
        kinds = [i % 8 for i in range(ROWS)]
        rows = [self.row(kind) for kind in kinds]
        return (torch.stack([ids for ids, _ in rows]), torch.stack([labels for _, labels in rows]),
                torch.tensor([kind >= 5 for kind in kinds]))

    def observe(self, noise_loss: float) -> None:
        """Moves on to the next lesson when this one has been learned."""
        mean = self.progress["noise_loss"]
        known = noise_loss if math.isinf(mean) else MEMORY * mean + (1 - MEMORY) * noise_loss
        self.progress["noise_loss"] = known
        if known < LEARNED and self.progress["lesson"] + 1 < len(self.lessons):
            self.progress = {"lesson": self.progress["lesson"] + 1, "noise_loss": math.inf}
            print(f"lesson {self.lessons[self.progress['lesson']]}", file=sys.stderr)


def loss_of_batch(model: LlamaForCausalLM, batches: Batches) -> torch.Tensor:
    ids, labels, noise = batches()
    targets = labels[:, 1:]
    counted = targets != IGNORED
    hidden = model.model(input_ids=ids).last_hidden_state[:, :-1]
    losses = torch.nn.functional.cross_entropy(
        model.lm_head(hidden[counted]), targets[counted], reduction="none")
    of_noise = noise[:, None].expand_as(counted)[counted]
    batches.observe(float(losses.detach()[of_noise].mean()))
    return losses.mean()


def make(tokenizer: Tokenizer, corpus: Corpus, seed: int, state: Path) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    model = LlamaForCausalLM(configure(tokenizer))
    batches = Batches(tokenizer, corpus, seed)
    train(model, lambda: loss_of_batch(model, batches), batches,
          Schedule(STEPS, peak_rate=3e-3, state=state))
    return model


@torch.no_grad()
def held_out_loss(model: LlamaForCausalLM, tokenizer: Tokenizer, lines: list[str]) -> dict:
    """Nats a token over held-out lines, each alone after <s>, its closing </s> predicted too."""
    begin, end = tokenizer.token_to_id(BOS), tokenizer.token_to_id(EOS)
    total, count = 0.0, 0
    for encoding in tokenizer.encode_batch(lines, add_special_tokens=False):
        ids = torch.tensor([[begin, *encoding.ids, end][:LENGTH]])
        logits = model(input_ids=ids).logits[0, :-1]
        total += float(torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="sum"))
        count += ids.shape[1] - 1
    return {"loss": total / count, "tokens": count}


def unigram_loss(tokenizer: Tokenizer, corpus: Corpus, lines: list[str]) -> float:
    """The same targets under the training text's token frequencies (each count one higher)."""
    end = tokenizer.token_to_id(EOS)

    def targets(texts: list[str]) -> list[int]:
        encodings = tokenizer.encode_batch(texts, add_special_tokens=False)
        return [i for e in encodings for i in [*e.ids, end][:LENGTH - 1]]

    counts = torch.bincount(torch.tensor(targets(corpus.train_lines())),
                            minlength=tokenizer.get_vocab_size()) + 1
    logs = counts.double().log() - math.log(int(counts.sum()))
    return -float(logs[torch.tensor(targets(lines))].mean())
