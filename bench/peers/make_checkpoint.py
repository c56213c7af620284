"""Writes a checkpoint in llama's layout with small random weights: config.json and sharded safetensors.

  python3 make_checkpoint.py DIR                       6 GB in bfloat16
  python3 make_checkpoint.py DIR --layers 12 --width 768 --inner 2048 --heads 12 --kv-heads 4

Needs only NumPy. The same arguments give the same bytes. Only one tensor is in memory at a time.
"""

import argparse
import json
import pathlib

import numpy as np

SHARD_BYTES = 1 << 30
SPREAD = 0.02  # standard deviation of matrices


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--layers", type=int, default=65)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--inner", type=int, default=5632)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--kv-heads", type=int, default=4)
    parser.add_argument("--vocabulary", type=int, default=32000)
    parser.add_argument("--positions", type=int, default=131072)
    parser.add_argument("--dtype", choices=["bf16", "f32"], default="bf16")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def shapes(args):
    """Returns names and shapes in the order of the file."""
    d, kv = args.width, args.width // args.heads * args.kv_heads
    yield "model.embed_tokens.weight", (args.vocabulary, d)
    for i in range(args.layers):
        layer = f"model.layers.{i}."
        yield layer + "input_layernorm.weight", (d,)
        yield layer + "self_attn.q_proj.weight", (d, d)
        yield layer + "self_attn.k_proj.weight", (kv, d)
        yield layer + "self_attn.v_proj.weight", (kv, d)
        yield layer + "self_attn.o_proj.weight", (d, d)
        yield layer + "post_attention_layernorm.weight", (d,)
        yield layer + "mlp.gate_proj.weight", (args.inner, d)
        yield layer + "mlp.up_proj.weight", (args.inner, d)
        yield layer + "mlp.down_proj.weight", (d, args.inner)
    yield "model.norm.weight", (d,)
    yield "lm_head.weight", (args.vocabulary, d)


def values(shape, dtype, random):
    numbers = random.standard_normal(shape, dtype=np.float32) * np.float32(SPREAD)
    if len(shape) == 1:
        numbers += 1
    if dtype == "f32":
        return numbers
    return (numbers.view(np.uint32) >> 16).astype(np.uint16)  # rounds towards zero, which is sufficient for random weights


def shards(args, item):
    """Assigns tensors to files."""
    files, size = [[]], 0
    for name, shape in shapes(args):
        bytes_ = int(np.prod(shape)) * item
        if files[-1] and size + bytes_ > SHARD_BYTES:
            files.append([])
            size = 0
        files[-1].append((name, shape, bytes_))
        size += bytes_
    return files


def write_shard(path, tensors, args, random):
    header, offset = {}, 0
    for name, shape, size in tensors:
        header[name] = {"dtype": args.dtype.upper(), "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, shape, _ in tensors:
            values(shape, args.dtype, random).tofile(file)
    return offset


def main():
    args = arguments()
    args.directory.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(args.seed)
    files = shards(args, 2 if args.dtype == "bf16" else 4)
    weight_map, total = {}, 0
    for i, tensors in enumerate(files):
        name = f"model-{i + 1:05}-of-{len(files):05}.safetensors"
        total += write_shard(args.directory / name, tensors, args, random)
        weight_map.update({tensor[0]: name for tensor in tensors})
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (args.directory / "model.safetensors.index.json").write_text(json.dumps(index))
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": args.width,
        "intermediate_size": args.inner,
        "num_hidden_layers": args.layers,
        "num_attention_heads": args.heads,
        "num_key_value_heads": args.kv_heads,
        "vocab_size": args.vocabulary,
        "max_position_embeddings": args.positions,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
    }
    (args.directory / "config.json").write_text(json.dumps(config, indent=1))
    print(f"{args.directory}: {total} bytes in {len(files)} files")


if __name__ == "__main__":
    main()
