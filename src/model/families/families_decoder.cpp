#include "model/families/family_parts.hpp"

// Decoders that do not use llama's tensor names, with learned positions, rotary positions or ALiBi.
namespace attnctl::model {
namespace {

void gpt_neox(FamilySpec& spec) {
  spec.prefixes = {"gpt_neox.", ""};
  spec.layer_prefixes = {"layers.{}."};
  set_packed(spec.layer,
             linear_with_bias_if("attention.query_key_value", "attention_bias", true, Packing::by_head));
  spec.layer.output = linear_with_bias_if("attention.dense", "attention_bias", true);
  spec.layer.attention_norm = layer_norm("input_layernorm");
  spec.layer.mlp_norm = layer_norm("post_attention_layernorm");
  spec.layer.mlp = {linear("mlp.dense_h_to_4h"), linear("mlp.dense_4h_to_h")};
  spec.embedding = {.token = {"embed_in.weight"}};
  spec.final_norm = layer_norm("final_layer_norm");
  spec.head = plain_head("embed_out");
  spec.head->decoder.weight.push_back({"lm_head.weight"});
  spec.head->tied_by_default = false;
  spec.keys = common_keys(24576, 50432, 2048, {{"layer_norm_eps"}, 1e-5}, "gelu");
  spec.parallel = true;
  spec.rotary = {.fraction = 0.25,
                 .theta_names = {"rope_theta", "rotary_emb_base"},
                 .fraction_names = {"partial_rotary_factor", "rotary_pct"}};
  spec.causal = true;
  spec.variants = {{"use_parallel_residual", false, true, [](FamilySpec& row) { row.parallel = false; }}};
}

void gpt2(FamilySpec& spec) {
  spec.prefixes = {"transformer.", ""};
  spec.layer_prefixes = {"h.{}."};
  set_packed(spec.layer, conv1d("attn.c_attn", Packing::query_key_value));
  spec.layer.output = conv1d("attn.c_proj");
  spec.layer.attention_norm = layer_norm("ln_1");
  spec.layer.mlp_norm = layer_norm("ln_2");
  spec.layer.mlp = {conv1d("mlp.c_fc"), conv1d("mlp.c_proj")};
  spec.embedding = {.token = {"wte.weight"}, .position = {"wpe.weight"}};
  spec.final_norm = layer_norm("ln_f");
  spec.head = plain_head("lm_head");
  spec.keys = {.d_model = {{"n_embd", "hidden_size"}, {}},
               .layers = {{"n_layer", "num_hidden_layers"}, {}},
               .heads = {{"n_head", "num_attention_heads"}, {}},
               .mlp_width = {{"n_inner"}, {}},
               .vocabulary = {{"vocab_size"}, 50257},
               .max_positions = {{"n_positions", "max_position_embeddings"}, 1024},
               .norm_eps = {{"layer_norm_epsilon"}, 1e-5},
               .activation = {{"activation_function"}, "gelu_new"},
               .inverse_layer_if = "scale_attn_by_inverse_layer_idx"};
  spec.embedding_config.position = PositionKind::learned;
  spec.causal = true;
  spec.requirements = {{"add_cross_attention", {false}}};
  spec.variants = {
      {"scale_attn_weights", false, true, [](FamilySpec& row) { row.keys.scale.default_value = 1; }}};
}

/// GPT-BigCode is like GPT-2, but has torch.nn.Linear layers. By default all heads share one key/value head.
/// If /multi_query is false, every head has its own, and the projections are packed by head.
void gpt_bigcode(FamilySpec& spec) {
  set_packed(spec.layer, packed_linear("attn.c_attn", Packing::query_key_value));
  spec.layer.output = linear("attn.c_proj");
  spec.layer.mlp = {linear("mlp.c_fc"), linear("mlp.c_proj")};
  spec.keys.kv_heads.default_value = 1;
  spec.keys.activation.default_value = "gelu_pytorch_tanh";
  spec.keys.inverse_layer_if = "";
  spec.variants.push_back({"multi_query", false, true, [](FamilySpec& row) {
                             set_packed(row.layer, packed_linear("attn.c_attn", Packing::by_head));
                             row.keys.kv_heads = {};
                           }});
}

void gpt_neo(FamilySpec& spec) {
  set_projections(spec.layer, linear_without_bias,
                  {"attn.attention.q_proj", "attn.attention.k_proj", "attn.attention.v_proj"});
  spec.layer.output = linear("attn.attention.out_proj");
  spec.layer.mlp = {linear("mlp.c_fc"), linear("mlp.c_proj")};
  spec.keys.d_model.names = {"hidden_size"};
  spec.keys.layers.names = {"num_layers", "num_hidden_layers"};
  spec.keys.heads.names = {"num_heads", "num_attention_heads"};
  spec.keys.mlp_width.names = {"intermediate_size"};
  spec.keys.max_positions = {{"max_position_embeddings"}, 2048};
  spec.keys.inverse_layer_if = "";
  spec.keys.scale.default_value = 1;
  spec.window = {.size = "window_size",
                 .default_size = 256,
                 .type_runs = "attention_types",
                 .period = {{}, 2},
                 .full_first = true};
  spec.requirements = {};
  spec.variants = {};
}

void gptj(FamilySpec& spec) {
  LayerSpec& layer = spec.layer;
  set_projections(layer, linear_without_bias, {"attn.q_proj", "attn.k_proj", "attn.v_proj", "attn.out_proj"});
  layer.mlp_norm = layer.attention_norm;
  layer.mlp = {linear("mlp.fc_in"), linear("mlp.fc_out")};
  spec.head->decoder.bias = {{"lm_head.bias"}};
  spec.head->tied_by_default = false;
  set_defaults(spec.keys, {.vocabulary = 50400, .max_positions = 2048});
  spec.keys.inverse_layer_if = "";
  spec.parallel = true;
  spec.embedding_config.position = PositionKind::none;
  spec.rotary = {.pairing = RotaryPairing::interleaved, .dims = {{"rotary_dim"}, 64}};
  spec.requirements = {};
  spec.variants = {};
}

void codegen(FamilySpec& spec) {
  set_packed(spec.layer, {.weight = {{"attn.qkv_proj.weight", Axes::out_in, Packing::in_four_blocks}}});
}

void opt(FamilySpec& spec) {
  spec.prefixes = {"model.decoder.", "decoder.", ""};
  spec.layer_prefixes = {"layers.{}."};
  spec.layer = plain_layer(
      linear,
      {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj", "fc1", "fc2"},
      layer_norm("self_attn_layer_norm"), layer_norm("final_layer_norm"));
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
  spec.keys.vocabulary.default_value = 50272;
  spec.keys.max_positions = {{"max_position_embeddings"}, 2048};
  spec.keys.norm_eps.names = {};
  spec.keys.activation.default_value = "relu";
  spec.keys.inverse_layer_if = "";
  spec.embedding_config.positions_last = true;
  spec.embedding_config.position_offset = 2;
  spec.embedding_config.counts_visible = true;
  spec.requirements = {};
  spec.variants = {{"enable_bias", false, true, [](FamilySpec& row) { remove_biases(row.layer); }},
                   {"layer_norm_elementwise_affine", false, true,
                    [](FamilySpec& row) {
                      LayerSpec& layer = row.layer;
                      layer.attention_norm = layer.mlp_norm = row.final_norm = {.bare = true};
                    }},
                   {"_remove_final_layer_norm", true, false, [](FamilySpec& row) { row.final_norm = {}; }},
                   {"do_layer_norm_before", false, true, [](FamilySpec& row) {
                      row.place = NormPlace::post;
                      row.final_norm = {};
                    }}};
}

void bloom(FamilySpec& spec) {
  spec.prefixes = {"transformer.", ""};
  spec.layer_prefixes = {"h.{}."};
  set_packed(spec.layer, packed_linear("self_attention.query_key_value", Packing::by_head));
  spec.layer.output = linear("self_attention.dense");
  spec.embedding = {.token = {"word_embeddings.weight"}, .norm = layer_norm("word_embeddings_layernorm")};
  spec.final_norm = layer_norm("ln_f");
  spec.head = plain_head("lm_head");
  spec.keys.d_model = {{"hidden_size", "n_embed"}, 64};
  spec.keys.layers = {{"n_layer", "num_hidden_layers"}, 2};
  spec.keys.heads = {{"n_head", "num_attention_heads"}, 8};
  spec.keys.mlp_width = {};
  spec.keys.vocabulary.default_value = 250880;
  spec.keys.max_positions = {};
  spec.keys.norm_eps.names = {"layer_norm_epsilon"};
  spec.keys.activation = {{}, "gelu_new"};
  spec.parallel = false;
  spec.rotary.reset();
  spec.alibi.emplace();
  spec.embedding_config.counts_visible = true;
  spec.variants = {{"apply_residual_connection_post_layernorm", true, false,
                    [](FamilySpec& row) { row.place = NormPlace::stream; }}};
}

void pack_falcon(LayerSpec& layer, Packing packing) {
  set_packed(layer, linear_with_bias_if("self_attention.query_key_value", "bias", false, packing));
}

/// Falcon models have one key/value head (7B), several key/value heads that groups of heads share (40B), or
/// one key/value head per head, and ALiBi (RW).
void falcon(FamilySpec& spec) {
  pack_falcon(spec.layer, Packing::query_key_value);
  spec.layer.output = linear_with_bias_if("self_attention.dense", "bias");
  spec.layer.mlp_norm = spec.layer.attention_norm;
  spec.layer.mlp = {linear_with_bias_if("mlp.dense_h_to_4h", "bias"),
                    linear_with_bias_if("mlp.dense_4h_to_h", "bias")};
  spec.embedding.norm = {};
  spec.keys.d_model = {{"hidden_size"}, {}};
  spec.keys.layers = {{"num_hidden_layers", "n_layer"}, {}};
  spec.keys.heads = {{"num_attention_heads", "n_head"}, {}};
  set_defaults(spec.keys, {.kv_heads = 1, .vocabulary = 65024});
  spec.keys.mlp_width.names = {"ffn_hidden_size"};
  spec.keys.max_positions = {{"max_position_embeddings"}, 2048};
  spec.keys.activation = {{"activation"}, "gelu"};
  spec.parallel = true;
  spec.alibi.reset();
  spec.rotary = RotarySpec{};
  spec.variants = {{"multi_query", false, true,
                    [](FamilySpec& row) {
                      pack_falcon(row.layer, Packing::by_head);
                      row.keys.kv_heads = {};
                    }},
                   {"new_decoder_architecture", true, false,
                    [](FamilySpec& row) {
                      pack_falcon(row.layer, Packing::by_key_head);
                      row.keys.kv_heads = {{"num_kv_heads", "n_head_kv"}, {}};
                      row.layer.attention_norm = layer_norm("ln_attn");
                      row.layer.mlp_norm = layer_norm("ln_mlp");
                    }},
                   {"num_ln_in_parallel_attn",
                    1,
                    {},
                    [](FamilySpec& row) {
                      row.layer.attention_norm = row.layer.mlp_norm = layer_norm("input_layernorm");
                    }},
                   {"parallel_attn", false, true,
                    [](FamilySpec& row) {
                      row.parallel = false;
                      row.layer.mlp_norm = layer_norm("post_attention_layernorm");
                    }},
                   {"alibi", true, false, [](FamilySpec& row) {
                      row.rotary.reset();
                      row.alibi.emplace().rounded = true;
                    }}};
}

void mpt(FamilySpec& spec) {
  spec.layer_prefixes = {"blocks.{}."};
  set_packed(spec.layer, packed_linear("attn.Wqkv", Packing::query_key_value));
  spec.layer.output = linear("attn.out_proj");
  spec.layer.attention_norm = norm_without_bias("norm_1");
  spec.layer.mlp_norm = norm_without_bias("norm_2");
  spec.layer.mlp = {linear("ffn.up_proj"), linear("ffn.down_proj")};
  remove_biases(spec.layer);
  spec.embedding = {.token = {"wte.weight"}};
  spec.final_norm = norm_without_bias("norm_f");
  spec.keys.d_model = {{"d_model", "hidden_size"}, {}};
  spec.keys.layers = {{"n_layers", "num_hidden_layers"}, {}};
  spec.keys.heads = {{"n_heads", "num_attention_heads"}, {}};
  spec.keys.vocabulary.default_value = 50368;
  spec.keys.max_positions = {{"max_seq_len"}, 2048};
  spec.keys.activation.default_value = "gelu";
  spec.keys.scale.names = {"attn_config/softmax_scale"};
  spec.keys.clip.names = {"attn_config/clip_qkv"};
  spec.alibi->from_last = true;
  spec.embedding_config.counts_visible = false;
  spec.variants = {};
}

}  // namespace

std::vector<FamilyRow> decoder_families() {
  return {{"gpt_neox", "", gpt_neox},   {"gpt2", "", gpt2},           {"gpt_bigcode", "gpt2", gpt_bigcode},
          {"gpt_neo", "gpt2", gpt_neo}, {"gptj", "gpt2", gptj},       {"codegen", "gptj", codegen},
          {"opt", "gpt2", opt},         {"bloom", "gpt_neox", bloom}, {"falcon", "bloom", falcon},
          {"mpt", "bloom", mpt}};
}

}  // namespace attnctl::model
