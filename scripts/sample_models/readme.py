"""Writes data/README.md and measures its numbers."""

import math
from pathlib import Path

import torch

from . import bert, llama
from .corpus import Corpus
from .measure import Measured, measure_bert, measure_llama
from .vocabulary import BERT_VOCABULARY, BOS, EOS, LLAMA_VOCABULARY

TEMPLATE = Path(__file__).with_name("readme_template.md")
NAMED = 5  # number of heads listed per role


def table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def every_head(columns: dict[str, torch.Tensor]) -> str:
    """Returns a table with one line per head and one column per measure."""
    layers, heads = next(iter(columns.values())).shape
    rows = [[f"{layer}.{head}", *(f"{values[layer, head]:.2f}" for values in columns.values())]
            for layer in range(layers) for head in range(heads)]
    return table(["head", *columns], rows)


def strongest(values: torch.Tensor, least: float) -> str:
    """Lists the heads of a role with their scores, best first. `least` is the minimum score of the role."""
    order = values.flatten().argsort(descending=True)[:NAMED].tolist()
    width = values.shape[1]
    named = [f"{i // width}.{i % width} ({values.flatten()[i]:.2f})"
             for i in order if values.flatten()[i] >= least]
    if named:
        return ", ".join(named)
    best = order[0]
    return f"none above {least}; the best is head {best // width}.{best % width} ({values.flatten()[best]:.2f})"


def llama_section(m: Measured) -> dict[str, str]:
    roles = table(["role", "score", "heads"], [
        ["previous token, repeated random tokens", "weight on i-1", strongest(m.repeats["previous"], 0.4)],
        ["previous token, held-out text", "weight on i-1", strongest(m.text["previous"], 0.4)],
        ["induction", "weight on the token after the earlier copy", strongest(m.repeats["induction"], 0.3)],
        ["duplicate token", "weight on the earlier copy", strongest(m.repeats["duplicate"], 0.3)],
        [f"sink, held-out text (uniform: {mean(m.text[f'{BOS} uniform'])})", f"weight on `{BOS}`",
         strongest(m.text[BOS], 0.4)],
        [f"separator, held-out text (uniform: {mean(m.text[f'{EOS} uniform'])})", f"weight on `{EOS}`",
         strongest(m.text[EOS], 0.2)],
    ])
    heads = every_head({
        "previous (repeats)": m.repeats["previous"], "induction": m.repeats["induction"],
        "induction, control": m.repeats["induction control"],
        "duplicate": m.repeats["duplicate"], "previous (text)": m.text["previous"],
        "self (text)": m.text["self"], f"`{BOS}` (text)": m.text[BOS],
        f"`{EOS}` (text)": m.text[EOS]})
    return {"LLAMA_ROLES": roles, "LLAMA_HEADS": heads,
            "SECOND_COPY": f"{m.losses['second copy']:.2f}",
            "UNIFORM": f"{math.log(LLAMA_VOCABULARY - 2):.2f}"}


def bert_section(m: Measured) -> dict[str, str]:
    roles = table(["role", "score", "heads"], [
        ["previous token, held-out pairs", "weight on i-1", strongest(m.text["previous"], 0.4)],
        ["next token, held-out pairs", "weight on i+1", strongest(m.text["next"], 0.4)],
        [f"separator, held-out pairs (uniform: {mean(m.text['[SEP] uniform'])})", "weight on `[SEP]`",
         strongest(m.text["[SEP]"], 0.2)],
        [f"first token, held-out pairs (uniform: {mean(m.text['[CLS] uniform'])})", "weight on `[CLS]`",
         strongest(m.text["[CLS]"], 0.2)],
        ["duplicate token, repeated random tokens", "weight on the other copy",
         strongest(m.repeats["duplicate"], 0.3)],
        ["induction, repeated random tokens", "weight on the token after the other copy",
         strongest(m.repeats["induction"], 0.3)],
    ])
    heads = every_head({
        "previous": m.text["previous"], "self": m.text["self"], "next": m.text["next"],
        "`[CLS]`": m.text["[CLS]"], "`[SEP]`": m.text["[SEP]"],
        "duplicate (repeats)": m.repeats["duplicate"],
        "induction (repeats)": m.repeats["induction"],
        "induction, control": m.repeats["induction control"]})
    return {"BERT_ROLES": roles, "BERT_HEADS": heads}


def mean(values: torch.Tensor) -> str:
    return f"{float(values.mean()):.2f}"


def losses(name: str, task: str, m: Measured) -> list[str]:
    return [f"`{name}`", task, f"{m.losses['tokens']:,}", f"{m.losses['unigram']:.2f}",
            f"**{m.losses['loss']:.2f}**", f"{m.losses['unigram'] - m.losses['loss']:.2f}"]


def write_readme(corpus: Corpus, data: Path) -> None:
    made_llama = measure_llama(corpus, data / "tiny-llama")
    made_bert = measure_bert(corpus, data / "tiny-bert")
    sizes = table(["model", "layers", "heads", "d", "feed-forward", "vocabulary", "parameters", "file"], [
        ["`tiny-llama`", "4", "4", "128", "384", str(LLAMA_VOCABULARY),
         f"{made_llama.parameters:,}", f"{made_llama.weights_bytes / 1e6:.1f} MB, F16"],
        ["`tiny-bert`", "3", "4", "128", "512", str(BERT_VOCABULARY),
         f"{made_bert.parameters:,}", f"{made_bert.weights_bytes / 1e6:.1f} MB, F16"]])
    fields = {
        "SIZES": sizes,
        "LOSSES": table(["model", "task", "tokens", "unigram", "model's loss", "gained"], [
            losses("tiny-llama", "next token of a held-out line", made_llama),
            losses("tiny-bert", "masked token of a held-out pair", made_bert)]),
        "LLAMA_LENGTH": str(llama.LENGTH), "LLAMA_LONGEST": str(llama.LONGEST),
        "LLAMA_ROWS": str(llama.ROWS), "LLAMA_STEPS": f"{llama.STEPS:,}",
        "BERT_LENGTH": str(bert.LENGTH), "BERT_LONGEST": str(bert.LONGEST),
        "BERT_LONG_ROWS": str(bert.LONG_ROWS), "BERT_ROWS": str(bert.ROWS), "BERT_STEPS": f"{bert.STEPS:,}",
        **llama_section(made_llama), **bert_section(made_bert)}
    text = TEMPLATE.read_text(encoding="utf-8")
    for name, value in fields.items():
        text = text.replace("{{" + name + "}}", value)
    (data / "README.md").write_text(text, encoding="utf-8")
