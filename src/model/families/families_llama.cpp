#include "model/families/family_parts.hpp"

// Decoders with llama's layout, including those with experts.
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
                          .attention_norm = norm_without_bias("input_layernorm"),
                          .mlp_norm = norm_without_bias("post_attention_layernorm"),
                          .up = linear_with_bias_if("mlp.up_proj", "mlp_bias"),
                          .gate = linear_with_bias_if("mlp.gate_proj", "mlp_bias"),
                          .down = linear_with_bias_if("mlp.down_proj", "mlp_bias")}};
  spec.embedding = {.token = {"embed_tokens.weight"}};
  spec.final_norm = norm_without_bias("norm");
  spec.head = plain_head("lm_head");
  spec.head->tied_by_default = false;
  spec.keys = common_keys(11008, 32000, 2048);
  spec.keys.kv_heads = {{"num_key_value_heads"}, {}};
  spec.keys.d_head = {{"head_dim"}, {}};
  spec.keys.norm_eps = {"rms_norm_eps"};
  spec.keys.default_norm_eps = 1e-6;
  spec.keys.default_activation = "silu";
  spec.norm = NormKind::rms;
  spec.place = NormPlace::pre;
  spec.rotary = RotarySpec{};
  spec.causal = true;
  spec.requirements = {{"partial_rotary_factor", {1.0}}, {"rope_parameters/partial_rotary_factor", {1.0}}};
  return spec;
}

/// Llama without biases.
FamilySpec mistral_row() {
  FamilySpec spec = llama_row();
  spec.name = "mistral";
  remove_biases(spec.stack.layer);
  spec.keys.kv_heads.default_value = 8;
  spec.keys.mlp_width.default_value = 14336;
  spec.keys.max_positions.default_value = 131072;
  spec.window = {.size = "sliding_window", .default_size = 4096};
  return spec;
}

namespace {

FamilySpec qwen2() {
  FamilySpec spec = mistral_row();
  spec.name = "qwen2";
  LayerSpec& layer = spec.stack.layer;
  layer.query = linear("self_attn.q_proj");
  layer.key = linear("self_attn.k_proj");
  layer.value = linear("self_attn.v_proj");
  spec.keys.kv_heads.default_value = 32;
  spec.keys.d_head = {};
  spec.keys.mlp_width.default_value = 22016;
  spec.keys.vocabulary.default_value = 151936;
  spec.keys.max_positions.default_value = 32768;
  spec.window->enabled = "use_sliding_window";
  spec.window->layer_types = "layer_types";
  spec.window->first = "max_window_layers";
  spec.window->default_first = 28;
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
  layer.query_norm = norm_without_bias("self_attn.q_norm");
  layer.key_norm = norm_without_bias("self_attn.k_norm");
  spec.keys.d_head = {{"head_dim"}, 128};
  return spec;
}

FamilySpec gemma() {
  FamilySpec spec = llama_row();
  spec.name = "gemma";
  spec.head->tied_by_default = true;
  spec.keys.d_head.default_value = 256;
  spec.keys.mlp_width.default_value = 24576;
  spec.keys.vocabulary.default_value = 256000;
  spec.keys.max_positions.default_value = 8192;
  spec.keys.default_activation = "gelu_pytorch_tanh";
  spec.gain_offset = 1;
  spec.scale_embedding = true;
  remove_mlp_biases(spec.stack.layer);
  spec.requirements.push_back({"use_bidirectional_attention", {false}});
  spec.variants = {{"hidden_act", "gelu", {}, [](FamilySpec& row) {
                      row.keys.activation = {};  // early configurations say gelu but mean gelu_pytorch_tanh
                    }}};
  return spec;
}

FamilySpec gemma2() {
  FamilySpec spec = gemma();
  spec.name = "gemma2";
  LayerSpec& layer = spec.stack.layer;
  layer.attention_output_norm = norm_without_bias("post_attention_layernorm");
  layer.mlp_norm = norm_without_bias("pre_feedforward_layernorm");
  layer.mlp_output_norm = norm_without_bias("post_feedforward_layernorm");
  spec.place = NormPlace::both;
  spec.keys.heads.default_value = 8;
  spec.keys.kv_heads.default_value = 4;
  spec.keys.mlp_width.default_value = 9216;
  spec.keys.activation = {"hidden_activation"};
  spec.keys.scale = {{"query_pre_attn_scalar"}, 1.0 / 16, NumberKey::Rule::inverse_root};
  spec.keys.soft_cap = {.names = {"attn_logit_softcapping"}, .default_value = 50, .null_is_zero = true};
  spec.keys.logit_soft_cap = {
      .names = {"final_logit_softcapping"}, .default_value = 30, .null_is_zero = true};
  spec.window = {
      .size = "sliding_window", .default_size = 4096, .layer_types = "layer_types", .period = {{}, 2}};
  spec.variants = {};
  return spec;
}

FamilySpec gemma3_text() {
  FamilySpec spec = gemma2();
  spec.name = "gemma3_text";
  spec.stack.layer.query_norm = norm_without_bias("self_attn.q_norm");
  spec.stack.layer.key_norm = norm_without_bias("self_attn.k_norm");
  spec.keys.vocabulary.default_value = 262208;
  spec.keys.max_positions.default_value = 131072;
  spec.keys.soft_cap = {};
  spec.keys.logit_soft_cap.default_value = 0;
  spec.rotary->theta = 1e6;
  spec.rotary->sliding = {.theta_name = "rope_local_base_freq", .theta = 10000};
  spec.window->period = {{"sliding_window_pattern"}, 6};

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
  spec.head->tied_by_default = true;
  spec.keys.kv_heads.default_value = 4;
  spec.keys.vocabulary.default_value = 128256;
  spec.keys.max_positions.default_value = 32768;
  spec.rotary->theta = 2e6;
  spec.rotary->nope_layers = "no_rope_layers";
  spec.rotary->nope_interval = {{"no_rope_layer_interval"}, 4};
  spec.window = {.size = "sliding_window",
                 .enabled = "use_sliding_window",
                 .layer_types = "layer_types",
                 .nope_layers_only = true};
  return spec;
}

/// Experts stored one by one, or stacked in one tensor.
LinearSpec each_or_stacked(const std::string& each, const StoredTensor& stacked) {
  LinearSpec spec = linear_without_bias(each);
  spec.weight.push_back(stacked);
  return spec;
}

const StoredTensor kStackedGateUp = {"mlp.experts.gate_up_proj", Axes::out_in, Packing::gate_up};
const StoredTensor kStackedDown = {"mlp.experts.down_proj"};

FamilySpec mixtral() {
  FamilySpec spec = mistral_row();
  spec.name = "mixtral";
  LayerSpec& layer = spec.stack.layer;
  layer.up = layer.gate = layer.down = {};
  ExpertsSpec& experts = layer.experts.emplace();
  experts.router = linear_without_bias("block_sparse_moe.gate");
  experts.router.weight.push_back({"mlp.gate.weight"});
  experts.up = each_or_stacked("block_sparse_moe.experts.{expert}.w3", kStackedGateUp);
  experts.gate = each_or_stacked("block_sparse_moe.experts.{expert}.w1", kStackedGateUp);
  experts.down = each_or_stacked("block_sparse_moe.experts.{expert}.w2", kStackedDown);
  spec.keys.default_norm_eps = 1e-5;
  spec.keys.experts = {{"num_local_experts", "num_experts"}, 8};
  spec.keys.experts_per_token = {{"num_experts_per_tok"}, 2};
  spec.rotary->theta = 1e6;
  spec.window->default_size = 0;
  spec.renormalised = true;
  return spec;
}

/// Experts and a shared expert that every token uses; some layers may have a single MLP.
FamilySpec qwen2_moe() {
  FamilySpec spec = qwen2();
  spec.name = "qwen2_moe";
  LayerSpec& layer = spec.stack.layer;
  layer.query = linear_with_bias_if("self_attn.q_proj", "qkv_bias", true);
  layer.key = linear_with_bias_if("self_attn.k_proj", "qkv_bias", true);
  layer.value = linear_with_bias_if("self_attn.v_proj", "qkv_bias", true);
  ExpertsSpec& experts = layer.experts.emplace();
  experts.router = linear_without_bias("mlp.gate");
  experts.up = each_or_stacked("mlp.experts.{expert}.up_proj", kStackedGateUp);
  experts.gate = each_or_stacked("mlp.experts.{expert}.gate_proj", kStackedGateUp);
  experts.down = each_or_stacked("mlp.experts.{expert}.down_proj", kStackedDown);
  experts.shared_up = linear_without_bias("mlp.shared_expert.up_proj");
  experts.shared_gate = linear_without_bias("mlp.shared_expert.gate_proj");
  experts.shared_down = linear_without_bias("mlp.shared_expert.down_proj");
  experts.shared_factor = linear_without_bias("mlp.shared_expert_gate");
  spec.keys.kv_heads.default_value = 16;
  spec.keys.mlp_width.default_value = 5632;
  spec.keys.experts = {{"num_experts", "num_local_experts"}, 60};
  spec.keys.experts_per_token = {{"num_experts_per_tok"}, 4};
  spec.keys.expert_width = {{"moe_intermediate_size"}, 1408};
  spec.keys.shared_width = {{"shared_expert_intermediate_size"}, 5632};
  spec.keys.sparse_step = {{"decoder_sparse_step"}, 1};
  spec.keys.dense_layers = "mlp_only_layers";
  spec.window->windows_before_first = true;
  spec.window->period.default_value = 2;
  spec.variants = {{"norm_topk_prob", true, false, [](FamilySpec& row) { row.renormalised = true; }}};
  return spec;
}

/// Attention sinks; experts with clamped gates.
FamilySpec gpt_oss() {
  FamilySpec spec = llama_row();
  spec.name = "gpt_oss";
  const auto stacked = [](const std::string& name, Packing packing) {
    return LinearSpec{.weight = {{name, Axes::in_out, packing}},
                      .bias = {{name + "_bias", Axes::in_out, packing}}};
  };
  LayerSpec& layer = spec.stack.layer;
  for (LinearSpec* one : {&layer.query, &layer.key, &layer.value, &layer.output})
    one->bias_presence.default_value = true;
  layer.sinks = {"self_attn.sinks"};
  layer.up = layer.gate = layer.down = {};
  ExpertsSpec& experts = layer.experts.emplace();
  experts.router = linear("mlp.router");
  experts.up = experts.gate = stacked("mlp.experts.gate_up_proj", Packing::gate_up_by_turns);
  experts.down = stacked("mlp.experts.down_proj", Packing::whole);
  spec.keys.kv_heads.default_value = 8;
  spec.keys.d_head.default_value = 64;
  spec.keys.mlp_width.default_value = 2880;
  spec.keys.vocabulary.default_value = 201088;
  spec.keys.max_positions.default_value = 131072;
  spec.keys.default_norm_eps = 1e-5;
  spec.keys.experts = {{"num_local_experts", "num_experts"}, 128};
  spec.keys.experts_per_token = {{"num_experts_per_tok", "experts_per_token"}, 4};
  spec.keys.expert_limit = {{"swiglu_limit"}, 7};
  spec.keys.expert_alpha = {{"swiglu_alpha"}, 1.702};
  spec.softmax_after_topk = true;
  spec.rotary->theta = 150000;
  spec.rotary->parameters = {{"rope_type", "yarn"},
                             {"factor", 32.0},
                             {"truncate", false},
                             {"original_max_position_embeddings", 4096}};
  spec.window = {
      .size = "sliding_window", .default_size = 128, .layer_types = "layer_types", .period = {{}, 2}};
  return spec;
}

}  // namespace

std::vector<FamilySpec> llama_families() {
  return {gemma(),       gemma2(),  gemma3_text(), gpt_oss(),   granite(), llama_row(),
          mistral_row(), mixtral(), qwen2(),       qwen2_moe(), qwen3(),   smollm3()};
}

}  // namespace attnctl
