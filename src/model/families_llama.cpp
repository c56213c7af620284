#include "model/family_parts.hpp"

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

FamilySpec phi() {
  FamilySpec spec = llama_row();
  spec.name = "phi";
  LayerSpec& layer = spec.stack.layer;
  layer = {.query = linear("self_attn.q_proj"),
           .key = linear("self_attn.k_proj"),
           .value = linear("self_attn.v_proj"),
           .output = linear("self_attn.dense"),
           .attention_norm = layer_norm("input_layernorm"),
           .mlp_norm = layer_norm("input_layernorm"),
           .up = linear("mlp.fc1"),
           .down = linear("mlp.fc2")};
  spec.final_norm = layer_norm("final_layernorm");
  spec.head->decoder.bias = {{"lm_head.bias"}};
  spec.keys.d_head = {};
  spec.keys.mlp_width.otherwise = 8192;
  spec.keys.vocabulary.otherwise = 51200;
  spec.keys.norm_eps = {"layer_norm_eps"};
  spec.keys.norm_eps_otherwise = 1e-5;
  spec.keys.activation_otherwise = "gelu_new";
  spec.norm = NormKind::layer;
  spec.parallel = true;
  spec.rotary->part = 0.5;
  spec.requirements = {};
  spec.variants = {{"qk_layernorm", true, false, [](FamilySpec& row) {
                      row.stack.layer.query_norm = layer_norm("self_attn.q_layernorm");
                      row.stack.layer.key_norm = layer_norm("self_attn.k_layernorm");
                    }}};
  return spec;
}

FamilySpec phi3() {
  FamilySpec spec = mistral_row();
  spec.name = "phi3";
  LayerSpec& layer = spec.stack.layer;
  layer.query = layer.key = layer.value = packed_linear("self_attn.qkv_proj", Packing::query_key_value);
  layer.gate = layer.up = packed_linear("mlp.gate_up_proj", Packing::gate_up);
  remove_biases(layer);
  spec.keys.kv_heads = {{"num_key_value_heads"}, {}};
  spec.keys.d_head = {};
  spec.keys.mlp_width.otherwise = 8192;
  spec.keys.vocabulary.otherwise = 32064;
  spec.keys.max_positions.otherwise = 4096;
  spec.keys.norm_eps_otherwise = 1e-5;
  spec.rotary->yarn_is_longrope = true;
  spec.rotary->original_otherwise = 4096;
  spec.window->otherwise = 0;
  spec.requirements = {};
  return spec;
}

/// Norms without tensors.
FamilySpec olmo() {
  FamilySpec spec = llama_row();
  spec.name = "olmo";
  LayerSpec& layer = spec.stack.layer;
  layer.attention_norm = layer.mlp_norm = spec.final_norm = {.bare = true};
  for (LinearSpec* one : {&layer.up, &layer.gate, &layer.down}) one->bias = {};
  spec.keys.d_head = {};
  spec.keys.vocabulary.otherwise = 50304;
  spec.keys.norm_eps = {};
  spec.keys.norm_eps_otherwise = 1e-5;
  spec.keys.clip = {{"clip_qkv"}};
  spec.norm = NormKind::layer;
  return spec;
}

FamilySpec olmo2() {
  FamilySpec spec = olmo();
  spec.name = "olmo2";
  LayerSpec& layer = spec.stack.layer;
  layer.attention_norm = rms_norm("post_attention_layernorm");
  layer.mlp_norm = rms_norm("post_feedforward_layernorm");
  layer.query_norm = rms_norm("self_attn.q_norm");
  layer.key_norm = rms_norm("self_attn.k_norm");
  spec.final_norm = rms_norm("norm");
  spec.keys.norm_eps = {"rms_norm_eps"};
  spec.keys.clip = {};
  spec.norm = NormKind::rms;
  spec.place = NormPlace::output;
  spec.head_norm_span = HeadNormSpan::whole;
  return spec;
}

FamilySpec stablelm() {
  FamilySpec spec = mistral_row();
  spec.name = "stablelm";
  LayerSpec& layer = spec.stack.layer;
  layer.query = linear_with_bias_if("self_attn.q_proj", "use_qkv_bias");
  layer.key = linear_with_bias_if("self_attn.k_proj", "use_qkv_bias");
  layer.value = linear_with_bias_if("self_attn.v_proj", "use_qkv_bias");
  layer.attention_norm = layer_norm("input_layernorm");
  layer.mlp_norm = layer_norm("post_attention_layernorm");
  spec.final_norm = layer_norm("norm");
  spec.keys.kv_heads.otherwise = 32;
  spec.keys.d_head = {};
  spec.keys.mlp_width.otherwise = 6912;
  spec.keys.vocabulary.otherwise = 50304;
  spec.keys.max_positions.otherwise = 4096;
  spec.keys.norm_eps = {"layer_norm_eps"};
  spec.keys.norm_eps_otherwise = 1e-5;
  spec.norm = NormKind::layer;
  spec.head_norm_span = HeadNormSpan::each;
  spec.rotary->part = 0.25;
  spec.window.reset();
  spec.requirements = {};
  spec.variants = {{"use_parallel_residual", true, false,
                    [](FamilySpec& row) {
                      row.parallel = true;
                      row.stack.layer.mlp_norm = row.stack.layer.attention_norm;
                    }},
                   {"qk_layernorm", true, false, [](FamilySpec& row) {
                      row.stack.layer.query_norm = norm_without_bias("self_attn.q_layernorm.norms.{head}");
                      row.stack.layer.key_norm = norm_without_bias("self_attn.k_layernorm.norms.{head}");
                    }}};
  return spec;
}

FamilySpec starcoder2() {
  FamilySpec spec = mistral_row();
  spec.name = "starcoder2";
  LayerSpec& layer = spec.stack.layer;
  layer = {.query = linear_with_bias_if("self_attn.q_proj", "use_bias", true),
           .key = linear_with_bias_if("self_attn.k_proj", "use_bias", true),
           .value = linear_with_bias_if("self_attn.v_proj", "use_bias", true),
           .output = linear_with_bias_if("self_attn.o_proj", "use_bias", true),
           .attention_norm = layer_norm("input_layernorm"),
           .mlp_norm = layer_norm("post_attention_layernorm"),
           .up = linear_with_bias_if("mlp.c_fc", "use_bias", true),
           .down = linear_with_bias_if("mlp.c_proj", "use_bias", true)};
  spec.final_norm = layer_norm("norm");
  spec.head->tied_otherwise = true;
  spec.keys.kv_heads.otherwise = 2;
  spec.keys.d_head = {};
  spec.keys.mlp_width.otherwise = 12288;
  spec.keys.vocabulary.otherwise = 49152;
  spec.keys.max_positions.otherwise = 4096;
  spec.keys.norm_eps = {"norm_epsilon"};
  spec.keys.norm_eps_otherwise = 1e-5;
  spec.keys.activation_otherwise = "gelu_pytorch_tanh";
  spec.norm = NormKind::layer;
  spec.window->otherwise = 0;
  return spec;
}

FamilySpec cohere() {
  FamilySpec spec = llama_row();
  spec.name = "cohere";
  LayerSpec& layer = spec.stack.layer;
  layer.attention_norm = layer.mlp_norm = norm_without_bias("input_layernorm");
  for (LinearSpec* one : {&layer.up, &layer.gate, &layer.down}) one->bias = {};
  spec.final_norm = norm_without_bias("norm");
  spec.head->tied_otherwise = true;
  spec.keys.mlp_width.otherwise = 22528;
  spec.keys.vocabulary.otherwise = 256000;
  spec.keys.max_positions.otherwise = 8192;
  spec.keys.norm_eps = {"layer_norm_eps"};
  spec.keys.norm_eps_otherwise = 1e-5;
  spec.keys.logit_multiplier = {{"logit_scale"}, 0.0625};
  spec.norm = NormKind::layer;
  spec.parallel = true;
  spec.head_norm_span = HeadNormSpan::each;
  spec.rotary = {.pairing = RotaryPairing::interleaved, .theta = 500000};
  spec.variants = {{"use_qk_norm", true, false, [](FamilySpec& row) {
                      row.stack.layer.query_norm = norm_without_bias("self_attn.q_norm");
                      row.stack.layer.key_norm = norm_without_bias("self_attn.k_norm");
                    }}};
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

FamilySpec nemotron() {
  FamilySpec spec = llama_row();
  spec.name = "nemotron";
  LayerSpec& layer = spec.stack.layer;
  layer.attention_norm = layer_norm("input_layernorm");
  layer.mlp_norm = layer_norm("post_attention_layernorm");
  layer.gate = {};
  spec.final_norm = layer_norm("norm");
  spec.keys.mlp_width.otherwise = 24576;
  spec.keys.vocabulary.otherwise = 256000;
  spec.keys.max_positions.otherwise = 4096;
  spec.keys.norm_eps = {"norm_eps"};
  spec.keys.norm_eps_otherwise = 1e-5;
  spec.keys.activation_otherwise = "relu2";
  spec.norm = NormKind::layer;
  spec.gain_offset = 1;
  spec.rotary->part = 0.5;
  spec.requirements = {};
  return spec;
}

}  // namespace

std::vector<FamilySpec> llama_families() {
  return {cohere(),      gemma(),    gemma2(),  gemma3_text(), granite(),   llama_row(),
          mistral_row(), nemotron(), olmo(),    olmo2(),       phi(),       phi3(),
          qwen2_row(),   qwen3(),    smollm3(), stablelm(),    starcoder2()};
}

}  // namespace attnctl
