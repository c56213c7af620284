#include "model/families/family_parts.hpp"

// Decoders with the tensor names of Llama or similar names.
namespace attnctl::model {
namespace {

const std::vector<std::string> kQueryKeyValue = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"};

LinearSpec biased_if_configured(const std::string& name) {
  return linear_with_bias_if(name, name.starts_with("mlp.") ? "mlp_bias" : "attention_bias");
}

void add_head_norms(LayerSpec& layer) {
  layer.query_norm = norm_without_bias("self_attn.q_norm");
  layer.key_norm = norm_without_bias("self_attn.k_norm");
}

/// Replaces the RMS norms of Llama by LayerNorms. `eps` is the configuration key of epsilon.
void set_layer_norms(FamilySpec& row, const std::string& eps) {
  row.layer.attention_norm = layer_norm("input_layernorm");
  row.layer.mlp_norm = layer_norm("post_attention_layernorm");
  row.final_norm = layer_norm("norm");
  row.keys.norm_eps = {{eps}, 1e-5};
  row.norm = NormKind::layer;
}

void llama_row(FamilySpec& spec) {
  spec.prefixes = {"model.", ""};
  spec.layer_prefixes = {"layers.{}."};
  spec.layer =
      plain_layer(biased_if_configured,
                  {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                   "mlp.up_proj", "mlp.down_proj", "mlp.gate_proj"},
                  norm_without_bias("input_layernorm"), norm_without_bias("post_attention_layernorm"));
  spec.embedding = {.token = {"embed_tokens.weight"}};
  spec.final_norm = norm_without_bias("norm");
  spec.head = plain_head("lm_head");
  spec.head->tied_by_default = false;
  spec.keys = common_keys(11008, 32000, 2048, {{"rms_norm_eps"}, 1e-6}, "silu");
  spec.keys.kv_heads = {{"num_key_value_heads"}, {}};
  spec.keys.d_head = {{"head_dim"}, {}};
  spec.norm = NormKind::rms;
  spec.rotary = RotarySpec{};
  spec.causal = true;
  spec.requirements = {{"partial_rotary_factor", {1.0}}, {"rope_parameters/partial_rotary_factor", {1.0}}};
}

void mistral_row(FamilySpec& spec) {
  remove_biases(spec.layer);
  set_defaults(spec.keys, {.kv_heads = 8, .mlp_width = 14336, .max_positions = 131072});
  spec.window = {.size = "sliding_window", .default_size = 4096};
}

void qwen2(FamilySpec& spec) {
  set_projections(spec.layer, linear, kQueryKeyValue);
  set_defaults(spec.keys, {.kv_heads = 32, .mlp_width = 22016, .vocabulary = 151936, .max_positions = 32768});
  spec.keys.d_head = {};
  spec.window->enabled = "use_sliding_window";
  spec.window->layer_types = "layer_types";
  spec.window->first = "max_window_layers";
  spec.window->default_first = 28;
}

void qwen3(FamilySpec& spec) {
  set_projections(spec.layer, biased_if_configured, kQueryKeyValue);
  spec.layer.output = biased_if_configured("self_attn.o_proj");
  add_head_norms(spec.layer);
  spec.keys.d_head = {{"head_dim"}, 128};
}

void gemma(FamilySpec& spec) {
  spec.head->tied_by_default = true;
  set_defaults(spec.keys, {.d_head = 256, .mlp_width = 24576, .vocabulary = 256000, .max_positions = 8192});
  spec.keys.activation.default_value = "gelu_pytorch_tanh";
  spec.gain_offset = 1;
  spec.scale_embedding = true;
  remove_mlp_biases(spec.layer);
  spec.requirements.push_back({"use_bidirectional_attention", {false}});
  spec.variants = {{"hidden_act", "gelu", {}, [](FamilySpec& row) {
                      // Early configurations contain gelu, but the models use gelu_pytorch_tanh.
                      row.keys.activation.names = {};
                    }}};
}

void gemma2(FamilySpec& spec) {
  spec.layer.attention_output_norm = norm_without_bias("post_attention_layernorm");
  spec.layer.mlp_norm = norm_without_bias("pre_feedforward_layernorm");
  spec.layer.mlp_output_norm = norm_without_bias("post_feedforward_layernorm");
  spec.place = NormPlace::both;
  set_defaults(spec.keys, {.heads = 8, .kv_heads = 4, .mlp_width = 9216});
  spec.keys.activation.names = {"hidden_activation"};
  spec.keys.scale = {{"query_pre_attn_scalar"}, 1.0 / 16, NumberKey::Conversion::inverse_root};
  spec.keys.soft_cap = {.names = {"attn_logit_softcapping"}, .default_value = 50, .null_is_zero = true};
  spec.keys.logit_soft_cap = {
      .names = {"final_logit_softcapping"}, .default_value = 30, .null_is_zero = true};
  spec.window = {
      .size = "sliding_window", .default_size = 4096, .layer_types = "layer_types", .period = {{}, 2}};
  spec.variants = {};
}

void gemma3_text(FamilySpec& spec) {
  add_head_norms(spec.layer);
  set_defaults(spec.keys, {.vocabulary = 262208, .max_positions = 131072});
  spec.keys.soft_cap = {};
  spec.keys.logit_soft_cap.default_value = 0;
  spec.rotary->theta = 1e6;
  spec.rotary->sliding = {.theta_name = "rope_local_base_freq", .theta = 10000};
  spec.window->period = {{"sliding_window_pattern"}, 6};
}

void granite(FamilySpec& spec) {
  spec.keys.d_head = {};
  spec.keys.scale = {{"attention_multiplier"}, 1};
  spec.keys.embedding_multiplier = {{"embedding_multiplier"}, 1};
  spec.keys.residual_multiplier = {{"residual_multiplier"}, 1};
  spec.keys.logit_multiplier = {{"logits_scaling"}, 1, NumberKey::Conversion::inverse};
}

void smollm3(FamilySpec& spec) {
  spec.head->tied_by_default = true;
  set_defaults(spec.keys, {.kv_heads = 4, .vocabulary = 128256, .max_positions = 32768});
  spec.rotary->theta = 2e6;
  spec.rotary->nope_layers = "no_rope_layers";
  spec.rotary->nope_interval = {{"no_rope_layer_interval"}, 4};
  spec.window = {.size = "sliding_window",
                 .enabled = "use_sliding_window",
                 .layer_types = "layer_types",
                 .nope_layers_only = true};
}

/// Returns the projections of experts that are stored in one tensor per expert with these names, or for all
/// experts together in mlp.experts.gate_up_proj and mlp.experts.down_proj.
MlpSpec each_or_stacked(const std::string& up, const std::string& down, const std::string& gate) {
  MlpSpec mlp = {linear_without_bias(up), linear_without_bias(down), linear_without_bias(gate)};
  const StoredTensor gate_up = {"mlp.experts.gate_up_proj", Axes::out_in, Packing::gate_up};
  for (LinearSpec* one : {&mlp.up, &mlp.gate}) one->weight.push_back(gate_up);
  mlp.down.weight.push_back({"mlp.experts.down_proj"});
  return mlp;
}

void mixtral(FamilySpec& spec) {
  spec.layer.mlp = {};
  ExpertsSpec& experts = spec.layer.experts.emplace();
  experts.router = linear_without_bias("block_sparse_moe.gate");
  experts.router.weight.push_back({"mlp.gate.weight"});
  experts.each =
      each_or_stacked("block_sparse_moe.experts.{expert}.w3", "block_sparse_moe.experts.{expert}.w2",
                      "block_sparse_moe.experts.{expert}.w1");
  spec.keys.norm_eps.default_value = 1e-5;
  spec.keys.experts = {{"num_local_experts", "num_experts"}, 8};
  spec.keys.experts_per_token = {{"num_experts_per_tok"}, 2};
  spec.rotary->theta = 1e6;
  spec.window->default_size = 0;
  spec.experts_config.renormalised = true;
}

void qwen2_moe(FamilySpec& spec) {
  set_projections(
      spec.layer, [](const std::string& name) { return linear_with_bias_if(name, "qkv_bias", true); },
      kQueryKeyValue);
  ExpertsSpec& experts = spec.layer.experts.emplace();
  experts.router = linear_without_bias("mlp.gate");
  experts.each = each_or_stacked("mlp.experts.{expert}.up_proj", "mlp.experts.{expert}.down_proj",
                                 "mlp.experts.{expert}.gate_proj");
  experts.shared.up = linear_without_bias("mlp.shared_expert.up_proj");
  experts.shared.gate = linear_without_bias("mlp.shared_expert.gate_proj");
  experts.shared.down = linear_without_bias("mlp.shared_expert.down_proj");
  experts.shared_factor = linear_without_bias("mlp.shared_expert_gate");
  set_defaults(spec.keys, {.kv_heads = 16, .mlp_width = 5632});
  spec.keys.experts = {{"num_experts", "num_local_experts"}, 60};
  spec.keys.experts_per_token = {{"num_experts_per_tok"}, 4};
  spec.keys.expert_width = {{"moe_intermediate_size"}, 1408};
  spec.keys.shared_width = {{"shared_expert_intermediate_size"}, 5632};
  spec.keys.sparse_step = {{"decoder_sparse_step"}, 1};
  spec.keys.dense_layers = "mlp_only_layers";
  spec.window->windows_before_first = true;
  spec.window->period.default_value = 2;
  spec.variants = {
      {"norm_topk_prob", true, false, [](FamilySpec& row) { row.experts_config.renormalised = true; }}};
}

void gpt_oss(FamilySpec& spec) {
  const auto stacked = [](const std::string& name, Packing packing) {
    return LinearSpec{.weight = {{name, Axes::in_out, packing}},
                      .bias = {{name + "_bias", Axes::in_out, packing}}};
  };
  LayerSpec& layer = spec.layer;
  for (LinearSpec* one : {&layer.query, &layer.key, &layer.value, &layer.output}) one->bias_default = true;
  layer.sinks = {"self_attn.sinks"};
  layer.mlp = {};
  ExpertsSpec& experts = layer.experts.emplace();
  experts.router = linear("mlp.router");
  experts.each.up = experts.each.gate = stacked("mlp.experts.gate_up_proj", Packing::gate_up_by_turns);
  experts.each.down = stacked("mlp.experts.down_proj", Packing::whole);
  set_defaults(
      spec.keys,
      {.kv_heads = 8, .d_head = 64, .mlp_width = 2880, .vocabulary = 201088, .max_positions = 131072});
  spec.keys.norm_eps.default_value = 1e-5;
  spec.keys.experts = {{"num_local_experts", "num_experts"}, 128};
  spec.keys.experts_per_token = {{"num_experts_per_tok", "experts_per_token"}, 4};
  spec.keys.expert_limit = {{"swiglu_limit"}, 7};
  spec.keys.expert_alpha = {{"swiglu_alpha"}, 1.702};
  spec.experts_config.softmax_after_topk = true;
  spec.rotary->theta = 150000;
  spec.rotary->parameters = {{"rope_type", "yarn"},
                             {"factor", 32.0},
                             {"truncate", false},
                             {"original_max_position_embeddings", 4096}};
  spec.window = {
      .size = "sliding_window", .default_size = 128, .layer_types = "layer_types", .period = {{}, 2}};
}

void phi(FamilySpec& spec) {
  spec.layer = plain_layer(
      linear,
      {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.dense", "mlp.fc1", "mlp.fc2"},
      layer_norm("input_layernorm"), layer_norm("input_layernorm"));
  spec.final_norm = layer_norm("final_layernorm");
  spec.head->decoder.bias = {{"lm_head.bias"}};
  spec.keys.d_head = {};
  set_defaults(spec.keys, {.mlp_width = 8192, .vocabulary = 51200});
  spec.keys.norm_eps = {{"layer_norm_eps"}, 1e-5};
  spec.keys.activation.default_value = "gelu_new";
  spec.norm = NormKind::layer;
  spec.parallel = true;
  spec.rotary->fraction = 0.5;
  spec.requirements = {};
  spec.variants = {{"qk_layernorm", true, false, [](FamilySpec& row) {
                      row.layer.query_norm = layer_norm("self_attn.q_layernorm");
                      row.layer.key_norm = layer_norm("self_attn.k_layernorm");
                    }}};
}

void phi3(FamilySpec& spec) {
  set_packed(spec.layer, packed_linear("self_attn.qkv_proj", Packing::query_key_value));
  spec.layer.mlp.gate = spec.layer.mlp.up = packed_linear("mlp.gate_up_proj", Packing::gate_up);
  remove_biases(spec.layer);
  spec.keys.kv_heads = {{"num_key_value_heads"}, {}};
  spec.keys.d_head = {};
  set_defaults(spec.keys, {.mlp_width = 8192, .vocabulary = 32064, .max_positions = 4096});
  spec.keys.norm_eps.default_value = 1e-5;
  spec.rotary->yarn_is_longrope = true;
  spec.rotary->default_original = 4096;
  spec.window->default_size = 0;
  spec.requirements = {};
}

void olmo(FamilySpec& spec) {
  spec.layer.attention_norm = spec.layer.mlp_norm = spec.final_norm = {.bare = true};
  remove_mlp_biases(spec.layer);
  spec.keys.d_head = {};
  spec.keys.vocabulary.default_value = 50304;
  spec.keys.norm_eps = {{}, 1e-5};
  spec.keys.clip = {{"clip_qkv"}};
  spec.norm = NormKind::layer;
}

void olmo2(FamilySpec& spec) {
  spec.layer.attention_norm = norm_without_bias("post_attention_layernorm");
  spec.layer.mlp_norm = norm_without_bias("post_feedforward_layernorm");
  add_head_norms(spec.layer);
  spec.final_norm = norm_without_bias("norm");
  spec.keys.norm_eps.names = {"rms_norm_eps"};
  spec.keys.clip = {};
  spec.norm = NormKind::rms;
  spec.place = NormPlace::output;
  spec.head_norm_span = HeadNormSpan::whole;
}

void stablelm(FamilySpec& spec) {
  set_projections(
      spec.layer, [](const std::string& name) { return linear_with_bias_if(name, "use_qkv_bias"); },
      kQueryKeyValue);
  set_layer_norms(spec, "layer_norm_eps");
  set_defaults(spec.keys, {.kv_heads = 32, .mlp_width = 6912, .vocabulary = 50304, .max_positions = 4096});
  spec.keys.d_head = {};
  spec.head_norm_span = HeadNormSpan::each;
  spec.rotary->fraction = 0.25;
  spec.window.reset();
  spec.requirements = {};
  spec.variants = {{"use_parallel_residual", true, false,
                    [](FamilySpec& row) {
                      row.parallel = true;
                      row.layer.mlp_norm = row.layer.attention_norm;
                    }},
                   {"qk_layernorm", true, false, [](FamilySpec& row) {
                      row.layer.query_norm = norm_without_bias("self_attn.q_layernorm.norms.{head}");
                      row.layer.key_norm = norm_without_bias("self_attn.k_layernorm.norms.{head}");
                    }}};
}

void starcoder2(FamilySpec& spec) {
  spec.layer =
      plain_layer([](const std::string& name) { return linear_with_bias_if(name, "use_bias", true); },
                  {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.c_fc",
                   "mlp.c_proj"},
                  {}, {});
  set_layer_norms(spec, "norm_epsilon");
  spec.head->tied_by_default = true;
  set_defaults(spec.keys, {.kv_heads = 2, .mlp_width = 12288, .vocabulary = 49152, .max_positions = 4096});
  spec.keys.d_head = {};
  spec.keys.activation.default_value = "gelu_pytorch_tanh";
  spec.window->default_size = 0;
}

void cohere(FamilySpec& spec) {
  spec.layer.attention_norm = spec.layer.mlp_norm = norm_without_bias("input_layernorm");
  remove_mlp_biases(spec.layer);
  spec.head->tied_by_default = true;
  set_defaults(spec.keys, {.mlp_width = 22528, .vocabulary = 256000, .max_positions = 8192});
  spec.keys.norm_eps = {{"layer_norm_eps"}, 1e-5};
  spec.keys.logit_multiplier = {{"logit_scale"}, 0.0625};
  spec.norm = NormKind::layer;
  spec.parallel = true;
  spec.head_norm_span = HeadNormSpan::each;
  spec.rotary = {.pairing = RotaryPairing::interleaved, .theta = 500000};
  spec.variants = {{"use_qk_norm", true, false, [](FamilySpec& row) { add_head_norms(row.layer); }}};
}

void nemotron(FamilySpec& spec) {
  spec.layer.mlp.gate = {};
  set_layer_norms(spec, "norm_eps");
  set_defaults(spec.keys, {.mlp_width = 24576, .vocabulary = 256000, .max_positions = 4096});
  spec.keys.activation.default_value = "relu2";
  spec.gain_offset = 1;
  spec.rotary->fraction = 0.5;
  spec.requirements = {};
}

}  // namespace

std::vector<FamilyRow> llama_families() {
  // clang-format off
  return {{"llama", "", llama_row}, {"granite", "llama", granite}, {"smollm3", "llama", smollm3},
          {"gpt_oss", "llama", gpt_oss}, {"phi", "llama", phi}, {"cohere", "llama", cohere},
          {"nemotron", "llama", nemotron}, {"olmo", "llama", olmo}, {"olmo2", "olmo", olmo2},
          {"gemma", "llama", gemma}, {"gemma2", "gemma", gemma2}, {"gemma3_text", "gemma2", gemma3_text},
          {"mistral", "llama", mistral_row}, {"mixtral", "mistral", mixtral}, {"phi3", "mistral", phi3},
          {"stablelm", "mistral", stablelm}, {"starcoder2", "mistral", starcoder2},
          {"qwen2", "mistral", qwen2}, {"qwen2_moe", "qwen2", qwen2_moe}, {"qwen3", "qwen2", qwen3}};
  // clang-format on
}

}  // namespace attnctl::model
