#!/usr/bin/env python3
"""Make the bundled models data/tiny-llama and data/tiny-bert, and measure them.

    scripts/make_sample_models.py llama|bert   train one and write its files
    scripts/make_sample_models.py vocabulary   write both tokenizers and the sentences only
    scripts/make_sample_models.py readme       measure both and write data/README.md

Needs the texts (Debian 12, as root):
    apt-get install bible-kjv bible-kjv-text wordnet-base
and Python 3.11 or later with (versions the bundled files were made with):
    torch 2.13, transformers 5.23, tokenizers 0.23, safetensors 0.8

Neither building nor testing attnctl needs any of this. About 10 minutes a model on three idle
cores; on a busy machine set OMP_WAIT_POLICY=passive. A training that was interrupted goes on from
its last hundredth step when started again. The same seed, versions and number of threads give the
same weights on the same machine.
"""

import argparse
from pathlib import Path

SEED = 20
STATE = "training.pt"  # beside the model until its training ends; start again to go on
DATA = Path(__file__).resolve().parent.parent / "data"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Make and measure the bundled models.")
    parser.add_argument("what", choices=("llama", "bert", "vocabulary", "readme"))
    parser.add_argument("--data", type=Path, default=DATA, help="where the models go")
    parser.add_argument("--threads", type=int, default=3)
    return parser.parse_args()


def save_weights(model, folder: Path) -> None:
    """F16 halves the files; the measurements are of the weights as saved."""
    model.half().save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    (folder / "model.safetensors").chmod(0o644)


def main() -> None:
    arguments = parse()
    import torch  # after the arguments: --help should not need it
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
            save_weights(llama.make(tokenizer, corpus, SEED, folder / STATE), folder)
    if arguments.what in ("bert", "vocabulary"):
        tokenizer = vocabulary.train_word_piece(corpus.train_lines())
        folder = arguments.data / "tiny-bert"
        vocabulary.save_bert_tokenizer(tokenizer, folder, bert.LONGEST)
        if arguments.what == "bert":
            save_weights(bert.make(tokenizer, corpus, SEED, folder / STATE), folder)


if __name__ == "__main__":
    main()
