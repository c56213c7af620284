"""Measures the numbers of data/README.md on the saved models."""

import dataclasses
import random
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

from . import bert, llama, probes
from .corpus import Corpus, gloss_lines
from .vocabulary import BERT_SPECIALS, BOS, EOS

SEED = 3  # seed of the probes
PROBED = 64  # held-out sequences per source


@dataclasses.dataclass(frozen=True)
class Measured:
    """Results for one model: sizes, losses in nats, and measures, each a [layers, heads] tensor."""

    parameters: int
    weights_bytes: int
    losses: dict[str, float]
    text: dict[str, torch.Tensor]
    repeats: dict[str, torch.Tensor]


def load(factory: type, folder: Path) -> torch.nn.Module:
    return factory.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def llama_rows(tokenizer: Tokenizer, corpus: Corpus) -> list[probes.Row]:
    """Held-out verses and held-out glosses, concatenated as in training."""
    begin, end = tokenizer.token_to_id(BOS), tokenizer.token_to_id(EOS)
    rows = []
    for lines in (corpus.held_out_verses, gloss_lines(corpus.held_out_glosses)):
        ids = []
        for encoding in tokenizer.encode_batch(lines, add_special_tokens=False):
            ids += [*encoding.ids, end]
        room = llama.LENGTH - 1
        rows += [probes.Row(torch.tensor([begin, *ids[i * room:(i + 1) * room]]))
                 for i in range(PROBED)]
    return rows


def bert_rows(tokenizer: Tokenizer, corpus: Corpus) -> list[probes.Row]:
    """Held-out pairs of both sources, without masks and without padding."""
    rows = []
    for pairs in (bert.verse_pairs(tokenizer, corpus.held_out_verses),
                  bert.gloss_pairs(tokenizer, corpus.held_out_glosses)):
        both = [pair for pair in pairs if pair.second]
        for pair in random.Random(SEED).sample(both, PROBED):
            ids, types = pair.row(bert.LENGTH)
            rows.append(probes.Row(torch.tensor(ids), torch.tensor(types)))
    return rows


def weights_of(model: torch.nn.Module, folder: Path) -> tuple[int, int]:
    parameters = sum(p.numel() for p in model.parameters())  # a tied tensor counts once
    return parameters, (folder / "model.safetensors").stat().st_size


def measure_llama(corpus: Corpus, folder: Path) -> Measured:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    model = load(AutoModelForCausalLM, folder)
    specials = {name: tokenizer.token_to_id(name) for name in (BOS, EOS)}
    ordinary = [i for i in range(tokenizer.get_vocab_size()) if i not in specials.values()]
    lines = corpus.held_out_lines()
    held_out = llama.held_out_loss(model, tokenizer, lines)
    losses = {"loss": held_out["loss"], "tokens": held_out["tokens"],
              "unigram": llama.unigram_loss(tokenizer, corpus, lines),
              "second copy": probes.second_copy_loss(model, specials[BOS], ordinary, SEED)}
    return Measured(
        *weights_of(model, folder), losses,
        probes.text_probe(model, llama_rows(tokenizer, corpus), specials, causal=True),
        probes.repeat_probe(model, specials[BOS], ordinary, SEED))


def measure_bert(corpus: Corpus, folder: Path) -> Measured:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    model = load(AutoModelForMaskedLM, folder)
    specials = {name: tokenizer.token_to_id(name) for name in ("[CLS]", "[SEP]")}
    ordinary = list(range(len(BERT_SPECIALS), tokenizer.get_vocab_size()))
    return Measured(
        *weights_of(model, folder), bert.held_out(model, tokenizer, corpus, SEED),
        probes.text_probe(model, bert_rows(tokenizer, corpus), specials, causal=False),
        probes.repeat_probe(model, specials["[CLS]"], ordinary, SEED))
