#!/usr/bin/env python3
"""Makes gguf/tokenizers/: tokenizers as GGUF files without tensors, written by the format's own library as by
llama.cpp's converter, and the results of the `tokenizers` library for tokenizers/strings.json (golden.json).

bpe-bytes and bpe-defined are sentencepiece/NAME.model, whose ids are in sentencepiece/golden.json. tiny-llama is
data/tiny-llama. The others are byte-level tokenizers with the pre-tokenizer that the metadata "tokenizer.ggml.pre"
names. llama-text.gguf is a random model with the tokenizer of bpe-bytes.
"""
import json
from pathlib import Path

import gguf
import numpy as np
from gguf import TokenType
from sentencepiece import sentencepiece_model_pb2 as proto
from tokenizers import Tokenizer

GOLDEN = Path(__file__).resolve().parent
OUT = GOLDEN / "gguf" / "tokenizers"
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
# As in the files of Qwen/Qwen2.5-0.5B and HuggingFaceTB/SmolLM-135M.
QWEN2 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def writer_of(name: str, architecture: str) -> gguf.GGUFWriter:
    writer = gguf.GGUFWriter(OUT / f"{name}.gguf", architecture)
    writer.add_name(name)
    return writer


def close(writer: gguf.GGUFWriter):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_pieces(writer: gguf.GGUFWriter, name: str) -> int:
    """Writes a SentencePiece model, as TextModel._set_vocab_sentencepiece. Returns the number of tokens."""
    model = proto.ModelProto()
    model.ParseFromString((GOLDEN / "sentencepiece" / f"{name}.model").read_bytes())
    kinds = {1: TokenType.NORMAL, 2: TokenType.UNKNOWN, 3: TokenType.CONTROL, 4: TokenType.USER_DEFINED,
             6: TokenType.BYTE}
    count = len(model.pieces)
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    # The vocabulary is padded to the rows of the embedding.
    padding = [f"[PAD{count + i}]" for i in range(3)]
    writer.add_token_list([piece.piece for piece in model.pieces] + padding)
    writer.add_token_scores([piece.score for piece in model.pieces] + [-10000.0] * len(padding))
    writer.add_token_types([kinds[piece.type] for piece in model.pieces] + [TokenType.UNUSED] * len(padding))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(False)
    writer.add_add_space_prefix(model.normalizer_spec.add_dummy_prefix)
    if model.normalizer_spec.remove_extra_whitespaces:
        writer.add_remove_extra_whitespaces(True)
    return count + len(padding)


def write_bytes(name: str, pre: str, tokenizer: dict, add_bos: bool | None) -> list:
    """Writes a byte-level tokenizer, as TextModel._set_vocab_gpt2. Returns the library's results for the texts."""
    tokens = {id: token for token, id in tokenizer["model"]["vocab"].items()}
    added = {token["id"]: token for token in tokenizer["added_tokens"]}
    tokens |= {id: token["content"] for id, token in added.items()}
    kinds = [TokenType.NORMAL if id not in added else
             TokenType.CONTROL if added[id]["special"] else TokenType.USER_DEFINED for id in range(len(tokens))]
    writer = writer_of(name, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list([tokens[id] for id in range(len(tokens))])
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(merge) for merge in tokenizer["model"]["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1 if 1 in added else 0)
    if add_bos is not None:
        writer.add_add_bos_token(add_bos)
    close(writer)
    reference = Tokenizer.from_str(json.dumps(tokenizer))
    texts = json.loads((GOLDEN / "tokenizers" / "strings.json").read_text())["strings"]
    return [reference.encode(row["text"]).ids for row in texts]


def byte_level(name: str, pieces: list, normalizer: dict | None) -> dict:
    """A tokenizer of tokenizers/ with another pre-tokenizer and two added tokens, of the kinds that GGUF supports."""
    tokenizer = json.loads((GOLDEN / "tokenizers" / name / "tokenizer.json").read_text())
    size = len(tokenizer["model"]["vocab"])
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    tokenizer["added_tokens"] = [{"id": 0, "content": "<|endoftext|>", "special": True, **flags},
                                 {"id": size, "content": "DOG", "special": False, **flags}]
    last = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": len(pieces) == 0
            or pieces[-1]["type"] == "Digits"}
    tokenizer["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [*pieces, last]}
    tokenizer["normalizer"] = normalizer
    tokenizer["post_processor"] = None
    return tokenizer


def make_model():
    """A random llama of one layer with its own tokenizer."""
    random = np.random.default_rng(66)
    writer = writer_of("llama-text", "llama")
    vocabulary = add_pieces(writer, "bpe-bytes")
    width, heads, inner = 8, 2, 12
    writer.add_context_length(64)
    writer.add_embedding_length(width)
    writer.add_block_count(1)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_layer_norm_rms_eps(1e-5)
    shapes = {"token_embd": (vocabulary, width), "output_norm": (width,), "blk.0.attn_norm": (width,),
              "blk.0.ffn_norm": (width,), "blk.0.ffn_gate": (inner, width), "blk.0.ffn_up": (inner, width),
              "blk.0.ffn_down": (width, inner)} | {
                  f"blk.0.attn_{part}": (width, width) for part in ("q", "k", "v", "output")}
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", random.normal(size=shape).astype(np.float16 if len(shape) > 1
                                                                              else np.float32))
    close(writer)


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for name in ("bpe-bytes", "bpe-defined"):
        writer = writer_of(name, "llama")
        add_pieces(writer, name)
        close(writer)
    llama = json.loads((GOLDEN.parent.parent / "data" / "tiny-llama" / "tokenizer.json").read_text())
    llama3 = json.loads((GOLDEN / "tokenizers" / "byte-level-llama3" / "tokenizer.json").read_text())
    split = {"type": "Split", "pattern": {"Regex": QWEN2}, "behavior": "Isolated", "invert": False}
    digits = {"type": "Digits", "individual_digits": True}
    rows = {
        "tiny-llama": write_bytes("tiny-llama", "gpt-2", llama, True),
        "llama3": write_bytes("llama3", "llama-bpe", llama3, None),
        "qwen2": write_bytes("qwen2", "qwen2", byte_level("byte-level-qwen", [split], {"type": "NFC"}), False),
        "smollm": write_bytes("smollm", "smollm", byte_level("byte-level-qwen", [digits], None), None),
    }
    lines = [f'"{name}": [\n' + ",\n".join(json.dumps(ids, separators=(",", ":")) for ids in row) + "\n]"
             for name, row in rows.items()]
    (OUT / "golden.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    make_model()


if __name__ == "__main__":
    main()
