#include "model/families/family_parts.hpp"

// Decoders with llama's tensor names but other norms, or norms in other places.
namespace attnctl {
namespace {

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
  spec.keys.mlp_width.default_value = 8192;
  spec.keys.vocabulary.default_value = 51200;
  spec.keys.norm_eps = {"layer_norm_eps"};
  spec.keys.default_norm_eps = 1e-5;
  spec.keys.default_activation = "gelu_new";
  spec.norm = NormKind::layer;
  spec.parallel = true;
  spec.rotary->fraction = 0.5;
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
  spec.keys.mlp_width.default_value = 8192;
  spec.keys.vocabulary.default_value = 32064;
  spec.keys.max_positions.default_value = 4096;
  spec.keys.default_norm_eps = 1e-5;
  spec.rotary->yarn_is_longrope = true;
  spec.rotary->default_original = 4096;
  spec.window->default_size = 0;
  spec.requirements = {};
  return spec;
}

/// Norms have no tensors.
FamilySpec olmo() {
  FamilySpec spec = llama_row();
  spec.name = "olmo";
  LayerSpec& layer = spec.stack.layer;
  layer.attention_norm = layer.mlp_norm = spec.final_norm = {.bare = true};
  remove_mlp_biases(layer);
  spec.keys.d_head = {};
  spec.keys.vocabulary.default_value = 50304;
  spec.keys.norm_eps = {};
  spec.keys.default_norm_eps = 1e-5;
  spec.keys.clip = {{"clip_qkv"}};
  spec.norm = NormKind::layer;
  return spec;
}

FamilySpec olmo2() {
  FamilySpec spec = olmo();
  spec.name = "olmo2";
  LayerSpec& layer = spec.stack.layer;
  layer.attention_norm = norm_without_bias("post_attention_layernorm");
  layer.mlp_norm = norm_without_bias("post_feedforward_layernorm");
  layer.query_norm = norm_without_bias("self_attn.q_norm");
  layer.key_norm = norm_without_bias("self_attn.k_norm");
  spec.final_norm = norm_without_bias("norm");
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
  spec.keys.kv_heads.default_value = 32;
  spec.keys.d_head = {};
  spec.keys.mlp_width.default_value = 6912;
  spec.keys.vocabulary.default_value = 50304;
  spec.keys.max_positions.default_value = 4096;
  spec.keys.norm_eps = {"layer_norm_eps"};
  spec.keys.default_norm_eps = 1e-5;
  spec.norm = NormKind::layer;
  spec.head_norm_span = HeadNormSpan::each;
  spec.rotary->fraction = 0.25;
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
  spec.head->tied_by_default = true;
  spec.keys.kv_heads.default_value = 2;
  spec.keys.d_head = {};
  spec.keys.mlp_width.default_value = 12288;
  spec.keys.vocabulary.default_value = 49152;
  spec.keys.max_positions.default_value = 4096;
  spec.keys.norm_eps = {"norm_epsilon"};
  spec.keys.default_norm_eps = 1e-5;
  spec.keys.default_activation = "gelu_pytorch_tanh";
  spec.norm = NormKind::layer;
  spec.window->default_size = 0;
  return spec;
}

FamilySpec cohere() {
  FamilySpec spec = llama_row();
  spec.name = "cohere";
  LayerSpec& layer = spec.stack.layer;
  layer.attention_norm = layer.mlp_norm = norm_without_bias("input_layernorm");
  remove_mlp_biases(layer);
  spec.final_norm = norm_without_bias("norm");
  spec.head->tied_by_default = true;
  spec.keys.mlp_width.default_value = 22528;
  spec.keys.vocabulary.default_value = 256000;
  spec.keys.max_positions.default_value = 8192;
  spec.keys.norm_eps = {"layer_norm_eps"};
  spec.keys.default_norm_eps = 1e-5;
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

FamilySpec nemotron() {
  FamilySpec spec = llama_row();
  spec.name = "nemotron";
  LayerSpec& layer = spec.stack.layer;
  layer.attention_norm = layer_norm("input_layernorm");
  layer.mlp_norm = layer_norm("post_attention_layernorm");
  layer.gate = {};
  spec.final_norm = layer_norm("norm");
  spec.keys.mlp_width.default_value = 24576;
  spec.keys.vocabulary.default_value = 256000;
  spec.keys.max_positions.default_value = 4096;
  spec.keys.norm_eps = {"norm_eps"};
  spec.keys.default_norm_eps = 1e-5;
  spec.keys.default_activation = "relu2";
  spec.norm = NormKind::layer;
  spec.gain_offset = 1;
  spec.rotary->fraction = 0.5;
  spec.requirements = {};
  return spec;
}

}  // namespace

std::vector<FamilySpec> llama_like_families() {
  return {phi(), phi3(), olmo(), olmo2(), stablelm(), starcoder2(), cohere(), nemotron()};
}

}  // namespace attnctl
