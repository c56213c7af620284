#include "model/families/family_parts.hpp"

namespace attnctl {

FamilySpec gpt_neox_row() {
  FamilySpec spec;
  spec.name = "gpt_neox";
  spec.prefixes = {"gpt_neox.", ""};
  LinearSpec packed = packed_linear("attention.query_key_value", Packing::by_head);
  packed.bias_presence = {.rule = Presence::Rule::configured, .key = "attention_bias", .otherwise = true};
  spec.stack = {.prefixes = {"layers.{}."},
                .layer = {.query = packed,
                          .key = packed,
                          .value = packed,
                          .output = linear_with_bias_if("attention.dense", "attention_bias", true),
                          .attention_norm = layer_norm("input_layernorm"),
                          .mlp_norm = layer_norm("post_attention_layernorm"),
                          .up = linear("mlp.dense_h_to_4h"),
                          .down = linear("mlp.dense_4h_to_h")}};
  spec.embedding = {.token = {"embed_in.weight"}};
  spec.final_norm = layer_norm("final_layer_norm");
  spec.head = plain_head("embed_out");
  spec.head->decoder.weight.push_back({"lm_head.weight"});
  spec.head->tied_otherwise = false;
  spec.keys = {.d_model = {{"hidden_size"}, {}},
               .layers = {{"num_hidden_layers"}, {}},
               .heads = {{"num_attention_heads"}, {}},
               .mlp_width = {{"intermediate_size"}, 24576},
               .vocabulary = {{"vocab_size"}, 50432},
               .max_positions = {{"max_position_embeddings"}, 2048},
               .norm_eps = {"layer_norm_eps"},
               .activation = {"hidden_act"},
               .norm_eps_otherwise = 1e-5,
               .activation_otherwise = "gelu"};
  spec.norm = NormKind::layer;
  spec.place = NormPlace::pre;
  spec.parallel = true;
  spec.rotary = {.part = 0.25,
                 .theta_names = {"rope_theta", "rotary_emb_base"},
                 .part_names = {"partial_rotary_factor", "rotary_pct"}};
  spec.causal = true;
  spec.variants = {{"use_parallel_residual", false, true, [](FamilySpec& row) { row.parallel = false; }}};
  return spec;
}

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

/// GPT-2 of plain linear layers; one key/value head for all, or queries, keys and values packed by head.
FamilySpec gpt_bigcode() {
  FamilySpec spec = gpt2();
  spec.name = "gpt_bigcode";
  LayerSpec& layer = spec.stack.layer;
  layer.query = layer.key = layer.value = packed_linear("attn.c_attn", Packing::query_key_value);
  layer.output = linear("attn.c_proj");
  layer.up = linear("mlp.c_fc");
  layer.down = linear("mlp.c_proj");
  spec.keys.kv_heads.otherwise = 1;
  spec.keys.activation_otherwise = "gelu_pytorch_tanh";
  spec.keys.inverse_layer_if = "";
  spec.variants.push_back({"multi_query", false, true, [](FamilySpec& row) {
                             LayerSpec& packed = row.stack.layer;
                             packed.query = packed.key = packed.value =
                                 packed_linear("attn.c_attn", Packing::by_head);
                             row.keys.kv_heads = {};
                           }});
  return spec;
}

FamilySpec gpt_neo() {
  FamilySpec spec = gpt2();
  spec.name = "gpt_neo";
  LayerSpec& layer = spec.stack.layer;
  layer.query = linear_without_bias("attn.attention.q_proj");
  layer.key = linear_without_bias("attn.attention.k_proj");
  layer.value = linear_without_bias("attn.attention.v_proj");
  layer.output = linear("attn.attention.out_proj");
  layer.up = linear("mlp.c_fc");
  layer.down = linear("mlp.c_proj");
  spec.keys.d_model.names = {"hidden_size"};
  spec.keys.layers.names = {"num_layers", "num_hidden_layers"};
  spec.keys.heads.names = {"num_heads", "num_attention_heads"};
  spec.keys.mlp_width.names = {"intermediate_size"};
  spec.keys.max_positions = {{"max_position_embeddings"}, 2048};
  spec.keys.inverse_layer_if = "";
  spec.keys.scale.otherwise = 1;
  spec.window = {.size = "window_size",
                 .otherwise = 256,
                 .period_otherwise = 2,
                 .full_first = true,
                 .runs = "attention_types"};
  spec.requirements = {};
  spec.variants = {};
  return spec;
}

/// One norm for both branches; rotary position in a part of each head.
FamilySpec gptj() {
  FamilySpec spec = gpt2();
  spec.name = "gptj";
  LayerSpec& layer = spec.stack.layer;
  layer.query = linear_without_bias("attn.q_proj");
  layer.key = linear_without_bias("attn.k_proj");
  layer.value = linear_without_bias("attn.v_proj");
  layer.output = linear_without_bias("attn.out_proj");
  layer.mlp_norm = layer.attention_norm;
  layer.up = linear("mlp.fc_in");
  layer.down = linear("mlp.fc_out");
  spec.embedding.position = {};
  spec.head->decoder.bias = {{"lm_head.bias"}};
  spec.head->tied_otherwise = false;
  spec.keys.vocabulary.otherwise = 50400;
  spec.keys.max_positions.otherwise = 2048;
  spec.keys.inverse_layer_if = "";
  spec.parallel = true;
  spec.position = PositionKind::none;
  spec.rotary = {.pairing = RotaryPairing::interleaved, .dims = {{"rotary_dim"}, 64}};
  spec.requirements = {};
  spec.variants = {};
  return spec;
}

FamilySpec codegen() {
  FamilySpec spec = gptj();
  spec.name = "codegen";
  LayerSpec& layer = spec.stack.layer;
  layer.query = layer.key = layer.value = packed_linear("attn.qkv_proj", Packing::in_four_blocks);
  layer.query.bias = layer.key.bias = layer.value.bias = {};
  return spec;
}

FamilySpec opt() {
  FamilySpec spec = gpt2();
  spec.name = "opt";
  spec.prefixes = {"model.decoder.", "decoder.", ""};
  spec.stack = {.prefixes = {"layers.{}."},
                .layer = {.query = linear("self_attn.q_proj"),
                          .key = linear("self_attn.k_proj"),
                          .value = linear("self_attn.v_proj"),
                          .output = linear("self_attn.out_proj"),
                          .attention_norm = layer_norm("self_attn_layer_norm"),
                          .mlp_norm = layer_norm("final_layer_norm"),
                          .up = linear("fc1"),
                          .down = linear("fc2")}};
  spec.embedding = {.token = {"embed_tokens.weight"},
                    .position = {"embed_positions.weight"},
                    .projection = linear_if_width_differs("project_in")};
  spec.final_norm = layer_norm("final_layer_norm");
  spec.head->projection = linear_if_width_differs("project_out");
  spec.keys.d_model.names = {"hidden_size"};
  spec.keys.layers.names = {"num_hidden_layers"};
  spec.keys.heads.names = {"num_attention_heads"};
  spec.keys.mlp_width = {{"ffn_dim"}, 3072};
  spec.keys.embedding = {{"word_embed_proj_dim"}, {}};
  spec.keys.vocabulary.otherwise = 50272;
  spec.keys.max_positions = {{"max_position_embeddings"}, 2048};
  spec.keys.norm_eps = {};
  spec.keys.activation_otherwise = "relu";
  spec.keys.inverse_layer_if = "";
  spec.positions_last = true;
  spec.position_offset = 2;
  spec.counts_visible = true;
  spec.requirements = {};
  spec.variants = {{"enable_bias", false, true, [](FamilySpec& row) { remove_biases(row.stack.layer); }},
                   {"layer_norm_elementwise_affine", false, true,
                    [](FamilySpec& row) {
                      LayerSpec& layer = row.stack.layer;
                      layer.attention_norm = layer.mlp_norm = row.final_norm = {.bare = true};
                    }},
                   {"_remove_final_layer_norm", true, false, [](FamilySpec& row) { row.final_norm = {}; }},
                   {"do_layer_norm_before", false, true, [](FamilySpec& row) {
                      row.place = NormPlace::post;
                      row.final_norm = {};
                    }}};
  return spec;
}

}  // namespace

std::vector<FamilySpec> decoder_families() {
  return {codegen(), gpt2(), gpt_bigcode(), gpt_neo(), gpt_neox_row(), gptj(), opt()};
}

}  // namespace attnctl
