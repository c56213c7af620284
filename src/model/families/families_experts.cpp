#include "model/families/family_parts.hpp"

namespace attnctl {
namespace {

/// The experts of a layer as the library that trains them stacks them, or each in tensors of its own.
LinearSpec each_or_stacked(const std::string& each, StoredTensor stacked) {
  return {.weight = {{each + ".weight"}, std::move(stacked)}};
}

FamilySpec mixtral() {
  FamilySpec spec = mistral_row();
  spec.name = "mixtral";
  const StoredTensor gate_up = {"mlp.experts.gate_up_proj", Axes::out_in, Packing::gate_up};
  LayerSpec& layer = spec.stack.layer;
  layer.up = layer.gate = layer.down = {};
  layer.experts = {
      .router = {.weight = {{"block_sparse_moe.gate.weight"}, {"mlp.gate.weight"}}},
      .up = each_or_stacked("block_sparse_moe.experts.{expert}.w3", gate_up),
      .gate = each_or_stacked("block_sparse_moe.experts.{expert}.w1", gate_up),
      .down = each_or_stacked("block_sparse_moe.experts.{expert}.w2", {"mlp.experts.down_proj"})};
  spec.keys.norm_eps_otherwise = 1e-5;
  spec.keys.experts = {{"num_local_experts", "num_experts"}, 8};
  spec.keys.experts_per_token = {{"num_experts_per_tok"}, 2};
  spec.rotary->theta = 1e6;
  spec.window->otherwise = 0;
  spec.renormalised = true;
  return spec;
}

/// Experts beside one that every token goes through; some layers may have a single MLP.
FamilySpec qwen2_moe() {
  FamilySpec spec = qwen2_row();
  spec.name = "qwen2_moe";
  const StoredTensor gate_up = {"mlp.experts.gate_up_proj", Axes::out_in, Packing::gate_up};
  LayerSpec& layer = spec.stack.layer;
  layer.query = linear_with_bias_if("self_attn.q_proj", "qkv_bias", true);
  layer.key = linear_with_bias_if("self_attn.k_proj", "qkv_bias", true);
  layer.value = linear_with_bias_if("self_attn.v_proj", "qkv_bias", true);
  layer.experts = {.router = linear_without_bias("mlp.gate"),
                   .up = each_or_stacked("mlp.experts.{expert}.up_proj", gate_up),
                   .gate = each_or_stacked("mlp.experts.{expert}.gate_proj", gate_up),
                   .down = each_or_stacked("mlp.experts.{expert}.down_proj", {"mlp.experts.down_proj"}),
                   .shared_up = linear_without_bias("mlp.shared_expert.up_proj"),
                   .shared_gate = linear_without_bias("mlp.shared_expert.gate_proj"),
                   .shared_down = linear_without_bias("mlp.shared_expert.down_proj"),
                   .shared_factor = linear_without_bias("mlp.shared_expert_gate")};
  spec.keys.kv_heads.otherwise = 16;
  spec.keys.mlp_width.otherwise = 5632;
  spec.keys.experts = {{"num_experts", "num_local_experts"}, 60};
  spec.keys.experts_per_token = {{"num_experts_per_tok"}, 4};
  spec.keys.expert_width = {{"moe_intermediate_size"}, 1408};
  spec.keys.shared_width = {{"shared_expert_intermediate_size"}, 5632};
  spec.keys.sparse_step = {{"decoder_sparse_step"}, 1};
  spec.keys.dense_layers = "mlp_only_layers";
  spec.window->below = true;
  spec.window->period_otherwise = 2;
  spec.variants = {{"norm_topk_prob", true, false, [](FamilySpec& row) { row.renormalised = true; }}};
  return spec;
}

/// One more score a head, of no key; experts whose gates are clamped.
FamilySpec gpt_oss() {
  FamilySpec spec = llama_row();
  spec.name = "gpt_oss";
  const auto stacked = [](const std::string& name, Packing packing) {
    return LinearSpec{.weight = {{name, Axes::in_out, packing}},
                      .bias = {{name + "_bias", Axes::in_out, packing}}};
  };
  LayerSpec& layer = spec.stack.layer;
  for (LinearSpec* one : {&layer.query, &layer.key, &layer.value, &layer.output})
    one->bias_presence.otherwise = true;
  layer.sinks = {"self_attn.sinks"};
  layer.up = layer.gate = layer.down = {};
  layer.experts = {.router = linear("mlp.router"),
                   .up = stacked("mlp.experts.gate_up_proj", Packing::gate_up_by_turns),
                   .gate = stacked("mlp.experts.gate_up_proj", Packing::gate_up_by_turns),
                   .down = stacked("mlp.experts.down_proj", Packing::whole)};
  spec.keys.kv_heads.otherwise = 8;
  spec.keys.d_head.otherwise = 64;
  spec.keys.mlp_width.otherwise = 2880;
  spec.keys.vocabulary.otherwise = 201088;
  spec.keys.max_positions.otherwise = 131072;
  spec.keys.norm_eps_otherwise = 1e-5;
  spec.keys.experts = {{"num_local_experts", "num_experts"}, 128};
  spec.keys.experts_per_token = {{"num_experts_per_tok", "experts_per_token"}, 4};
  spec.keys.expert_limit = {{"swiglu_limit"}, 7};
  spec.keys.expert_alpha = {{"swiglu_alpha"}, 1.702};
  spec.softmax_of_picked = true;
  spec.rotary->theta = 150000;
  spec.rotary->parameters = {{"rope_type", "yarn"},
                             {"factor", 32.0},
                             {"truncate", false},
                             {"original_max_position_embeddings", 4096}};
  spec.window = {
      .size = "sliding_window", .otherwise = 128, .layer_types = "layer_types", .period_otherwise = 2};
  return spec;
}

}  // namespace

std::vector<FamilySpec> expert_families() {
  return {gpt_oss(), mixtral(), qwen2_moe()};
}

}  // namespace attnctl
