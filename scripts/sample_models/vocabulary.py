"""The tokenizers of the bundled models: trains them on the corpus and writes their files."""

import json
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from .corpus import SENTENCES

LLAMA_VOCABULARY = 2048
BERT_VOCABULARY = 3072
EMPHASIS = 2000
BOS, EOS = "<s>", "</s>"
BERT_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def train_byte_level_bpe(lines: list[str]) -> Tokenizer:
    """Byte-level BPE as in GPT-2 and Llama 3. A sequence begins with <s>."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(emphasised(lines), trainers.BpeTrainer(
        vocab_size=LLAMA_VOCABULARY, special_tokens=[BOS, EOS], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A {BOS}:1 $B:1",
        special_tokens=[(BOS, tokenizer.token_to_id(BOS))])
    return tokenizer


def train_word_piece(lines: list[str]) -> Tokenizer:
    """Lower-case WordPiece as in BERT: [CLS] A [SEP], or [CLS] A [SEP] B [SEP]."""
    ids = {piece: i for i, piece in enumerate(word_pieces(lines))}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(list(BERT_SPECIALS))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(t, tokenizer.token_to_id(t)) for t in ("[CLS]", "[SEP]")])
    return tokenizer


def word_pieces(lines: list[str]) -> list[str]:
    """Returns the vocabulary in order: special tokens, the alphabet (as first and as later letter), pieces.

    The pieces come from BPE on words that begin with a mark, because the ids and tie-breaking of WordPieceTrainer
    differ between runs.
    """
    mark = "\u2581"
    trained = Tokenizer(models.BPE())
    trained.normalizer = normalizers.BertNormalizer(lowercase=True)
    trained.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.BertPreTokenizer(), pre_tokenizers.Metaspace(mark, prepend_scheme="always")])
    trained.train_from_iterator(emphasised(lines), trainers.BpeTrainer(
        vocab_size=BERT_VOCABULARY, show_progress=False))
    in_order = sorted(trained.get_vocab(), key=trained.token_to_id)
    letters = [piece for piece in in_order if len(piece) == 1 and piece != mark]
    longer = [piece for piece in in_order if len(piece) > 1]
    pieces = [*BERT_SPECIALS, *letters, *(f"##{letter}" for letter in letters)]
    known = set(pieces)
    for piece in longer:
        name = piece[len(mark):] if piece.startswith(mark) else f"##{piece}"
        if name not in known and len(pieces) < BERT_VOCABULARY:
            known.add(name)
            pieces.append(name)
    return pieces


def emphasised(lines: list[str]) -> list[str]:
    """Repeats the first textbook sentence so that its words become whole tokens."""
    return lines + [SENTENCES[0][1]] * EMPHASIS


def save_llama_tokenizer(tokenizer: Tokenizer, folder: Path, longest: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    write_json(folder / "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": BOS, "eos_token": EOS,
        "clean_up_tokenization_spaces": False, "model_max_length": longest})
    save_sentences(tokenizer, folder)


def save_bert_tokenizer(tokenizer: Tokenizer, folder: Path, longest: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token, _ in vocabulary))
    write_json(folder / "tokenizer_config.json", {
        "tokenizer_class": "BertTokenizer", "do_lower_case": True, "pad_token": "[PAD]",
        "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]",
        "mask_token": "[MASK]", "clean_up_tokenization_spaces": False,
        "model_max_length": longest})
    save_sentences(tokenizer, folder)


def save_sentences(tokenizer: Tokenizer, folder: Path) -> None:
    """Writes the textbook sentences as tokens of this vocabulary, for `attnctl --input`."""
    records = [{"id": name, "tokens": tokenizer.encode(text).tokens} for name, text in SENTENCES]
    lines = [json.dumps(record, ensure_ascii=False) + "\n" for record in records]
    (folder / "sentences.jsonl").write_text("".join(lines), encoding="utf-8")


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
