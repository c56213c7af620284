#!/usr/bin/env python3
"""Makes gguf/: models and tensors in GGUF, written by the format's own library (gguf 0.19, see requirements.txt).

llama-f32.gguf, llama-f16.gguf, gpt2-f32.gguf, qwen2-f32.gguf, gemma2-f16.gguf and llama-linear, -yarn, -llama3 hold
the weights of the golden models of those names (yarn: llama-yarn-flat), renamed and reordered as by llama.cpp's
converter. types.gguf has a tensor of every supported type, and types.npz the same tensors dequantised by gguf, in
float32. llama-q8_0.gguf is a quantised model, and llama-q8_0.npz holds its matrices dequantised, with the names and
row order of a safetensors file.
"""
import json
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from safetensors import safe_open

GOLDEN = Path(__file__).resolve().parent
OUT = GOLDEN / "gguf"
TYPES = [Type.F32, Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q4_K, Type.Q5_K,
         Type.Q6_K, Type.MXFP4]
LLAMA = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
GPT2 = {"attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "ln_1": "attn_norm", "ln_2": "ffn_norm",
        "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}


def permuted(weights: np.ndarray, heads: int) -> np.ndarray:
    """Reorders the rows of each head in pairs, as LlamaModel.permute of llama.cpp's convert_hf_to_gguf.py."""
    halves = weights.reshape(heads, 2, weights.shape[0] // heads // 2, *weights.shape[1:])
    return halves.swapaxes(1, 2).reshape(weights.shape)


def tensors_of(model: str) -> dict:
    with safe_open(GOLDEN / model / "model.safetensors", framework="np") as file:
        return {name: file.get_tensor(name) for name in file.keys()}


def config_of(model: str) -> dict:
    return json.loads((GOLDEN / model / "config.json").read_text())


def write(writer: gguf.GGUFWriter):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def llama3_factors(rope: dict, width: int) -> np.ndarray:
    """Returns the divisors of the frequencies, as LlamaModel.generate_extra_tensors of convert_hf_to_gguf.py."""
    factors = []
    for exponent in np.arange(0, width, 2) / width:
        length = 2 * np.pi * rope["rope_theta"] ** exponent
        original, low, high = (rope[k] for k in ("original_max_position_embeddings", "low_freq_factor",
                                                 "high_freq_factor"))
        smooth = np.clip((original / length - low) / (high - low), 0, 1)
        factors.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    return np.array(factors, dtype=np.float32)


def add_rotary(writer: gguf.GGUFWriter, config: dict):
    rope = config.get("rope_parameters") or ((config.get("rope_scaling") or {}) | {"rope_theta": config["rope_theta"]})
    writer.add_rope_freq_base(rope["rope_theta"])
    kind = rope.get("rope_type", rope.get("type"))
    if kind == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_factors(rope, config["head_dim"]))
    elif kind in ("linear", "yarn"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(kind))
        writer.add_rope_scaling_factor(rope["factor"])
        if kind == "yarn":
            writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])


def llama_writer(path: Path, config: dict) -> gguf.GGUFWriter:
    """Writes the keys of architectures that share llama's."""
    writer = gguf.GGUFWriter(path, config.get("model_type", "llama"))
    writer.add_name("tiny")
    writer.add_vocab_size(config["vocab_size"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    add_rotary(writer, config)
    width = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    writer.add_rope_dimension_count(width)
    writer.add_key_length(width)
    writer.add_value_length(width)
    # Arrays and other values that a reader must skip.
    writer.add_tokenizer_model("llama")
    writer.add_token_list([f"<token {i}>" for i in range(config["vocab_size"])])
    writer.add_token_scores([0.5] * config["vocab_size"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(True)
    return writer


def llama_name(name: str) -> str:
    if name.startswith("model.layers."):
        layer, rest = name.removeprefix("model.layers.").split(".", 1)
        module, ending = rest.rsplit(".", 1)
        return f"blk.{layer}.{LLAMA[module]}.{ending}"
    return {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
            "lm_head.weight": "output.weight"}[name]


def llama_weights(name: str, weights: np.ndarray, config: dict) -> np.ndarray:
    if config.get("model_type", "llama") != "llama":
        return weights
    if ".q_proj." in name:
        return permuted(weights, config["num_attention_heads"])
    if ".k_proj." in name:
        return permuted(weights, config["num_key_value_heads"])
    return weights


def make_llama(model: str, path: Path):
    config = config_of(model)
    writer = llama_writer(path, config)
    for name, weights in tensors_of(model).items():
        writer.add_tensor(llama_name(name), np.ascontiguousarray(llama_weights(name, weights, config)))
    write(writer)


def make_gemma2(path: Path):
    """Adds one to the gains, as Gemma2Model.modify_tensors of convert_hf_to_gguf.py."""
    config = config_of("gemma2")
    writer = gguf.GGUFWriter(path, "gemma2")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_attn_logit_softcapping(config["attn_logit_softcapping"])
    writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    writer.add_sliding_window(config["sliding_window"])
    names = LLAMA | {"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
                     "post_feedforward_layernorm": "post_ffw_norm"}
    for name, weights in tensors_of("gemma2").items():
        if name.endswith("norm.weight"):
            weights = weights.astype(np.float32) + 1
        if name.startswith("model.layers."):
            layer, rest = name.removeprefix("model.layers.").split(".", 1)
            module, ending = rest.rsplit(".", 1)
            name = f"blk.{layer}.{names[module]}.{ending}"
        else:
            name = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}[name]
        writer.add_tensor(name, weights)
    write(writer)


def make_gpt2(path: Path):
    config = config_of("gpt2")
    writer = gguf.GGUFWriter(path, "gpt2")
    writer.add_context_length(config["n_positions"])
    writer.add_embedding_length(config["n_embd"])
    writer.add_feed_forward_length(4 * config["n_embd"])
    writer.add_block_count(config["n_layer"])
    writer.add_head_count(config["n_head"])
    writer.add_layer_norm_eps(config["layer_norm_epsilon"])
    outside = {"wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm"}
    for name, weights in tensors_of("gpt2").items():
        module, ending = name.removeprefix("transformer.").rsplit(".", 1)
        if module.startswith("h."):
            _, layer, module = module.split(".", 2)
            if module[:4] in ("attn", "mlp.") and weights.ndim == 2:
                weights = np.ascontiguousarray(weights.T)
            writer.add_tensor(f"blk.{layer}.{GPT2[module]}.{ending}", weights)
        else:
            writer.add_tensor(f"{outside[module]}.{ending}", weights)
    write(writer)


def random_blocks(kind: Type, rows: int, columns: int, random: np.random.Generator) -> np.ndarray:
    """Random bits, except for the scales, which are half floats of all sizes, including subnormals."""
    block, size = gguf.GGML_QUANT_SIZES[kind]
    count = rows * columns // block
    blocks = random.integers(0, 256, (count, size), dtype=np.uint8)
    halves = {Type.Q6_K: [208], Type.Q8_0: [0], Type.Q4_0: [0], Type.Q5_0: [0], Type.MXFP4: []}.get(kind, [0, 2])
    for at in halves:
        scale = (random.normal(size=count) * 10.0 ** random.integers(-7, 2, count)).astype(np.float16)
        blocks[:, at:at + 2] = scale.view(np.uint8).reshape(count, 2)
    return blocks.reshape(rows, -1)


def make_types(random: np.random.Generator):
    writer = gguf.GGUFWriter(OUT / "types.gguf", "llama")
    tiny = {"vocab_size": 4, "context_length": 8, "embedding_length": 4, "block_count": 1, "feed_forward_length": 4}
    for key, value in tiny.items():
        writer.add_uint32(f"llama.{key}", value)
    writer.add_head_count(1)
    writer.add_layer_norm_rms_eps(1e-5)
    expected = {}
    for kind in TYPES:
        rows, columns = 3, 512
        if kind in (Type.F32, Type.F16, Type.BF16):
            data = gguf.quantize(random.normal(size=(rows, 16)).astype(np.float32), kind)
        else:
            data = random_blocks(kind, rows, columns, random)
        writer.add_tensor(kind.name, data, raw_dtype=kind)
        expected[kind.name] = gguf.dequantize(data, kind).astype(np.float32)
    write(writer)
    np.savez_compressed(OUT / "types.npz", **expected)


def make_quantised(random: np.random.Generator):
    config = {"vocab_size": 32, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4,
              "num_key_value_heads": 2, "intermediate_size": 64, "max_position_embeddings": 16, "rms_norm_eps": 1e-5,
              "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}}
    shapes = {"model.embed_tokens": (32, 32), "model.norm": (32,)}
    for module, shape in {"self_attn.q_proj": (32, 32), "self_attn.k_proj": (16, 32), "self_attn.v_proj": (16, 32),
                          "self_attn.o_proj": (32, 32), "mlp.gate_proj": (64, 32), "mlp.up_proj": (64, 32),
                          "mlp.down_proj": (32, 64), "input_layernorm": (32,),
                          "post_attention_layernorm": (32,)}.items():
        shapes[f"model.layers.0.{module}"] = shape
    writer = llama_writer(OUT / "llama-q8_0.gguf", config)
    expected = {}
    for module, shape in shapes.items():
        name = module + ".weight"
        weights = random.normal(size=shape).astype(np.float32)
        if len(shape) == 1:
            writer.add_tensor(llama_name(name), weights)
            expected[name] = weights
            continue
        # Each row is quantised separately, so reordering rows and quantising commute.
        expected[name] = gguf.dequantize(gguf.quantize(weights, Type.Q8_0), Type.Q8_0)
        writer.add_tensor(llama_name(name), gguf.quantize(llama_weights(name, weights, config), Type.Q8_0),
                          raw_dtype=Type.Q8_0)
    write(writer)
    np.savez_compressed(OUT / "llama-q8_0.npz", **expected)


def main():
    OUT.mkdir(exist_ok=True)
    random = np.random.default_rng(20)
    make_llama("llama", OUT / "llama-f32.gguf")
    make_llama("llama-f16", OUT / "llama-f16.gguf")
    for kind, model in {"linear": "llama-linear", "yarn": "llama-yarn-flat", "llama3": "llama-llama3"}.items():
        make_llama(model, OUT / f"llama-{kind}.gguf")
    make_llama("qwen2", OUT / "qwen2-f32.gguf")
    make_gemma2(OUT / "gemma2-f16.gguf")
    make_gpt2(OUT / "gpt2-f32.gguf")
    make_types(random)
    make_quantised(random)


if __name__ == "__main__":
    main()
