#include "model/families/family_parts.hpp"

namespace attnctl {
namespace {

/// BERT with the scores by distance of T5; positions are counted past 1, whatever /pad_token_id says.
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
  spec.keys.vocabulary.otherwise = 30527;
  spec.keys.token_types = {};
  spec.keys.padding = {{}, 1};
  spec.keys.causal_if = "";
  spec.requirements = {};
  return spec;
}

/// Pre-norm, with rotary or learned positions; what masked tokens in training is left out.
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
  spec.keys.max_positions.otherwise = 1026;
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

/// Disentangled attention; positions may be added to the embeddings as well.
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
                                             .shares = true};
  spec.stack.convolution = ConvolutionSpec{linear("encoder.conv.conv"), layer_norm("encoder.conv.LayerNorm")};
  spec.embedding.projection = linear_without_bias("embeddings.embed_proj");
  spec.embedding.projection.weight_presence = {.rule = Presence::Rule::width_differs};
  spec.projected_first = true;
  spec.zero_hidden = true;
  HeadSpec& head = *spec.head;  // or one that was trained as the original has it
  head.transform.weight.push_back({"lm_predictions.lm_head.dense.weight"});
  head.transform.bias.push_back({"lm_predictions.lm_head.dense.bias"});
  head.transform_norm.gain.emplace_back("lm_predictions.lm_head.LayerNorm.weight");
  head.transform_norm.bias.emplace_back("lm_predictions.lm_head.LayerNorm.bias");
  head.decoder.bias.push_back({"lm_predictions.lm_head.bias"});
  spec.keys.d_head = {{"attention_head_size"}, {}};
  spec.keys.mlp_width.otherwise = 6144;
  spec.keys.embedding = {{"embedding_size"}, {}};
  spec.keys.vocabulary.otherwise = 128100;
  spec.keys.token_types.otherwise = 0;
  spec.keys.norm_eps_otherwise = 1e-7;
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
  spec.keys.mlp_width.otherwise = 3072;
  spec.keys.vocabulary.otherwise = 50265;
  spec.requirements = {{"talking_head", {false}}};
  return spec;
}

/// Pre-norm with gated MLP; most layers see a window, and turn otherwise than those that see all.
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
  spec.head->decoder.bias_presence.otherwise = true;
  spec.head->decoder.weight_presence = {.rule = Presence::Rule::stored};
  spec.keys = {.d_model = {{"hidden_size"}, {}},
               .layers = {{"num_hidden_layers"}, {}},
               .heads = {{"num_attention_heads"}, {}},
               .mlp_width = {{"intermediate_size"}, 1152},
               .vocabulary = {{"vocab_size"}, 50368},
               .max_positions = {{"max_position_embeddings"}, 8192},
               .norm_eps = {"norm_eps"},
               .activation = {"hidden_activation"},
               .norm_eps_otherwise = 1e-5,
               .activation_otherwise = "gelu"};
  spec.norm = NormKind::layer;
  spec.place = NormPlace::pre;
  spec.rotary = RotarySpec{.theta = 160000,
                           .theta_names = {"global_rope_theta"},
                           .sliding = SlidingRotarySpec{"local_rope_theta", 10000, true}};
  spec.window = {.size = "local_attention",
                 .otherwise = 128,
                 .layer_types = "layer_types",
                 .period = {"global_attn_every_n_layers"},
                 .period_otherwise = 3,
                 .full_first = true,
                 .both_sides = true};
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

}  // namespace

std::vector<FamilySpec> encoder_families_of_distances() {
  return {deberta(), deberta_v2(), esm(), modernbert(), mpnet()};
}

}  // namespace attnctl
