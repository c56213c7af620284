#include "model/families/family_parts.hpp"

// Encoders of text and images.
namespace attnctl {
namespace {

FamilySpec bert() {
  FamilySpec spec;
  spec.name = "bert";
  spec.prefixes = {"bert.", ""};
  spec.stack = {.prefixes = {"encoder.layer.{}."},
                .layer = {.query = linear("attention.self.query"),
                          .key = linear("attention.self.key"),
                          .value = linear("attention.self.value"),
                          .output = linear("attention.output.dense"),
                          .attention_norm = layer_norm("attention.output.LayerNorm"),
                          .mlp_norm = layer_norm("output.LayerNorm"),
                          .up = linear("intermediate.dense"),
                          .down = linear("output.dense")}};
  spec.embedding = {.token = {"embeddings.word_embeddings.weight"},
                    .position = {"embeddings.position_embeddings.weight"},
                    .token_type = {"embeddings.token_type_embeddings.weight"},
                    .norm = layer_norm("embeddings.LayerNorm")};
  spec.head = masked_token_head("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm",
                                "cls.predictions");
  spec.keys = common_keys(3072, 30522, 512);
  spec.keys.token_types = {{"type_vocab_size"}, 2};
  spec.keys.norm_eps = {"layer_norm_eps"};
  spec.keys.default_norm_eps = 1e-12;
  spec.keys.default_activation = "gelu";
  spec.keys.causal_if = "is_decoder";
  spec.norm = NormKind::layer;
  spec.place = NormPlace::post;
  spec.position = PositionKind::learned;
  spec.requirements = {{"position_embedding_type", {"absolute"}}, {"add_cross_attention", {false}}};
  return spec;
}

FamilySpec roberta() {
  FamilySpec spec = bert();
  spec.name = "roberta";
  spec.prefixes = {"roberta.", ""};
  spec.head = masked_token_head("lm_head.dense", "lm_head.layer_norm", "lm_head");
  spec.head->activation = "gelu";
  spec.keys.vocabulary.default_value = 50265;
  spec.keys.padding = {{"pad_token_id"}, 1};
  return spec;
}

FamilySpec albert() {
  FamilySpec spec = bert();
  spec.name = "albert";
  spec.prefixes = {"albert.", ""};
  spec.stack = {.prefixes = {"encoder.albert_layer_groups.{}.albert_layers.0."},
                .numbering = Numbering::by_group,
                .layer = {.query = linear("attention.query"),
                          .key = linear("attention.key"),
                          .value = linear("attention.value"),
                          .output = linear("attention.dense"),
                          .attention_norm = layer_norm("attention.LayerNorm"),
                          .mlp_norm = layer_norm("full_layer_layer_norm"),
                          .up = linear("ffn"),
                          .down = linear("ffn_output")}};
  spec.embedding.projection = linear("encoder.embedding_hidden_mapping_in");
  spec.head = masked_token_head("predictions.dense", "predictions.LayerNorm", "predictions");
  spec.keys.mlp_width.default_value = 16384;
  spec.keys.embedding = {{"embedding_size"}, 128};
  spec.keys.vocabulary.default_value = 30000;
  spec.keys.groups = {{"num_hidden_groups"}, 1};
  spec.keys.default_activation = "gelu_new";
  spec.keys.causal_if = "";
  spec.requirements = {{"position_embedding_type", {"absolute"}}, {"inner_group_num", {1}}};
  return spec;
}

FamilySpec xlm_roberta() {
  FamilySpec spec = roberta();
  spec.name = "xlm-roberta";
  spec.keys.vocabulary.default_value = 30522;
  return spec;
}

FamilySpec electra() {
  FamilySpec spec = bert();
  spec.name = "electra";
  spec.prefixes = {"electra.", ""};
  spec.embedding.projection = linear("embeddings_project");
  spec.embedding.projection.weight_presence = {.rule = Presence::Rule::width_differs};
  spec.embedding.projection.bias_presence = {.rule = Presence::Rule::width_differs};
  spec.head = masked_token_head("generator_predictions.dense", "generator_predictions.LayerNorm",
                                "generator_lm_head");
  spec.head->decoder.weight = {{"generator_lm_head.weight"}};
  spec.head->decoder.bias = {{"generator_lm_head.bias"}};
  spec.head->activation = "gelu";
  spec.keys.mlp_width.default_value = 1024;
  spec.keys.embedding = {{"embedding_size"}, 128};
  return spec;
}

FamilySpec distilbert() {
  FamilySpec spec = bert();
  spec.name = "distilbert";
  spec.prefixes = {"distilbert.", ""};
  spec.stack = {.prefixes = {"transformer.layer.{}."},
                .layer = {.query = linear("attention.q_lin"),
                          .key = linear("attention.k_lin"),
                          .value = linear("attention.v_lin"),
                          .output = linear("attention.out_lin"),
                          .attention_norm = layer_norm("sa_layer_norm"),
                          .mlp_norm = layer_norm("output_layer_norm"),
                          .up = linear("ffn.lin1"),
                          .down = linear("ffn.lin2")}};
  spec.embedding.token_type = {};
  spec.head = masked_token_head("vocab_transform", "vocab_layer_norm", "");
  spec.head->decoder.weight = {{"vocab_projector.weight"}};
  spec.head->decoder.bias = {{"vocab_projector.bias"}};
  spec.keys.d_model.names = {"dim", "hidden_size"};
  spec.keys.layers.names = {"n_layers", "num_hidden_layers"};
  spec.keys.heads.names = {"n_heads", "num_attention_heads"};
  spec.keys.mlp_width.names = {"hidden_dim"};
  spec.keys.token_types = {};
  spec.keys.norm_eps = {};
  spec.keys.activation = {"activation"};
  spec.keys.causal_if = "";
  spec.requirements = {};
  return spec;
}

/// RoBERTa with T5's position bias. Positions start after row 1 regardless of /pad_token_id.
FamilySpec mpnet() {
  FamilySpec spec = roberta();
  spec.name = "mpnet";
  spec.prefixes = {"mpnet.", ""};
  LayerSpec& layer = spec.stack.layer;
  layer.query = linear("attention.attn.q");
  layer.key = linear("attention.attn.k");
  layer.value = linear("attention.attn.v");
  layer.output = linear("attention.attn.o");
  layer.attention_norm = layer_norm("attention.LayerNorm");
  spec.stack.relative = {.table = {"encoder.relative_attention_bias.weight"},
                         .buckets = {{}, 32},
                         .max_distance = {{}, 128},
                         .rows = {{"relative_attention_num_buckets"}, 32}};
  spec.embedding.token_type = {};
  spec.keys.vocabulary.default_value = 30527;
  spec.keys.token_types = {};
  spec.keys.padding = {{}, 1};
  spec.keys.causal_if = "";
  spec.requirements = {};
  return spec;
}

/// Pre-norm with rotary or learned positions, and token dropout.
FamilySpec esm() {
  FamilySpec spec = roberta();
  spec.name = "esm";
  spec.prefixes = {"esm.", ""};
  spec.stack.layer.attention_norm = layer_norm("attention.LayerNorm");
  spec.stack.layer.mlp_norm = layer_norm("LayerNorm");
  spec.embedding.token_type = {};
  spec.embedding.norm = layer_norm("embeddings.layer_norm");
  spec.final_norm = layer_norm("encoder.emb_layer_norm_after");
  spec.keys.vocabulary = {{"vocab_size"}, {}};
  spec.keys.max_positions.default_value = 1026;
  spec.keys.token_types = {};
  spec.keys.activation = {};
  spec.place = NormPlace::pre;
  spec.zero_hidden = true;
  spec.token_dropout = TokenDropoutSpec{"token_dropout", "mask_token_id", 0.88};
  spec.requirements = {{"position_embedding_type", {"absolute", "rotary"}},
                       {"add_cross_attention", {false}},
                       {"is_folding_model", {false}}};
  spec.variants = {{"emb_layer_norm_before", false, false, [](FamilySpec& row) { row.embedding.norm = {}; }},
                   {"position_embedding_type", "rotary", "absolute", [](FamilySpec& row) {
                      row.position = PositionKind::none;
                      row.embedding.position = {};
                      row.keys.padding = {};
                      row.rotary =
                          RotarySpec{.stored = {"rotary_embeddings.inv_freq",
                                                "encoder.layer.*.attention.self.rotary_embeddings.inv_freq",
                                                "encoder.layer.0.attention.self.rotary_embeddings.inv_freq"}};
                    }}};
  return spec;
}

/// Disentangled attention; positions may also be added to the embeddings.
FamilySpec deberta_v2() {
  FamilySpec spec = bert();
  spec.name = "deberta-v2";
  spec.prefixes = {"deberta.", ""};
  LayerSpec& layer = spec.stack.layer;
  layer.query = linear("attention.self.query_proj");
  layer.key = linear("attention.self.key_proj");
  layer.value = linear("attention.self.value_proj");
  spec.stack.disentangled = DisentangledSpec{.table = {"encoder.rel_embeddings.weight"},
                                             .norm = layer_norm("encoder.LayerNorm"),
                                             .key = linear("attention.self.pos_key_proj"),
                                             .query = linear("attention.self.pos_query_proj"),
                                             .buckets = true,
                                             .may_share_content = true};
  spec.stack.convolution = ConvolutionSpec{linear("encoder.conv.conv"), layer_norm("encoder.conv.LayerNorm")};
  spec.embedding.projection = linear_if_width_differs("embeddings.embed_proj");
  spec.projected_first = true;
  spec.zero_hidden = true;
  HeadSpec& head = *spec.head;  // also stored under the names of the original code
  head.transform.weight.push_back({"lm_predictions.lm_head.dense.weight"});
  head.transform.bias.push_back({"lm_predictions.lm_head.dense.bias"});
  head.transform_norm.gain.emplace_back("lm_predictions.lm_head.LayerNorm.weight");
  head.transform_norm.bias.emplace_back("lm_predictions.lm_head.LayerNorm.bias");
  head.decoder.bias.push_back({"lm_predictions.lm_head.bias"});
  spec.keys.d_head = {{"attention_head_size"}, {}};
  spec.keys.mlp_width.default_value = 6144;
  spec.keys.embedding = {{"embedding_size"}, {}};
  spec.keys.vocabulary.default_value = 128100;
  spec.keys.token_types.default_value = 0;
  spec.keys.default_norm_eps = 1e-7;
  spec.keys.causal_if = "";
  spec.requirements = {};
  spec.variants = {{"position_biased_input", false, true, [](FamilySpec& row) {
                      row.position = PositionKind::none;
                      row.embedding.position = {};
                    }}};
  return spec;
}

FamilySpec deberta() {
  FamilySpec spec = deberta_v2();
  spec.name = "deberta";
  LayerSpec& layer = spec.stack.layer;
  const StoredTensor packed = {"attention.self.in_proj.weight", Axes::out_in, Packing::by_head};
  layer.query = {.weight = {packed}, .bias = {{"attention.self.q_bias"}}};
  layer.key = {.weight = {packed}};
  layer.value = {.weight = {packed}, .bias = {{"attention.self.v_bias"}}};
  spec.stack.disentangled = DisentangledSpec{.table = {"encoder.rel_embeddings.weight"},
                                             .key = linear_without_bias("attention.self.pos_proj"),
                                             .query = linear("attention.self.pos_q_proj")};
  spec.stack.convolution.reset();
  spec.keys.d_head = {};
  spec.keys.mlp_width.default_value = 3072;
  spec.keys.vocabulary.default_value = 50265;
  spec.requirements = {{"talking_head", {false}}};
  return spec;
}

/// Pre-norm with a gated MLP. Most layers have a window, with other rotary parameters than global layers.
FamilySpec modernbert() {
  FamilySpec spec;
  spec.name = "modernbert";
  spec.prefixes = {"model.", ""};
  const LinearSpec packed = linear_with_bias_if("attn.Wqkv", "attention_bias", Packing::query_key_value);
  const LinearSpec inner = linear_with_bias_if("mlp.Wi", "mlp_bias", Packing::gate_up);
  spec.stack = {.prefixes = {"layers.{}."},
                .layer = {.query = packed,
                          .key = packed,
                          .value = packed,
                          .output = linear_with_bias_if("attn.Wo", "attention_bias"),
                          .attention_norm = layer_norm("attn_norm"),
                          .mlp_norm = layer_norm("mlp_norm"),
                          .first_attention_normed = false,
                          .up = inner,
                          .gate = inner,
                          .down = linear_with_bias_if("mlp.Wo", "mlp_bias")}};
  spec.embedding = {.token = {"embeddings.tok_embeddings.weight"}, .norm = layer_norm("embeddings.norm")};
  spec.final_norm = layer_norm("final_norm");
  spec.head = HeadSpec{.transform = linear_with_bias_if("head.dense", "classifier_bias"),
                       .activation = "gelu",
                       .activation_key = "classifier_activation",
                       .transform_norm = layer_norm("head.norm"),
                       .decoder = linear_with_bias_if("decoder", "decoder_bias")};
  spec.head->decoder.bias_presence.default_value = true;
  spec.head->decoder.weight_presence = {.rule = Presence::Rule::stored};
  spec.keys = common_keys(1152, 50368, 8192);
  spec.keys.norm_eps = {"norm_eps"};
  spec.keys.activation = {"hidden_activation"};
  spec.keys.default_norm_eps = 1e-5;
  spec.keys.default_activation = "gelu";
  spec.norm = NormKind::layer;
  spec.place = NormPlace::pre;
  spec.rotary = RotarySpec{.theta = 160000,
                           .theta_names = {"global_rope_theta"},
                           .sliding = SlidingRotarySpec{"local_rope_theta", 10000, true}};
  spec.window = {.size = "local_attention",
                 .default_size = 128,
                 .layer_types = "layer_types",
                 .period = {{"global_attn_every_n_layers"}, 3},
                 .full_first = true,
                 .two_sided = true};
  spec.variants = {{"norm_bias", false, false, [](FamilySpec& row) {
                      LayerSpec& layer = row.stack.layer;
                      for (NormSpec* const norm :
                           {&layer.attention_norm, &layer.mlp_norm, &row.embedding.norm, &row.final_norm,
                            &row.head->transform_norm}) {
                        norm->bias.clear();
                      }
                    }}};
  return spec;
}

/// A linear layer with a current name and the one of older checkpoints.
LinearSpec either(const std::string& name, const std::string& old) {
  LinearSpec spec = linear(name);
  spec.weight.push_back({old + ".weight"});
  spec.bias.push_back({old + ".bias"});
  return spec;
}

LinearSpec vit_projection(const std::string& name, const std::string& old) {
  LinearSpec spec = either(name, old);
  spec.bias_presence = {.rule = Presence::Rule::configured, .key = "qkv_bias", .default_value = true};
  return spec;
}

FamilySpec vit() {
  FamilySpec spec;
  spec.name = "vit";
  spec.prefixes = {"vit.", ""};
  spec.stack = {.prefixes = {"encoder.layer.{}.", "layers.{}."},
                .layer = {.query = vit_projection("attention.q_proj", "attention.attention.query"),
                          .key = vit_projection("attention.k_proj", "attention.attention.key"),
                          .value = vit_projection("attention.v_proj", "attention.attention.value"),
                          .output = either("attention.o_proj", "attention.output.dense"),
                          .attention_norm = layer_norm("layernorm_before"),
                          .mlp_norm = layer_norm("layernorm_after"),
                          .up = either("mlp.fc1", "intermediate.dense"),
                          .down = either("mlp.fc2", "output.dense")}};
  spec.embedding = {.position = {"embeddings.position_embeddings"},
                    .class_token = {"embeddings.cls_token"},
                    .patches = linear("embeddings.patch_embeddings.projection")};
  spec.final_norm = layer_norm("layernorm");
  spec.keys = {.d_model = {{"hidden_size"}, 768},
               .layers = {{"num_hidden_layers"}, 12},
               .heads = {{"num_attention_heads"}, 12},
               .d_head = {{"head_dim"}, {}},
               .mlp_width = {{"intermediate_size"}, 3072},
               .channels = {{"num_channels"}, 3},
               .image = {{"image_size"}, 224},
               .patch = {{"patch_size"}, 16},
               .norm_eps = {"layer_norm_eps"},
               .activation = {"hidden_act"},
               .default_norm_eps = 1e-12,
               .default_activation = "gelu"};
  spec.norm = NormKind::layer;
  spec.place = NormPlace::pre;
  spec.position = PositionKind::learned;
  return spec;
}

}  // namespace

std::vector<FamilySpec> encoder_families() {
  return {albert(), bert(),       deberta(), deberta_v2(), distilbert(), electra(),
          esm(),    modernbert(), mpnet(),   roberta(),    vit(),        xlm_roberta()};
}

}  // namespace attnctl
