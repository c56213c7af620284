#include "checkpoint/gguf_architectures.hpp"

#include <array>

namespace attnctl {
namespace {

using Kind = GgufKey::Kind;

constexpr GgufName kLlamaNames[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
    {"attn_norm", "model.layers.{}.input_layernorm"},
    {"attn_q", "model.layers.{}.self_attn.q_proj", GgufOrder::rotary_pairs, "attention.head_count"},
    {"attn_k", "model.layers.{}.self_attn.k_proj", GgufOrder::rotary_pairs, "attention.head_count_kv"},
    {"attn_v", "model.layers.{}.self_attn.v_proj"},
    {"attn_output", "model.layers.{}.self_attn.o_proj"},
    {"ffn_norm", "model.layers.{}.post_attention_layernorm"},
    {"ffn_gate", "model.layers.{}.mlp.gate_proj"},
    {"ffn_up", "model.layers.{}.mlp.up_proj"},
    {"ffn_down", "model.layers.{}.mlp.down_proj"},
};

/// The same with the halves of rotary heads where they were.
constexpr auto kQwen2Names = [] {
  auto names = std::to_array(kLlamaNames);
  for (GgufName& name : names) name.order = GgufOrder::as_stored;
  return names;
}();

constexpr GgufKey kLlamaKeys[] = {
    {"embedding_length", "hidden_size"},
    {"block_count", "num_hidden_layers"},
    {"attention.head_count", "num_attention_heads"},
    {"attention.head_count_kv", "num_key_value_heads", Kind::size, false},
    {"attention.key_length", "head_dim", Kind::size, false},
    {"feed_forward_length", "intermediate_size"},
    {"context_length", "max_position_embeddings"},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", Kind::number},
    {"rope.freq_base", "rope_theta", Kind::number, false},
};

constexpr GgufFlag kLlamaFlags[] = {{"blk.0.attn_q.bias", "attention_bias"},
                                    {"blk.0.ffn_up.bias", "mlp_bias"}};

constexpr GgufName kGpt2Names[] = {
    {"token_embd", "transformer.wte"},
    {"position_embd", "transformer.wpe"},
    {"output_norm", "transformer.ln_f"},
    {"output", "lm_head"},
    {"attn_norm", "transformer.h.{}.ln_1"},
    {"attn_qkv", "transformer.h.{}.attn.c_attn", GgufOrder::transposed},
    {"attn_output", "transformer.h.{}.attn.c_proj", GgufOrder::transposed},
    {"ffn_norm", "transformer.h.{}.ln_2"},
    {"ffn_up", "transformer.h.{}.mlp.c_fc", GgufOrder::transposed},
    {"ffn_down", "transformer.h.{}.mlp.c_proj", GgufOrder::transposed},
};

constexpr GgufKey kGpt2Keys[] = {
    {"embedding_length", "n_embd"},     {"block_count", "n_layer"},
    {"attention.head_count", "n_head"}, {"feed_forward_length", "n_inner"},
    {"context_length", "n_positions"},  {"attention.layer_norm_epsilon", "layer_norm_epsilon", Kind::number},
};

constexpr GgufArchitecture kArchitectures[] = {
    {.name = "gpt2", .names = kGpt2Names, .keys = kGpt2Keys, .flags = {}},
    {.name = "llama", .names = kLlamaNames, .keys = kLlamaKeys, .flags = kLlamaFlags, .rotary = true},
    {.name = "qwen2", .names = kQwen2Names, .keys = kLlamaKeys, .flags = {}, .rotary = true},
};

}  // namespace

std::span<const GgufArchitecture> gguf_architectures() {
  return kArchitectures;
}

}  // namespace attnctl
