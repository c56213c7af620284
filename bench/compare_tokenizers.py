"""Compares attnctl with the `tokenizers` library (Rust): texts per second on one thread, and the time to load 128,000
entries.

venv/bin/python bench/compare_tokenizers.py BENCH TEXT... [--model NAME=DIR] [--work DIR] [--rounds 5]

BENCH is attnctl_tokenizer_bench. TEXT is a file of lines or a treebank (.conllu: its `# text =`). Tokenizers with
16,000 entries are trained on the texts (WordPiece, byte-level BPE, SentencePiece BPE, Unigram; --work keeps them).
--model adds a model's tokenizer. In each round both read the same lines in turns, with empty and with filled caches.
The best pass counts.
"""
import argparse
import os

os.environ |= {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1"}  # before tokenizers is imported

import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "golden"))
import charsmap
from tokenizer_cases import LLAMA3
from tokenizer_text import treebank_texts
from tokenizers import Regex, Tokenizer, models, trainers
from tokenizers import normalizers as norm
from tokenizers import pre_tokenizers as pre
from tokenizers import processors as post

LARGE = 128000
PASSES = 3


def read_texts(paths: list[Path]) -> list[str]:
    texts = []
    for path in paths:
        texts += treebank_texts(path) if path.suffix == ".conllu" else path.read_text(encoding="utf-8").splitlines()
    return [t for t in texts if t.strip() and not set(t) & set("\n\r")]


def save(tokenizer: Tokenizer, directory: Path) -> None:
    directory.mkdir(parents=True)
    tokenizer.save(str(directory / "tokenizer.json"), pretty=False)


def train_all(work: Path, texts: list[str], size: int = 16000) -> None:
    def trained(tokenizer, trainer, special, **options):
        tokenizer.train_from_iterator(texts, trainer(special_tokens=special, show_progress=False, vocab_size=size, **options))
        return tokenizer

    word_piece = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    word_piece.normalizer, word_piece.pre_tokenizer = norm.BertNormalizer(), pre.BertPreTokenizer()
    trained(word_piece, trainers.WordPieceTrainer, ["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    word_piece.post_processor = post.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    save(word_piece, work / "WordPiece")

    byte_level = Tokenizer(models.BPE())
    byte_level.pre_tokenizer = pre.Sequence([pre.Split(Regex(LLAMA3), "isolated"), pre.ByteLevel(False, use_regex=False)])
    byte_level.post_processor = post.ByteLevel(trim_offsets=True)
    save(trained(byte_level, trainers.BpeTrainer, ["<s>"], initial_alphabet=pre.ByteLevel.alphabet()), work / "byte-level BPE")

    gpt2 = Tokenizer(models.BPE())
    gpt2.pre_tokenizer, gpt2.post_processor = pre.ByteLevel(False), post.ByteLevel(trim_offsets=True)
    save(trained(gpt2, trainers.BpeTrainer, ["<s>"], initial_alphabet=pre.ByteLevel.alphabet()), work / "byte-level BPE (GPT-2)")

    bpe = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    bpe.pre_tokenizer = pre.Metaspace()
    trained(bpe, trainers.BpeTrainer, ["<unk>", "<s>", *(f"<0x{b:02X}>" for b in range(256))])
    sentence_piece = Tokenizer.from_str(json.dumps(json.loads(bpe.to_str()) | {
        "pre_tokenizer": None, "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}}))  # fmt: skip
    save(sentence_piece, work / "SentencePiece BPE")

    unigram = Tokenizer(models.Unigram())
    unigram.normalizer = norm.Sequence([norm.Precompiled(charsmap.sample()), norm.Replace(Regex(" {2,}"), " ")])
    unigram.pre_tokenizer = pre.Sequence([pre.WhitespaceSplit(), pre.Metaspace()])
    save(trained(unigram, trainers.UnigramTrainer, ["<unk>", "<s>"], unk_token="<unk>"), work / "Unigram")


def make_large(directory: Path) -> None:
    """Makes a byte-level BPE whose merges join random tokens, preferably short ones."""
    chosen = random.Random(1)
    tokens = sorted(pre.ByteLevel.alphabet())
    known, merges = set(tokens), []
    while len(tokens) < LARGE:
        pair = tuple(tokens[int(len(tokens) * chosen.random() ** 3)] for _ in range(2))
        if len(pair[0] + pair[1]) <= 16 and pair[0] + pair[1] not in known:
            merges.append(pair)
            tokens.append(pair[0] + pair[1])
            known.add(tokens[-1])
    tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, merges, ignore_merges=True))
    tokenizer.pre_tokenizer = pre.Sequence([pre.Split(Regex(LLAMA3), "isolated"), pre.ByteLevel(False, use_regex=False)])
    save(tokenizer, directory)


def milliseconds(work) -> float:
    begin = time.perf_counter()
    work()
    return (time.perf_counter() - begin) * 1e3


def ours(bench: Path, directory: Path, *arguments: str) -> list[float]:
    run = subprocess.run([bench, directory, *arguments], stdout=subprocess.PIPE, check=True, text=True)
    return [float(x) for x in run.stdout.split()]


def compare(bench: Path, directory: Path, texts: list[str], file: Path, rounds: int) -> None:
    """Measures both with empty caches, and again with the caches of the previous pass."""
    best = {"ours": [float("inf")] * 2, "theirs": [float("inf")] * 2}

    def keep(whose: str, first: float, again: float) -> None:
        best[whose] = [min(best[whose][0], first), min(best[whose][1], again)]

    for _ in range(rounds):
        _, first, again, _, tokens, _ = ours(bench, directory, str(file), str(PASSES))
        keep("ours", first, again)
        tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        first = milliseconds(lambda: tokenizer.encode_batch(texts))
        keep("theirs", first, min(milliseconds(lambda: tokenizer.encode_batch(texts)) for _ in range(PASSES)))
    wanted = sum(len(e.ids) for e in tokenizer.encode_batch(texts))
    if tokens != wanted:
        raise SystemExit(f"{directory.name}: {tokens:.0f} tokens, the library makes {wanted}")
    rates = [[len(texts) / ms * 1e3 for ms in best[whose]] for whose in ("ours", "theirs")]
    cells = [f"{a[i]:,.0f} | {b[i]:,.0f} | {a[i] / b[i]:.1f}" for a, b in [rates] for i in (0, 1)]
    print(f"| {directory.name} | {' | '.join(cells)} |", flush=True)


def compare_load(bench: Path, directory: Path, rounds: int) -> None:
    path = str(directory / "tokenizer.json")
    best = [float("inf"), float("inf")]
    for _ in range(rounds):
        best[0] = min(best[0], ours(bench, directory)[0])
        best[1] = min(best[1], milliseconds(lambda: Tokenizer.from_file(path)))
    print(f"\nLoading {LARGE:,} entries: {best[0]:.0f} ms, tokenizers {best[1]:.0f} ms")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("bench", type=Path)
    options.add_argument("texts", type=Path, nargs="+")
    options.add_argument("--model", action="append", default=[])
    options.add_argument("--work", type=Path)
    options.add_argument("--rounds", type=int, default=5)
    arguments = options.parse_args()
    texts = read_texts(arguments.texts)
    with tempfile.TemporaryDirectory() as temporary:
        work = arguments.work or Path(temporary)
        file = Path(temporary) / "texts.txt"
        file.write_text("".join(f"{t}\n" for t in texts), encoding="utf-8")
        if not (work / "Unigram").exists():
            train_all(work, texts)
            make_large(work / "large")
        print(f"{len(texts):,} texts, {sum(map(len, texts)) / len(texts):.0f} characters each\n")
        print("| tokenizer | attnctl, texts/s | tokenizers | ratio | attnctl, again | tokenizers, again | ratio |")
        print("|---|---|---|---|---|---|---|")
        for directory in sorted(d for d in work.iterdir() if (d / "tokenizer.json").exists() and d.name != "large"):
            compare(arguments.bench, directory, texts, file, arguments.rounds)
        for model in arguments.model:
            name, directory = model.split("=", 1)
            link = Path(temporary) / name
            link.symlink_to(Path(directory).resolve())
            compare(arguments.bench, link, texts, file, arguments.rounds)
        compare_load(arguments.bench, work / "large", arguments.rounds)


if __name__ == "__main__":
    main()
