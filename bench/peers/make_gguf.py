#!/usr/bin/env python3
"""Makes GGUF files of the llama layout with random weights.

    make_gguf.py FILE TYPE [--size 360M]      TYPE: F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K or Q6_K
"""
import argparse

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

# d_model, layers, heads, kv_heads, inner, vocabulary
SIZES = {
    "tiny": (256, 2, 4, 2, 512, 512),
    "360M": (960, 32, 15, 5, 2560, 49152),
    "7B": (4096, 32, 32, 32, 11008, 32000),
}


class Pool:
    """Random rows of one length, of which each tensor takes some: quantising billions of values would take hours."""

    ROWS = 4096

    def __init__(self, kind: Type, seed: int):
        self.kind, self.seed, self.rows = kind, seed, {}

    def take(self, shape: tuple[int, int], number: int) -> np.ndarray:
        rows, width = shape
        if width not in self.rows:
            values = np.random.default_rng(self.seed + width).normal(0, width**-0.5, (self.ROWS, width))
            self.rows[width] = quantise(values.astype(np.float32), self.kind)
        stored = self.rows[width]
        order = np.random.default_rng(self.seed + 7 * number).permutation(self.ROWS)
        return stored[np.resize(order, rows)]


def quantise(values: np.ndarray, kind: Type) -> np.ndarray:
    if kind in (Type.Q4_K, Type.Q5_K, Type.Q6_K):  # the package decodes these types but does not make them
        return random_blocks(values.shape, kind)
    return gguf.quants.quantize(values, kind)


def random_blocks(shape: tuple[int, int], kind: Type) -> np.ndarray:
    """Returns blocks of random integers, with scales that give numbers of the size of weights."""
    per_block, size = gguf.GGML_QUANT_SIZES[kind]
    rows, width = shape
    blocks = np.random.default_rng(width).integers(0, 256, (rows, width // per_block, size), dtype=np.uint8)
    scale = np.float16(width**-0.5 / (300 if kind != Type.Q6_K else 2000))
    halves = {Type.Q4_K: (0, 2), Type.Q5_K: (0, 2), Type.Q6_K: (208,)}[kind]
    for at in halves:
        factor = 8 if at == 2 else 1  # minimums, so that the numbers have a mean near 0
        blocks[..., at : at + 2] = np.frombuffer(np.float16(scale * factor).tobytes(), np.uint8)
    return blocks.reshape(rows, -1)


def add_tokenizer(writer: gguf.GGUFWriter, vocabulary: int) -> None:
    """Adds a SentencePiece vocabulary, without which llama.cpp does not open a model."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    kinds = [gguf.TokenType.UNKNOWN, *[gguf.TokenType.CONTROL] * 2, *[gguf.TokenType.BYTE] * 256]
    rest = vocabulary - len(tokens)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens + [f"t{number}" for number in range(rest)])
    writer.add_token_scores([0.0] * len(tokens) + [-float(number) for number in range(rest)])
    writer.add_token_types(kinds + [gguf.TokenType.NORMAL] * rest)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("file")
    options.add_argument("type")
    options.add_argument("--size", choices=SIZES, default="360M")
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    kind = Type[given.type]
    d, layers, heads, kv_heads, inner, vocabulary = SIZES[given.size]
    if d % gguf.GGML_QUANT_SIZES[kind][0] != 0:  # as llama.cpp does for such widths
        print(f"rows of {d} values are not whole blocks of {given.type}: Q8_0 for these tensors")
    writer = gguf.GGUFWriter(given.file, "llama", use_temp_file=True)
    writer.add_block_count(layers)
    writer.add_context_length(4096)
    writer.add_embedding_length(d)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_rope_dimension_count(d // heads)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(vocabulary)
    add_tokenizer(writer, vocabulary)
    pools = {kind: Pool(kind, given.seed), Type.Q8_0: Pool(Type.Q8_0, given.seed)}
    count = 0

    def matrix(name: str, rows: int, width: int) -> None:
        nonlocal count
        used = kind if width % gguf.GGML_QUANT_SIZES[kind][0] == 0 else Type.Q8_0
        data = pools[used].take((rows, width), count)
        raw = None if used in (Type.F32, Type.F16) else used
        writer.add_tensor(name, data, raw_dtype=raw)
        count += 1

    d_head = d // heads
    matrix("token_embd.weight", vocabulary, d)
    writer.add_tensor("output_norm.weight", np.ones(d, np.float32))
    for layer in range(layers):
        block = f"blk.{layer}."
        writer.add_tensor(block + "attn_norm.weight", np.ones(d, np.float32))
        writer.add_tensor(block + "ffn_norm.weight", np.ones(d, np.float32))
        matrix(block + "attn_q.weight", d, d)
        matrix(block + "attn_k.weight", kv_heads * d_head, d)
        matrix(block + "attn_v.weight", kv_heads * d_head, d)
        matrix(block + "attn_output.weight", d, d)
        matrix(block + "ffn_gate.weight", inner, d)
        matrix(block + "ffn_up.weight", inner, d)
        matrix(block + "ffn_down.weight", d, inner)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
