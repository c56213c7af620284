#include "model/families/family_parts.hpp"

// Decoders that tell positions by slopes (ALiBi), or may.
namespace attnctl {
namespace {

FamilySpec bloom() {
  FamilySpec spec = gpt_neox_row();
  spec.name = "bloom";
  spec.prefixes = {"transformer.", ""};
  spec.stack.prefixes = {"h.{}."};
  LayerSpec& layer = spec.stack.layer;
  layer.query = layer.key = layer.value = packed_linear("self_attention.query_key_value", Packing::by_head);
  layer.output = linear("self_attention.dense");
  spec.embedding = {.token = {"word_embeddings.weight"}, .norm = layer_norm("word_embeddings_layernorm")};
  spec.final_norm = layer_norm("ln_f");
  spec.head = plain_head("lm_head");
  spec.keys.d_model = {{"hidden_size", "n_embed"}, 64};
  spec.keys.layers = {{"n_layer", "num_hidden_layers"}, 2};
  spec.keys.heads = {{"n_head", "num_attention_heads"}, 8};
  spec.keys.mlp_width = {};
  spec.keys.vocabulary.otherwise = 250880;
  spec.keys.max_positions = {};
  spec.keys.norm_eps = {"layer_norm_epsilon"};
  spec.keys.activation = {};
  spec.keys.activation_otherwise = "gelu_new";
  spec.parallel = false;
  spec.rotary.reset();
  spec.alibi = AlibiSlopes::nearest_power;
  spec.counts_visible = true;
  spec.variants = {{"apply_residual_connection_post_layernorm", true, false,
                    [](FamilySpec& row) { row.place = NormPlace::stream; }}};
  return spec;
}

/// Four shapes: one key/value head (7B), groups (40B), heads in sequence and with ALiBi (RW).
FamilySpec falcon() {
  FamilySpec spec = bloom();
  spec.name = "falcon";
  LayerSpec& layer = spec.stack.layer;
  const auto pack = [](LayerSpec& packed, Packing packing) {
    packed.query = packed.key = packed.value = packed_linear("self_attention.query_key_value", packing);
    for (LinearSpec* one : {&packed.query, &packed.key, &packed.value})
      one->bias_presence = {.rule = Presence::Rule::configured, .key = "bias"};
  };
  static constexpr auto repack = pack;
  pack(layer, Packing::query_key_value);
  layer.output = linear_with_bias_if("self_attention.dense", "bias");
  layer.mlp_norm = layer.attention_norm;
  layer.up = linear_with_bias_if("mlp.dense_h_to_4h", "bias");
  layer.down = linear_with_bias_if("mlp.dense_4h_to_h", "bias");
  spec.embedding.norm = {};
  spec.keys.d_model = {{"hidden_size"}, {}};
  spec.keys.layers = {{"num_hidden_layers", "n_layer"}, {}};
  spec.keys.heads = {{"num_attention_heads", "n_head"}, {}};
  spec.keys.kv_heads.otherwise = 1;
  spec.keys.mlp_width.names = {"ffn_hidden_size"};
  spec.keys.vocabulary.otherwise = 65024;
  spec.keys.max_positions = {{"max_position_embeddings"}, 2048};
  spec.keys.activation = {"activation"};
  spec.keys.activation_otherwise = "gelu";
  spec.parallel = true;
  spec.alibi = AlibiSlopes::none;
  spec.rotary = RotarySpec{};
  spec.variants = {{"multi_query", false, true,
                    [](FamilySpec& row) {
                      repack(row.stack.layer, Packing::by_head);
                      row.keys.kv_heads = {};
                    }},
                   {"new_decoder_architecture", true, false,
                    [](FamilySpec& row) {
                      repack(row.stack.layer, Packing::by_key_head);
                      row.keys.kv_heads = {{"num_kv_heads", "n_head_kv"}, {}};
                      row.stack.layer.attention_norm = layer_norm("ln_attn");
                      row.stack.layer.mlp_norm = layer_norm("ln_mlp");
                    }},
                   {"num_ln_in_parallel_attn",
                    1,
                    {},
                    [](FamilySpec& row) {
                      row.stack.layer.attention_norm = row.stack.layer.mlp_norm =
                          layer_norm("input_layernorm");
                    }},
                   {"parallel_attn", false, true,
                    [](FamilySpec& row) {
                      row.parallel = false;
                      row.stack.layer.mlp_norm = layer_norm("post_attention_layernorm");
                    }},
                   {"alibi", true, false, [](FamilySpec& row) {
                      row.rotary.reset();
                      row.alibi = AlibiSlopes::nearest_power;
                      row.alibi_rounded = true;
                    }}};
  return spec;
}

FamilySpec mpt() {
  FamilySpec spec = bloom();
  spec.name = "mpt";
  spec.stack = {.prefixes = {"blocks.{}."},
                .layer = {.query = packed_linear("attn.Wqkv", Packing::query_key_value),
                          .key = packed_linear("attn.Wqkv", Packing::query_key_value),
                          .value = packed_linear("attn.Wqkv", Packing::query_key_value),
                          .output = linear_without_bias("attn.out_proj"),
                          .attention_norm = norm_without_bias("norm_1"),
                          .mlp_norm = norm_without_bias("norm_2"),
                          .up = linear_without_bias("ffn.up_proj"),
                          .down = linear_without_bias("ffn.down_proj")}};
  remove_biases(spec.stack.layer);
  spec.embedding = {.token = {"wte.weight"}};
  spec.final_norm = norm_without_bias("norm_f");
  spec.keys.d_model = {{"d_model", "hidden_size"}, {}};
  spec.keys.layers = {{"n_layers", "num_hidden_layers"}, {}};
  spec.keys.heads = {{"n_heads", "num_attention_heads"}, {}};
  spec.keys.vocabulary.otherwise = 50368;
  spec.keys.max_positions = {{"max_seq_len"}, 2048};
  spec.keys.activation_otherwise = "gelu";
  spec.keys.scale.names = {"attn_config/softmax_scale"};
  spec.keys.clip.names = {"attn_config/clip_qkv"};
  spec.alibi = AlibiSlopes::next_power;
  spec.alibi_from_last = true;
  spec.counts_visible = false;
  spec.variants = {};
  return spec;
}

}  // namespace

std::vector<FamilySpec> alibi_families() {
  return {bloom(), falcon(), mpt()};
}

}  // namespace attnctl
