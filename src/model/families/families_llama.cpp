#include "model/families/family_parts.hpp"

namespace attnctl {

FamilySpec llama_row() {
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
FamilySpec mistral_row() {
  FamilySpec spec = llama_row();
  spec.name = "mistral";
  remove_biases(spec.stack.layer);
  spec.keys.kv_heads.otherwise = 8;
  spec.keys.mlp_width.otherwise = 14336;
  spec.keys.max_positions.otherwise = 131072;
  spec.window = {.size = "sliding_window", .otherwise = 4096};
  return spec;
}

FamilySpec qwen2_row() {
  FamilySpec spec = mistral_row();
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

namespace {

FamilySpec qwen3() {
  FamilySpec spec = qwen2_row();
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

FamilySpec gemma() {
  FamilySpec spec = llama_row();
  spec.name = "gemma";
  spec.head->tied_otherwise = true;
  spec.keys.d_head.otherwise = 256;
  spec.keys.mlp_width.otherwise = 24576;
  spec.keys.vocabulary.otherwise = 256000;
  spec.keys.max_positions.otherwise = 8192;
  spec.keys.activation_otherwise = "gelu_pytorch_tanh";
  spec.gain_offset = 1;
  spec.embedding_by_root = true;
  for (LinearSpec* one : {&spec.stack.layer.up, &spec.stack.layer.gate, &spec.stack.layer.down})
    one->bias = {};
  spec.requirements.push_back({"use_bidirectional_attention", {false}});
  spec.variants = {{"hidden_act", "gelu", {}, [](FamilySpec& row) {
                      row.keys.activation = {};  // the first configurations said gelu and meant its tanh form
                    }}};
  return spec;
}

FamilySpec gemma2() {
  FamilySpec spec = gemma();
  spec.name = "gemma2";
  LayerSpec& layer = spec.stack.layer;
  layer.attention_output_norm = rms_norm("post_attention_layernorm");
  layer.mlp_norm = rms_norm("pre_feedforward_layernorm");
  layer.mlp_output_norm = rms_norm("post_feedforward_layernorm");
  spec.place = NormPlace::both;
  spec.keys.heads.otherwise = 8;
  spec.keys.kv_heads.otherwise = 4;
  spec.keys.mlp_width.otherwise = 9216;
  spec.keys.activation = {"hidden_activation"};
  spec.keys.scale = {{"query_pre_attn_scalar"}, 1.0 / 16, NumberKey::Rule::inverse_root};
  spec.keys.soft_cap = {.names = {"attn_logit_softcapping"}, .otherwise = 50, .null_is_zero = true};
  spec.keys.logit_soft_cap = {.names = {"final_logit_softcapping"}, .otherwise = 30, .null_is_zero = true};
  spec.window = {
      .size = "sliding_window", .otherwise = 4096, .layer_types = "layer_types", .period_otherwise = 2};
  spec.variants = {};
  return spec;
}

FamilySpec gemma3_text() {
  FamilySpec spec = gemma2();
  spec.name = "gemma3_text";
  spec.stack.layer.query_norm = rms_norm("self_attn.q_norm");
  spec.stack.layer.key_norm = rms_norm("self_attn.k_norm");
  spec.keys.vocabulary.otherwise = 262208;
  spec.keys.max_positions.otherwise = 131072;
  spec.keys.soft_cap = {};
  spec.keys.logit_soft_cap.otherwise = 0;
  spec.rotary->theta = 1e6;
  spec.rotary->sliding = {.theta_name = "rope_local_base_freq", .theta = 10000};
  spec.window->period = {"sliding_window_pattern"};
  spec.window->period_otherwise = 6;
  return spec;
}

FamilySpec granite() {
  FamilySpec spec = llama_row();
  spec.name = "granite";
  spec.keys.d_head = {};
  spec.keys.scale = {{"attention_multiplier"}, 1};
  spec.keys.embedding_multiplier = {{"embedding_multiplier"}, 1};
  spec.keys.residual_multiplier = {{"residual_multiplier"}, 1};
  spec.keys.logit_multiplier = {{"logits_scaling"}, 1, NumberKey::Rule::inverse};
  return spec;
}

FamilySpec smollm3() {
  FamilySpec spec = llama_row();
  spec.name = "smollm3";
  spec.head->tied_otherwise = true;
  spec.keys.kv_heads.otherwise = 4;
  spec.keys.vocabulary.otherwise = 128256;
  spec.keys.max_positions.otherwise = 32768;
  spec.rotary->theta = 2e6;
  spec.rotary->layers_without = "no_rope_layers";
  spec.rotary->every_without = "no_rope_layer_interval";
  spec.rotary->every_otherwise = 4;
  spec.window = {.size = "sliding_window",
                 .only_if = "use_sliding_window",
                 .layer_types = "layer_types",
                 .unturned_only = true};
  return spec;
}

}  // namespace

std::vector<FamilySpec> llama_families() {
  return {gemma(),       gemma2(),    gemma3_text(), granite(), llama_row(),
          mistral_row(), qwen2_row(), qwen3(),       smollm3()};
}

}  // namespace attnctl
