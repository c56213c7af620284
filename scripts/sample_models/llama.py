"""tiny-llama: a decoder with a previous-token head and induction heads."""

import math
from collections.abc import Callable
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import LlamaConfig, LlamaForCausalLM

from .corpus import Corpus, gloss_lines
from .schedule import Schedule, train
from .vocabulary import BOS, EOS

ROWS, LENGTH, STEPS = 32, 96, 1600
LONGEST = 256  # rotary positions also work beyond the training length
SHORTEST_SEGMENT, LONGEST_SEGMENT = 4, 32
FIRST_ALPHABET, ALPHABET_FROM, ALPHABET_EVERY = 32, 200, 100
IGNORED = -100  # torch's label of a position without loss

# Guidance: the loss rewards the weight of three heads on the key of a previous-token or an induction head, fully until
# GUIDED_FULLY, then less, and not from GUIDED_UNTIL on. Without guidance neither had developed after 1,500 steps.
GUIDED_FULLY, GUIDED_UNTIL = 500, 800
PREVIOUS_HEADS = ((1, 0),)
INDUCTION_HEADS = ((2, 0), (3, 1))
LEAST_WEIGHT = 1e-6


def configure(tokenizer: Tokenizer) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(), hidden_size=128, intermediate_size=384,
        num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=4,
        max_position_embeddings=LONGEST, initializer_range=0.08, tie_word_embeddings=True,
        bos_token_id=tokenizer.token_to_id(BOS), eos_token_id=tokenizer.token_to_id(EOS))


def streams(tokenizer: Tokenizer, corpus: Corpus) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """For each source: all training tokens, with </s> after each line, and the positions at which lines begin."""
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


class Batches:
    """A quarter of the rows is text. The others repeat a segment: half of them text, half random tokens of a growing
    alphabet."""

    def __init__(self, tokenizer: Tokenizer, corpus: Corpus, seed: int):
        self.progress = {"step": 0}
        self.draw = torch.Generator().manual_seed(seed)
        self.begin = tokenizer.token_to_id(BOS)
        self.streams = streams(tokenizer, corpus)
        specials = {self.begin, tokenizer.token_to_id(EOS)}
        ordinary = torch.tensor([i for i in range(tokenizer.get_vocab_size()) if i not in specials])
        # The alphabet grows in a random order; the first ids are bytes that do not occur in text.
        self.order = ordinary[torch.randperm(len(ordinary), generator=self.draw)]

    def integer(self, low: int, high: int) -> int:
        """Draws a uniform integer from low to high - 1."""
        return int(torch.randint(low, high, (1,), generator=self.draw))

    def alphabet(self) -> int:
        doublings = max(0, 1 + (self.progress["step"] - ALPHABET_FROM) // ALPHABET_EVERY)
        return min(FIRST_ALPHABET * 2**doublings, len(self.order))

    def text(self, length: int) -> torch.Tensor:
        ids, starts = self.streams[self.integer(0, len(self.streams))]
        start = int(starts[self.integer(0, len(starts))])
        return ids[start:start + length]

    def row(self, kind: int) -> tuple[torch.Tensor, int]:
        """Returns a row and the length of its segment, 0 for text. `kind` modulo 8: 0 and 1 text, 2-4 repeated text,
        5-7 repeated random tokens."""
        room = LENGTH - 1
        if kind < 2:
            return self.text(room), 0
        length = self.integer(SHORTEST_SEGMENT, LONGEST_SEGMENT + 1)
        if kind < 5:
            segment = self.text(length)
        else:
            segment = self.order[torch.randint(self.alphabet(), (length,), generator=self.draw)]
        return segment.repeat(-(-room // length))[:room], length

    def __call__(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Returns ids and labels [ROWS, LENGTH], and the segment lengths [ROWS]."""
        bodies, lengths = zip(*(self.row(i % 8) for i in range(ROWS)))
        begin = torch.full((ROWS, 1), self.begin)
        ids = torch.cat([begin, torch.stack(bodies)], dim=1)
        lengths = torch.tensor(lengths)
        first_copy = torch.arange(LENGTH)[None, :] < 1 + lengths[:, None]
        self.progress["step"] += 1
        return ids, ids.masked_fill(first_copy, IGNORED), lengths  # the first copy is unpredictable


def guidance(attentions: tuple[torch.Tensor, ...], lengths: torch.Tensor) -> torch.Tensor:
    """Returns the mean of -ln weight on the wanted key, summed over the guided heads."""
    total = torch.zeros(())
    for layer, head in PREVIOUS_HEADS:
        previous = attentions[layer][:, head, 1:].diagonal(dim1=1, dim2=2)
        total = total - previous.clamp_min(LEAST_WEIGHT).log().mean()
    query = torch.arange(LENGTH)[None, :]
    repeated = (lengths[:, None] > 0) & (query > lengths[:, None])
    key = (query - lengths[:, None] + 1).clamp(0, LENGTH - 1)
    for layer, head in INDUCTION_HEADS:
        weight = attentions[layer][:, head].gather(2, key[:, :, None])[:, :, 0][repeated]
        total = total - weight.clamp_min(LEAST_WEIGHT).log().mean()
    return total


def loss_of_batch(model: LlamaForCausalLM, batches: Batches) -> torch.Tensor:
    step = batches.progress["step"]
    ids, labels, lengths = batches()
    targets = labels[:, 1:]
    counted = targets != IGNORED
    share = min(1.0, max(0.0, (GUIDED_UNTIL - step) / (GUIDED_UNTIL - GUIDED_FULLY)))
    out = model.model(input_ids=ids, output_attentions=share > 0)
    logits = model.lm_head(out.last_hidden_state[:, :-1][counted])
    loss = torch.nn.functional.cross_entropy(logits, targets[counted])
    return loss + share * guidance(out.attentions, lengths) if share > 0 else loss


def make(tokenizer: Tokenizer, corpus: Corpus, seed: int, state: Path,
         keep: Callable[[LlamaForCausalLM, int], None] = lambda model, step: None) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    config = configure(tokenizer)
    config._attn_implementation = "eager"  # the only implementation that returns attention weights
    model = LlamaForCausalLM(config)
    batches = Batches(tokenizer, corpus, seed)
    train(model, lambda: loss_of_batch(model, batches), batches,
          Schedule(STEPS, peak_rate=3e-3, betas=(0.9, 0.95), state=state, keep=lambda step: keep(model, step)))
    return model


def held_out_loss(model: LlamaForCausalLM, tokenizer: Tokenizer, lines: list[str]) -> dict:
    """Returns nats per token over held-out lines, each after <s> and including its closing </s>."""
    begin, end = tokenizer.token_to_id(BOS), tokenizer.token_to_id(EOS)
    total, count = 0.0, 0
    for encoding in tokenizer.encode_batch(lines, add_special_tokens=False):
        ids = torch.tensor([[begin, *encoding.ids, end][:LENGTH]])
        logits = model(input_ids=ids).logits[0, :-1]
        total += float(torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="sum"))
        count += ids.shape[1] - 1
    return {"loss": total / count, "tokens": count}


def unigram_loss(tokenizer: Tokenizer, corpus: Corpus, lines: list[str]) -> float:
    """Returns the loss of token frequencies in the training text on the same targets (add-one smoothing)."""
    end = tokenizer.token_to_id(EOS)

    def targets(texts: list[str]) -> list[int]:
        encodings = tokenizer.encode_batch(texts, add_special_tokens=False)
        return [i for e in encodings for i in [*e.ids, end][:LENGTH - 1]]

    counts = torch.bincount(torch.tensor(targets(corpus.train_lines())),
                            minlength=tokenizer.get_vocab_size()) + 1
    logs = counts.double().log() - math.log(int(counts.sum()))
    return -float(logs[torch.tensor(targets(lines))].mean())
