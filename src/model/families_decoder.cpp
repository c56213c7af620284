#include "model/family_parts.hpp"

namespace attnctl {
namespace {

FamilySpec gpt2() {
  FamilySpec spec;
  spec.name = "gpt2";
  spec.prefixes = {"transformer.", ""};
  const LinearSpec packed = conv1d("attn.c_attn", Packing::query_key_value);
  spec.stack = {.prefixes = {"h.{}."},
                .layer = {.query = packed,
                          .key = packed,
                          .value = packed,
                          .output = conv1d("attn.c_proj"),
                          .attention_norm = layer_norm("ln_1"),
                          .mlp_norm = layer_norm("ln_2"),
                          .up = conv1d("mlp.c_fc"),
                          .down = conv1d("mlp.c_proj")}};
  spec.embedding = {.token = {"wte.weight"}, .position = {"wpe.weight"}};
  spec.final_norm = layer_norm("ln_f");
  spec.head = plain_head("lm_head");
  spec.keys = {.d_model = {{"n_embd", "hidden_size"}, {}},
               .layers = {{"n_layer", "num_hidden_layers"}, {}},
               .heads = {{"n_head", "num_attention_heads"}, {}},
               .mlp_width = {{"n_inner"}, {}},
               .vocabulary = {{"vocab_size"}, 50257},
               .max_positions = {{"n_positions", "max_position_embeddings"}, 1024},
               .norm_eps = {"layer_norm_epsilon"},
               .activation = {"activation_function"},
               .norm_eps_otherwise = 1e-5,
               .activation_otherwise = "gelu_new",
               .inverse_layer_if = "scale_attn_by_inverse_layer_idx"};
  spec.norm = NormKind::layer;
  spec.place = NormPlace::pre;
  spec.position = PositionKind::learned;
  spec.causal = true;
  spec.requirements = {{"add_cross_attention", {false}}};
  spec.variants = {
      {"scale_attn_weights", false, true, [](FamilySpec& row) { row.keys.scale.otherwise = 1; }}};
  return spec;
}

FamilySpec llama() {
  FamilySpec spec;
  spec.name = "llama";
  spec.prefixes = {"model.", ""};
  spec.stack = {.prefixes = {"layers.{}."},
                .layer = {.query = linear_with_bias_if("self_attn.q_proj", "attention_bias"),
                          .key = linear_with_bias_if("self_attn.k_proj", "attention_bias"),
                          .value = linear_with_bias_if("self_attn.v_proj", "attention_bias"),
                          .output = linear_with_bias_if("self_attn.o_proj", "attention_bias"),
                          .attention_norm = rms_norm("input_layernorm"),
                          .mlp_norm = rms_norm("post_attention_layernorm"),
                          .up = linear_with_bias_if("mlp.up_proj", "mlp_bias"),
                          .gate = linear_with_bias_if("mlp.gate_proj", "mlp_bias"),
                          .down = linear_with_bias_if("mlp.down_proj", "mlp_bias")}};
  spec.embedding = {.token = {"embed_tokens.weight"}};
  spec.final_norm = rms_norm("norm");
  spec.head = plain_head("lm_head");
  spec.head->tied_otherwise = false;
  spec.keys = {.d_model = {{"hidden_size"}, {}},
               .layers = {{"num_hidden_layers"}, {}},
               .heads = {{"num_attention_heads"}, {}},
               .kv_heads = {{"num_key_value_heads"}, {}},
               .d_head = {{"head_dim"}, {}},
               .mlp_width = {{"intermediate_size"}, 11008},
               .vocabulary = {{"vocab_size"}, 32000},
               .max_positions = {{"max_position_embeddings"}, 2048},
               .norm_eps = {"rms_norm_eps"},
               .activation = {"hidden_act"},
               .norm_eps_otherwise = 1e-6,
               .activation_otherwise = "silu"};
  spec.norm = NormKind::rms;
  spec.place = NormPlace::pre;
  spec.rotary = RotarySpec{};
  spec.causal = true;
  spec.requirements = {{"partial_rotary_factor", {1.0}}, {"rope_parameters/partial_rotary_factor", {1.0}}};
  return spec;
}

/// Of the layout of llama, without biases but those that a row adds.
FamilySpec mistral() {
  FamilySpec spec = llama();
  spec.name = "mistral";
  LayerSpec& layer = spec.stack.layer;
  for (LinearSpec* one :
       {&layer.query, &layer.key, &layer.value, &layer.output, &layer.up, &layer.gate, &layer.down}) {
    one->bias = {};
  }
  spec.keys.kv_heads.otherwise = 8;
  spec.keys.mlp_width.otherwise = 14336;
  spec.keys.max_positions.otherwise = 131072;
  spec.window = {.size = "sliding_window", .otherwise = 4096};
  return spec;
}

FamilySpec qwen2() {
  FamilySpec spec = mistral();
  spec.name = "qwen2";
  LayerSpec& layer = spec.stack.layer;
  layer.query = linear("self_attn.q_proj");
  layer.key = linear("self_attn.k_proj");
  layer.value = linear("self_attn.v_proj");
  spec.keys.kv_heads.otherwise = 32;
  spec.keys.d_head = {};
  spec.keys.mlp_width.otherwise = 22016;
  spec.keys.vocabulary.otherwise = 151936;
  spec.keys.max_positions.otherwise = 32768;
  spec.window->only_if = "use_sliding_window";
  spec.window->layer_types = "layer_types";
  spec.window->first = "max_window_layers";
  spec.window->first_otherwise = 28;
  return spec;
}

FamilySpec qwen3() {
  FamilySpec spec = qwen2();
  spec.name = "qwen3";
  LayerSpec& layer = spec.stack.layer;
  layer.query = linear_with_bias_if("self_attn.q_proj", "attention_bias");
  layer.key = linear_with_bias_if("self_attn.k_proj", "attention_bias");
  layer.value = linear_with_bias_if("self_attn.v_proj", "attention_bias");
  layer.output = linear_with_bias_if("self_attn.o_proj", "attention_bias");
  layer.query_norm = rms_norm("self_attn.q_norm");
  layer.key_norm = rms_norm("self_attn.k_norm");
  spec.keys.d_head = {{"head_dim"}, 128};
  return spec;
}

}  // namespace

std::vector<FamilySpec> decoder_families() {
  return {gpt2(), llama(), mistral(), qwen2(), qwen3()};
}

}  // namespace attnctl
