#include "model/families/family_parts.hpp"

namespace attnctl {

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
  spec.keys = {.d_model = {{"hidden_size"}, {}},
               .layers = {{"num_hidden_layers"}, {}},
               .heads = {{"num_attention_heads"}, {}},
               .mlp_width = {{"intermediate_size"}, 3072},
               .vocabulary = {{"vocab_size"}, 30522},
               .max_positions = {{"max_position_embeddings"}, 512},
               .token_types = {{"type_vocab_size"}, 2},
               .norm_eps = {"layer_norm_eps"},
               .activation = {"hidden_act"},
               .norm_eps_otherwise = 1e-12,
               .activation_otherwise = "gelu",
               .causal_if = "is_decoder"};
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
  spec.keys.vocabulary.otherwise = 50265;
  spec.keys.padding = {{"pad_token_id"}, 1};
  return spec;
}

namespace {

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
  spec.keys.mlp_width.otherwise = 16384;
  spec.keys.embedding = {{"embedding_size"}, 128};
  spec.keys.vocabulary.otherwise = 30000;
  spec.keys.groups = {{"num_hidden_groups"}, 1};
  spec.keys.activation_otherwise = "gelu_new";
  spec.keys.causal_if = "";
  spec.requirements = {{"position_embedding_type", {"absolute"}}, {"inner_group_num", {1}}};
  return spec;
}

FamilySpec xlm_roberta() {
  FamilySpec spec = roberta();
  spec.name = "xlm-roberta";
  spec.keys.vocabulary.otherwise = 30522;
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
  spec.keys.mlp_width.otherwise = 1024;
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

}  // namespace

std::vector<FamilySpec> encoder_families() {
  return {albert(), bert(), distilbert(), electra(), roberta(), xlm_roberta()};
}

}  // namespace attnctl
