"""Small tokenizers that together have every part of tokenizer.json with its options. Vocabularies are trained on
tokenizers/training.txt (openings of books in the public domain, and lines written for this project).
"""
import json
from pathlib import Path

import charsmap
from tokenizers import AddedToken, Regex, Tokenizer, models, trainers
from tokenizers import decoders as dec
from tokenizers import normalizers as norm
from tokenizers import pre_tokenizers as pre
from tokenizers import processors as post

LINES = (Path(__file__).parent / "tokenizers" / "training.txt").read_text(encoding="utf-8").splitlines()
BYTES = [f"<0x{b:02X}>" for b in range(256)]

GPT2 = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
LLAMA3 = r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}").replace(r"\p{L}+", r"[\p{L}\p{M}]+", 1)
O200K = (r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"""
         r"""|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"""
         r"""|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+""")  # fmt: skip
CLIP = r"""<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"""


def added(content, **flags):
    return AddedToken(content, **({"normalized": False, "single_word": False} | flags))


# Added tokens with every flag, raw and normalized.
RAW = [added("newtoken", single_word=True), added("stripleft", lstrip=True), added("stripright", rstrip=True),
       added("stripboth", lstrip=True, rstrip=True), added("new token"), added("你好")]  # fmt: skip
NORMALIZED = [added("DOG", normalized=True), added("café!", normalized=True), added("Ångström", normalized=True),
              added("ab", normalized=True, single_word=True), added("newtoken", normalized=True, rstrip=True),
              added("stripboth", normalized=True, lstrip=True, rstrip=True)]  # fmt: skip


def tokenizer(model, normalizer=None, pre_tokenizer=None, decoder=None):
    result = Tokenizer(model)
    if normalizer is not None:
        result.normalizer = normalizer
    if pre_tokenizer is not None:
        result.pre_tokenizer = pre_tokenizer
    if decoder is not None:
        result.decoder = decoder
    return result


def train(result, trainer, **options):
    result.train_from_iterator(LINES, trainer(show_progress=False, **options))
    return result


def ids(result, *tokens):
    return [(t, result.token_to_id(t)) for t in tokens]


def template(result, single, pair=None):
    names = [x.split(":")[0] for x in (single + " " + (pair or "")).split() if not x.startswith("$")]
    return post.TemplateProcessing(single=single, pair=pair, special_tokens=ids(result, *sorted(set(names))))


def with_words(trained: Tokenizer, words: list[str], **options) -> models.BPE:
    """A trained BPE with additional words that no merge produces."""
    model = json.loads(trained.to_str())["model"]
    names = sorted(model["vocab"], key=model["vocab"].get) + words
    return models.BPE({t: i for i, t in enumerate(names)}, [tuple(m) for m in model["merges"]], **options)


def with_bytes(trained: Tokenizer, **options) -> models.BPE:
    """A trained BPE with the byte tokens first, as in Llama."""
    model = json.loads(trained.to_str())["model"]
    names = ["<unk>", "<s>", "</s>", *BYTES]
    names += [t for t in sorted(model["vocab"], key=model["vocab"].get) if t not in names]
    merges = [tuple(m) for m in model["merges"]]
    return models.BPE({t: i for i, t in enumerate(names)}, merges, unk_token="<unk>", **options)


# -- WordPiece

BERT_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def wordpiece_cased():
    result = tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100),
                       norm.BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=False, lowercase=False),
                       pre.BertPreTokenizer(), dec.WordPiece())  # fmt: skip
    train(result, trainers.WordPieceTrainer, vocab_size=600, special_tokens=BERT_TOKENS)
    result.post_processor = post.BertProcessing(*reversed(ids(result, "[CLS]", "[SEP]")))
    result.add_tokens(RAW)
    return result


def wordpiece_accents():
    """Keeps accents independently of case; no cleaning, a length limit, another prefix and another unknown token."""
    result = tokenizer(models.WordPiece(unk_token="<?>", max_input_chars_per_word=9),
                       norm.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False),
                       pre.BertPreTokenizer(), dec.WordPiece(prefix="@@"))  # fmt: skip
    train(result, trainers.WordPieceTrainer, vocab_size=400, special_tokens=["<?>", "[CLS]", "[SEP]"],
          continuing_subword_prefix="@@")  # fmt: skip
    result.model.continuing_subword_prefix = "@@"
    result.post_processor = template(result, "[CLS]:2 $A:3 [SEP]:2", "$B:1 [SEP]:4 $A [CLS]:1 $0 [SEP]")
    result.add_special_tokens([added("[MASK]", lstrip=True)])
    result.add_tokens(NORMALIZED)
    return result


def wordpiece_lowercase():
    """Lowercase that keeps accents; punctuation stays with the preceding text."""
    result = tokenizer(models.WordPiece(unk_token="[UNK]"),
                       norm.Sequence([norm.BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=False,
                                                          lowercase=True), norm.Strip()]),
                       pre.Sequence([pre.WhitespaceSplit(), pre.Punctuation("merged_with_previous")]))  # fmt: skip
    train(result, trainers.WordPieceTrainer, vocab_size=400, special_tokens=BERT_TOKENS)
    result.post_processor = post.Sequence([template(result, "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1")])
    result.add_tokens(NORMALIZED)
    return result


# -- byte-level BPE

GPT_TOKENS = ["<|endoftext|>"]


def byte_level(normalizer, pre_tokenizer, special=GPT_TOKENS, vocab_size=420, **options):
    result = tokenizer(models.BPE(**options), normalizer, pre_tokenizer, dec.ByteLevel())
    return train(result, trainers.BpeTrainer, vocab_size=vocab_size, special_tokens=special,
                 initial_alphabet=pre.ByteLevel.alphabet())  # fmt: skip


def byte_level_roberta():
    result = byte_level(None, pre.ByteLevel(add_prefix_space=True), ["<s>", "<pad>", "</s>", "<unk>"])
    result.post_processor = post.RobertaProcessing(*reversed(ids(result, "<s>", "</s>")), trim_offsets=True,
                                                   add_prefix_space=True)  # fmt: skip
    result.add_special_tokens([added("<mask>", lstrip=True)])
    result.add_tokens(NORMALIZED)
    return result


def byte_level_roberta_plain():
    result = byte_level(None, pre.ByteLevel(add_prefix_space=False), ["<s>", "<pad>", "</s>", "<unk>"])
    result.post_processor = post.RobertaProcessing(*reversed(ids(result, "<s>", "</s>")), trim_offsets=False,
                                                   add_prefix_space=False)  # fmt: skip
    result.add_tokens(RAW)
    return result


def byte_level_llama3():
    """Looks up the whole word before merging; a template that is not the first post-processor."""
    result = byte_level(None, pre.Sequence([pre.Split(Regex(LLAMA3), "isolated"),
                                            pre.ByteLevel(add_prefix_space=False, use_regex=False)]),
                        ["<|begin_of_text|>", "<|eot_id|>"])  # fmt: skip
    result.model = with_words(result, ["Ġconversation", "Rabbit", "Ġthought", "daisy", "<|", "!!", "éĺ"], ignore_merges=True)
    result.post_processor = post.Sequence([post.ByteLevel(trim_offsets=False),
                                           template(result, "<|begin_of_text|> $A",
                                                    "<|begin_of_text|> $A <|begin_of_text|>:1 $B:1")])  # fmt: skip
    return result


def byte_level_qwen():
    result = byte_level(norm.NFC(), pre.Sequence([pre.Split(Regex(QWEN), "isolated"),
                                                  pre.ByteLevel(add_prefix_space=False, use_regex=False)]))  # fmt: skip
    result.post_processor = post.ByteLevel(trim_offsets=True, add_prefix_space=False)
    result.add_tokens(NORMALIZED)
    return result


def byte_level_deepseek():
    result = byte_level(None, pre.Sequence([
        pre.Split(Regex(r"[\r\n]"), "isolated"), pre.Split(Regex(r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-Ϋ]+"), "isolated"),
        pre.Split(Regex(r"\s?[!-/:-~！-／：-～‘-‟　-。]+"), "isolated"), pre.Split(Regex(r"\s+$"), "isolated"),
        pre.Split(Regex(r"[一-龥ࠀ-一가-퟿]+"), "isolated"), pre.Digits(individual_digits=True),
        pre.ByteLevel(add_prefix_space=False, use_regex=False)]))  # fmt: skip
    result.post_processor = post.ByteLevel(trim_offsets=True, add_prefix_space=True)
    result.add_special_tokens([added("<|begin_of_text|>", rstrip=True)])
    return result


def byte_level_o200k():
    result = byte_level(None, pre.Sequence([pre.Split(Regex(O200K), "removed", invert=True),
                                            pre.ByteLevel(add_prefix_space=True, use_regex=False)]))  # fmt: skip
    result.post_processor = post.Sequence([post.ByteLevel(trim_offsets=True), template(result, "$A <|endoftext|>")])
    return result


def byte_level_normalizer():
    """Bytes made by the normalizer, and words split by a regular expression over them."""
    result = byte_level(norm.Sequence([norm.Replace(Regex(r"\s+"), " "), norm.ByteLevel()]),
                        pre.Split(Regex(r"Ġ?[^Ġ]+"), "isolated"))  # fmt: skip
    result.add_tokens(RAW)
    return result


# -- character BPE


def bpe_llama():
    """SentencePiece BPE as in Llama 2: no pre-tokenizer, byte fallback, unknown tokens fused."""
    trained = train(tokenizer(models.BPE(unk_token="<unk>"), None, pre.Metaspace(prepend_scheme="always")),
                    trainers.BpeTrainer, vocab_size=500, special_tokens=["<unk>"])  # fmt: skip
    result = tokenizer(with_bytes(trained, byte_fallback=True, fuse_unk=True),
                       norm.Sequence([norm.Prepend("▁"), norm.Replace(" ", "▁")]))  # fmt: skip
    result.post_processor = template(result, "<s> $A", "<s> $A <s>:1 $B:1")
    result.add_special_tokens(["<unk>", "<s>", "</s>"])
    result.add_tokens(NORMALIZED)
    return result


def bpe_metaspace_first():
    """No byte tokens: byte_fallback finds none and gives one unknown token per character."""
    result = tokenizer(models.BPE(unk_token="<unk>", fuse_unk=False, byte_fallback=True), None,
                       pre.Metaspace(prepend_scheme="first", split=False), dec.Metaspace(prepend_scheme="first"))  # fmt: skip
    train(result, trainers.BpeTrainer, vocab_size=500, special_tokens=["<unk>", "<s>", "</s>"])
    result.post_processor = template(result, "<s> $A </s>", "<s> $A </s> $B </s>")
    result.add_tokens(RAW)
    return result


def bpe_metaspace_always():
    """Unknown characters fused, another mark for the space, added tokens inside the vocabulary."""
    result = tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True), norm.Strip(left=True, right=False),
                       pre.Metaspace(replacement="_", prepend_scheme="always", split=True))  # fmt: skip
    train(result, trainers.BpeTrainer, vocab_size=400, special_tokens=["<unk>", "<s>"])
    result.add_tokens(RAW)
    return result


def bpe_no_unknown():
    """Unknown characters are dropped."""
    result = tokenizer(models.BPE(), norm.Strip(left=False, right=True),
                       pre.Metaspace(prepend_scheme="never", split=True))  # fmt: skip
    train(result, trainers.BpeTrainer, vocab_size=300, limit_alphabet=60, special_tokens=["<s>"])
    result.add_tokens(NORMALIZED)
    return result


def bpe_clip():
    """Words with an end-of-word suffix."""
    result = tokenizer(models.BPE(unk_token="<|endoftext|>", end_of_word_suffix="</w>"),
                       norm.Sequence([norm.NFC(), norm.Replace(Regex(r"\s+"), " "), norm.Lowercase()]),
                       pre.Sequence([pre.Split(Regex(CLIP), "removed", invert=True), pre.ByteLevel(add_prefix_space=False)]))  # fmt: skip
    train(result, trainers.BpeTrainer, vocab_size=700, special_tokens=["<|startoftext|>", "<|endoftext|>"],
          initial_alphabet=pre.ByteLevel.alphabet(), end_of_word_suffix="</w>")  # fmt: skip
    result.post_processor = post.RobertaProcessing(*reversed(ids(result, "<|startoftext|>", "<|endoftext|>")),
                                                   trim_offsets=False, add_prefix_space=False)  # fmt: skip
    result.add_tokens(NORMALIZED)
    return result


def bpe_continuing():
    """A prefix on all but the first character; words from `Whitespace`."""
    result = tokenizer(models.BPE(unk_token="[UNK]", continuing_subword_prefix="##", fuse_unk=True), norm.NFKC(),
                       pre.Whitespace())  # fmt: skip
    train(result, trainers.BpeTrainer, vocab_size=500, special_tokens=["[UNK]"], continuing_subword_prefix="##")
    result.add_tokens(RAW)
    return result


# -- Unigram


def unigram(result, **options):
    return train(result, trainers.UnigramTrainer, unk_token="<unk>", **({"vocab_size": 400} | options))


def unigram_charsmap():
    """As in XLM-RoBERTa and T5."""
    result = tokenizer(models.Unigram(), norm.Sequence([norm.Precompiled(charsmap.sample()), norm.Replace(Regex(" {2,}"), " ")]),
                       pre.Sequence([pre.WhitespaceSplit(), pre.Metaspace(prepend_scheme="always")]),
                       dec.Metaspace())  # fmt: skip
    unigram(result, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    result.post_processor = template(result, "<s> $A </s>", "<s> $A </s> </s> $B </s>")
    result.add_special_tokens([added("<mask>", lstrip=True, normalized=True)])
    result.add_tokens(NORMALIZED)
    return result


def unigram_albert():
    """As in ALBERT: quotes replaced, accents removed, lower case."""
    result = tokenizer(models.Unigram(), norm.Sequence([
        norm.Replace("``", '"'), norm.Replace("''", '"'), norm.NFKD(), norm.StripAccents(), norm.Lowercase(),
        norm.Nmt(), norm.Precompiled(charsmap.sample())]), pre.Metaspace(prepend_scheme="first"))  # fmt: skip
    unigram(result, special_tokens=["<pad>", "<unk>", "[CLS]", "[SEP]"])
    result.post_processor = template(result, "[CLS]:0 $A:0 [SEP]:0", "[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1")
    result.add_tokens(RAW)
    return result


def unigram_bytes():
    """With byte fallback and no pre-tokenizer."""
    trained = unigram(tokenizer(models.Unigram(), None, pre.Metaspace()), special_tokens=["<unk>"])
    pieces = [tuple(p) for p in json.loads(trained.to_str())["model"]["vocab"]]
    pieces[1:1] = [(b, -9.5) for b in BYTES]
    result = tokenizer(models.Unigram(pieces, 0, True), norm.Sequence([norm.Prepend("▁"), norm.Replace(" ", "▁")]))
    result.add_special_tokens(["<unk>"])
    result.add_tokens(NORMALIZED)
    return result


def unigram_trimmed():
    """Offsets trimmed by the text of unknown tokens, which have no string in the vocabulary."""
    result = unigram(tokenizer(models.Unigram(), None, pre.Split(" ", "merged_with_next")), special_tokens=["<unk>"])
    result.post_processor = post.ByteLevel(trim_offsets=True, add_prefix_space=True)
    result.add_tokens(RAW)
    return result


# -- WordLevel


def word_level(result, **options):
    return train(result, trainers.WordLevelTrainer, **({"vocab_size": 250} | options), special_tokens=["[UNK]", "[CLS]", "[SEP]"])


def word_level_scripts():
    result = word_level(tokenizer(models.WordLevel(unk_token="[UNK]"), norm.NFD(),
                                  pre.Sequence([pre.CharDelimiterSplit(" "), pre.UnicodeScripts(), pre.Digits(individual_digits=False)])))  # fmt: skip
    result.add_tokens(RAW)
    return result


def word_level_nmt():
    result = word_level(tokenizer(models.WordLevel(unk_token="[UNK]"), norm.Sequence([norm.Nmt(), norm.NFKD()]),
                                  pre.Sequence([pre.Whitespace(), pre.Punctuation("removed"), pre.Digits(True)])))  # fmt: skip
    result.post_processor = template(result, "$A:1 [SEP]:1 [CLS]", "$A $B:2 $A:1")
    result.add_tokens(NORMALIZED)
    return result


def word_level_splits():
    """Split with a string and a regular expression, its five behaviors, inverted and not."""
    splits = [pre.Split(" ", "removed"), pre.Split("-", "isolated"), pre.Split(",", "merged_with_previous"),
              pre.Split("_", "merged_with_next"), pre.Split("!", "contiguous"),
              pre.Split(Regex(r"[.\n]"), "merged_with_previous"), pre.Split(Regex("[aeiou]{2}"), "merged_with_next"),
              pre.Split(Regex(r"\p{Lu}"), "contiguous"), pre.Split(Regex("[a-z]+"), "isolated", invert=True),
              pre.Split(Regex(r"\p{N}+"), "merged_with_previous", invert=True), pre.Split("the", "merged_with_next", invert=True),
              pre.Split(Regex(r"[\x{80}-\x{10FFFF}]"), "contiguous", invert=True)]  # fmt: skip
    result = word_level(tokenizer(models.WordLevel(unk_token="[UNK]"), norm.Replace("--", "-1-"), pre.Sequence(splits)))
    result.add_tokens(NORMALIZED)
    return result


def word_level_next():
    result = word_level(tokenizer(models.WordLevel(unk_token="[UNK]"), norm.Replace(Regex(r"(\w)\1"), "$1"),
                                  pre.Sequence([pre.WhitespaceSplit(), pre.Punctuation("merged_with_next")])), vocab_size=120)  # fmt: skip
    return result


def word_level_contiguous():
    result = word_level(tokenizer(models.WordLevel(unk_token="[UNK]"), norm.Sequence([norm.NFD(), norm.StripAccents(), norm.NFC()]),
                                  pre.Sequence([pre.Punctuation("contiguous"), pre.Metaspace(prepend_scheme="first")])),
                        vocab_size=120)  # fmt: skip
    result.add_tokens(RAW)
    return result


def word_level_isolated():
    result = word_level(tokenizer(models.WordLevel(unk_token="[UNK]"), norm.Sequence([norm.Lowercase(), norm.Strip(), norm.Prepend("«")]),
                                  pre.Sequence([pre.Punctuation(), pre.CharDelimiterSplit("e"), pre.FixedLength(4)])), vocab_size=120)  # fmt: skip
    result.add_tokens(NORMALIZED)
    return result


BUILT = {f.__name__.replace("_", "-"): f for f in (
    wordpiece_cased, wordpiece_accents, wordpiece_lowercase, byte_level_roberta, byte_level_roberta_plain,
    byte_level_llama3, byte_level_qwen, byte_level_deepseek, byte_level_o200k, byte_level_normalizer, bpe_llama,
    bpe_metaspace_first, bpe_metaspace_always, bpe_no_unknown, bpe_clip, bpe_continuing, unigram_charsmap,
    unigram_albert, unigram_bytes, unigram_trimmed, word_level_scripts, word_level_nmt, word_level_splits, word_level_next,
    word_level_contiguous, word_level_isolated)}  # fmt: skip
