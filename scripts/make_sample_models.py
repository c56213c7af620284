#!/usr/bin/env python3
"""Make the bundled models data/tiny-llama and data/tiny-bert, and measure them.

    scripts/make_sample_models.py llama|bert   train one model and write its files
    scripts/make_sample_models.py vocabulary   write only both tokenizers and the sentences
    scripts/make_sample_models.py readme       measure both models and write data/README.md

Needs the texts (Debian 12, as root):
    apt-get install bible-kjv bible-kjv-text wordnet-base
and Python 3.11 or later with these packages (the versions that made the bundled files):
    torch 2.13, transformers 5.23, tokenizers 0.23, safetensors 0.8

Building and testing attnctl do not need this script. Training takes about 10 minutes per model on three idle cores.
On a busy machine set OMP_WAIT_POLICY=passive. An interrupted training continues from its last checkpoint, of which
there is one per hundred steps. The same seed, versions and number of threads give the same weights on the same
machine.
"""

import argparse
import copy
from pathlib import Path

SEED = 20
STATE = "training.pt"  # checkpoint next to the model while it is being trained
DATA = Path(__file__).resolve().parent.parent / "data"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Make and measure the bundled models.")
    parser.add_argument("what", choices=("llama", "bert", "vocabulary", "readme"))
    parser.add_argument("--data", type=Path, default=DATA, help="where the models go")
    parser.add_argument("--threads", type=int, default=3)
    parser.add_argument("--checkpoints", type=Path, help="llama: folder for the models during the training")
    parser.add_argument("--every", type=int, default=300, help="steps between two of --checkpoints")
    return parser.parse_args()


def save_weights(model, folder: Path) -> None:
    """Saves weights as F16, which halves the files. The measurements use the saved weights."""
    model.half().save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    (folder / "model.safetensors").chmod(0o644)


def keep_checkpoints(folder: Path, every: int, tokenizer, longest: int):
    """Returns a function that saves the model every `every` steps as FOLDER/step-N."""
    from sample_models import vocabulary

    def keep(model, step: int) -> None:
        if step % every == 0:
            place = folder / f"step-{step}"
            vocabulary.save_llama_tokenizer(tokenizer, place, longest)
            save_weights(copy.deepcopy(model), place)
    return keep


def main() -> None:
    arguments = parse()
    import torch  # imported after parsing, so that --help works without it
    from sample_models import bert, llama, vocabulary
    from sample_models.corpus import read_corpus

    torch.set_num_threads(arguments.threads)
    torch.use_deterministic_algorithms(True)
    corpus = read_corpus(SEED)
    if arguments.what == "readme":
        from sample_models.readme import write_readme
        write_readme(corpus, arguments.data)
        return
    if arguments.what in ("llama", "vocabulary"):
        tokenizer = vocabulary.train_byte_level_bpe(corpus.train_lines())
        folder = arguments.data / "tiny-llama"
        vocabulary.save_llama_tokenizer(tokenizer, folder, llama.LONGEST)
        if arguments.what == "llama":
            keep = [] if arguments.checkpoints is None else [
                keep_checkpoints(arguments.checkpoints, arguments.every, tokenizer, llama.LONGEST)]
            save_weights(llama.make(tokenizer, corpus, SEED, folder / STATE, *keep), folder)
    if arguments.what in ("bert", "vocabulary"):
        tokenizer = vocabulary.train_word_piece(corpus.train_lines())
        folder = arguments.data / "tiny-bert"
        vocabulary.save_bert_tokenizer(tokenizer, folder, bert.LONGEST)
        if arguments.what == "bert":
            save_weights(bert.make(tokenizer, corpus, SEED, folder / STATE), folder)


if __name__ == "__main__":
    main()
