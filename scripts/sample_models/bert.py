"""tiny-bert: an encoder trained to fill masked tokens of sentence pairs."""

import dataclasses
import math
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import BertConfig, BertForMaskedLM

from .corpus import Corpus, Gloss
from .schedule import Schedule, train
from .vocabulary import BERT_SPECIALS

STEPS = 4000
ROWS, LENGTH = 48, 64
LONG_EVERY, LONG_ROWS, LONGEST = 4, 16, 128  # every fourth step uses long rows, which train the later positions
FOLLOWING = 5  # number of following verses in the second sentence
SHARE_PREDICTED = 0.15
MASKED, RANDOM = 0.8, 0.1  # shares of the predicted tokens; the rest are unchanged
IGNORED = -100
PAD, _, CLS, SEP, MASK = range(len(BERT_SPECIALS))  # ids of the special tokens


def configure(tokenizer: Tokenizer) -> BertConfig:
    return BertConfig(
        vocab_size=tokenizer.get_vocab_size(), hidden_size=128, intermediate_size=512,
        num_hidden_layers=3, num_attention_heads=4, max_position_embeddings=LONGEST,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, initializer_range=0.08,
        pad_token_id=PAD)


@dataclasses.dataclass(frozen=True)
class Pair:
    """The ids of sentence A and sentence B (may be empty), without special tokens."""

    first: list[int]
    second: list[int]

    def row(self, length: int) -> tuple[list[int], list[int]]:
        """Returns ids and token types of [CLS] A [SEP] B [SEP], or of [CLS] A [SEP] without B. A gets at most two
        thirds of the length."""
        left = [CLS, *self.first[:length * 2 // 3], SEP]
        right = [*self.second[:length - len(left) - 1], SEP] if self.second else []
        return left + right, [0] * len(left) + [1] * len(right)


def encode(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    encodings = tokenizer.encode_batch(texts, add_special_tokens=False)
    return [encoding.ids[:LONGEST] for encoding in encodings]


def verse_pairs(tokenizer: Tokenizer, verses: list[str]) -> list[Pair]:
    """Pairs of a verse and the following verses."""
    ids = encode(tokenizer, verses)
    following = (sum(ids[i + 1:i + 1 + FOLLOWING], []) for i in range(len(ids)))
    return [Pair(a, b[:LONGEST]) for a, b in zip(ids, following)]


def gloss_pairs(tokenizer: Tokenizer, glosses: list[Gloss]) -> list[Pair]:
    """Pairs of a definition and its examples."""
    first = encode(tokenizer, [gloss.lines()[0] for gloss in glosses])
    second = encode(tokenizer, [" ".join(gloss.examples) for gloss in glosses])
    return [Pair(a, b) for a, b in zip(first, second)]


class Masker:
    """Masks tokens as BERT does: 80 % become [MASK], 10 % a random token, 10 % stay."""

    def __init__(self, vocabulary: int, seed: int):
        self.vocabulary = vocabulary
        self.draw = torch.Generator().manual_seed(seed)

    def __call__(self, rows: list[tuple[list[int], list[int]]]) -> dict[str, torch.Tensor]:
        width = max(len(ids) for ids, _ in rows)
        ids = torch.full((len(rows), width), PAD)
        types = torch.zeros_like(ids)
        for i, (row, row_types) in enumerate(rows):
            ids[i, :len(row)] = torch.tensor(row)
            types[i, :len(row)] = torch.tensor(row_types)
        lots = torch.rand(ids.shape, generator=self.draw)
        predicted = (lots < SHARE_PREDICTED) & (ids >= len(BERT_SPECIALS))
        labels = torch.where(predicted, ids, IGNORED)
        noise = torch.randint(len(BERT_SPECIALS), self.vocabulary, ids.shape, generator=self.draw)
        hidden = torch.where(lots < SHARE_PREDICTED * (MASKED + RANDOM), noise, ids)
        hidden = torch.where(lots < SHARE_PREDICTED * MASKED, MASK, hidden)
        return {"input_ids": torch.where(predicted, hidden, ids), "token_type_ids": types,
                "attention_mask": (ids != PAD).long(), "labels": labels}


class Batches:
    """Batches with half of the rows from each source; long rows are verses."""

    def __init__(self, tokenizer: Tokenizer, corpus: Corpus, seed: int):
        self.mask = Masker(tokenizer.get_vocab_size(), seed)
        self.draw = self.mask.draw
        self.progress = {"batches": 0}
        self.verses = verse_pairs(tokenizer, corpus.train_verses)
        self.glosses = gloss_pairs(tokenizer, corpus.train_glosses)

    def some(self, source: list[Pair], count: int, length: int) -> list[tuple[list[int], list[int]]]:
        choice = torch.randint(len(source), (count,), generator=self.draw)
        return [source[i].row(length) for i in choice.tolist()]

    def __call__(self) -> dict[str, torch.Tensor]:
        number = self.progress["batches"]
        self.progress["batches"] += 1
        if number % LONG_EVERY == 0:
            return self.mask(self.some(self.verses, LONG_ROWS, LONGEST))
        return self.mask(self.some(self.verses, ROWS // 2, LENGTH) +
                         self.some(self.glosses, ROWS // 2, LENGTH))


def masked_loss(model: BertForMaskedLM, batch: dict[str, torch.Tensor],
                reduction: str = "mean") -> torch.Tensor:
    """Computes the loss of the model, with the output head applied only to the predicted positions."""
    batch = dict(batch)
    labels = batch.pop("labels")
    predicted = labels != IGNORED
    hidden = model.bert(**batch).last_hidden_state[predicted]  # [predicted, d]
    return torch.nn.functional.cross_entropy(
        model.cls(hidden), labels[predicted], reduction=reduction)


def make(tokenizer: Tokenizer, corpus: Corpus, seed: int, state: Path) -> BertForMaskedLM:
    torch.manual_seed(seed)
    model = BertForMaskedLM(configure(tokenizer))
    batches = Batches(tokenizer, corpus, seed)
    train(model, lambda: masked_loss(model, batches()), batches,
          Schedule(STEPS, peak_rate=2e-3, betas=(0.9, 0.999), state=state))
    return model


@torch.no_grad()
def held_out(model: BertForMaskedLM, tokenizer: Tokenizer, corpus: Corpus, seed: int) -> dict:
    """Returns nats per predicted token on held-out pairs, and the same for the unigram baseline."""
    counts = torch.ones(tokenizer.get_vocab_size(), dtype=torch.long)
    for ids in encode(tokenizer, corpus.train_lines()):
        counts += torch.bincount(torch.tensor(ids, dtype=torch.long), minlength=len(counts))
    logs = counts.double().log() - math.log(int(counts.sum()))

    mask = Masker(tokenizer.get_vocab_size(), seed)
    loss, unigram, count = 0.0, 0.0, 0
    for pairs in (verse_pairs(tokenizer, corpus.held_out_verses),
                  gloss_pairs(tokenizer, corpus.held_out_glosses)):
        for begin in range(0, len(pairs), ROWS):
            batch = mask([pair.row(LENGTH) for pair in pairs[begin:begin + ROWS]])
            targets = batch["labels"][batch["labels"] != IGNORED]
            loss += float(masked_loss(model, batch, reduction="sum"))
            unigram -= float(logs[targets].sum())
            count += len(targets)
    return {"loss": loss / count, "unigram": unigram / count, "tokens": count}
