#include <utility>

#include <fmt/format.h>

#include "model/families/family_parts.hpp"

namespace attnctl {
namespace {

/// One attention of BART with its norm.
LayerSpec bart_attention(const std::string& name) {
  return {.query = linear(name + ".q_proj"),
          .key = linear(name + ".k_proj"),
          .value = linear(name + ".v_proj"),
          .output = linear(name + ".out_proj"),
          .attention_norm = layer_norm(name + "_layer_norm")};
}

/// The same with the MLP.
LayerSpec bart_layer(const std::string& name) {
  LayerSpec layer = bart_attention(name);
  layer.mlp_norm = layer_norm("final_layer_norm");
  layer.up = linear("fc1");
  layer.down = linear("fc2");
  return layer;
}

/// The tables of one stack: its own token table if stored, otherwise the shared one.
EmbeddingSpec bart_embedding(const std::string& stack) {
  return {.token = {stack + ".embed_tokens.weight", "shared.weight", "encoder.embed_tokens.weight",
                    "decoder.embed_tokens.weight"},
          .position = {stack + ".embed_positions.weight"}};
}

FamilySpec bart() {
  FamilySpec spec;
  spec.name = "bart";
  spec.prefixes = {"model.", ""};
  spec.stack = {.prefixes = {"encoder.layers.{}."}, .layer = bart_layer("self_attn")};
  spec.embedding = bart_embedding("encoder");
  spec.embedding.norm = layer_norm("encoder.layernorm_embedding");
  spec.decoder = DecoderSpec{.prefix = "decoder.layers.{}.",
                             .self = bart_attention("self_attn"),
                             .cross = bart_layer("encoder_attn"),
                             .embedding = bart_embedding("decoder"),
                             .layers = {{"decoder_layers"}, 12},
                             .heads = {{"decoder_attention_heads"}, 16},
                             .mlp_width = {{"decoder_ffn_dim"}, 4096}};
  spec.decoder->embedding.norm = layer_norm("decoder.layernorm_embedding");
  spec.head = plain_head("lm_head");
  spec.head->decoder.bias = {{"final_logits_bias", Axes::in_out_or_head}};
  spec.head->decoder.bias_presence = {.rule = Presence::Rule::stored};
  spec.keys = {.d_model = {{"d_model", "hidden_size"}, 1024},
               .layers = {{"encoder_layers", "num_hidden_layers"}, 12},
               .heads = {{"encoder_attention_heads", "num_attention_heads"}, 16},
               .mlp_width = {{"encoder_ffn_dim"}, 4096},
               .vocabulary = {{"vocab_size"}, 50265},
               .max_positions = {{"max_position_embeddings"}, 1024},
               .activation = {"activation_function"},
               .default_norm_eps = 1e-5,
               .default_activation = "gelu"};
  spec.norm = NormKind::layer;
  spec.place = NormPlace::post;
  spec.position = PositionKind::learned;
  spec.position_offset = 2;
  spec.variants = {{.key = "scale_embedding", .value = true, .apply = [](FamilySpec& row) {
                      row.scale_embedding = true;
                    }}};
  return spec;
}

/// Pre-norm, with a final norm in each stack.
FamilySpec mbart() {
  FamilySpec spec = bart();
  spec.name = "mbart";
  spec.place = NormPlace::pre;
  spec.final_norm = layer_norm("encoder.layer_norm");
  spec.decoder->final_norm = layer_norm("decoder.layer_norm");
  return spec;
}

/// Computed positions; source and target may have different vocabularies.
FamilySpec marian() {
  FamilySpec spec = bart();
  spec.name = "marian";
  spec.embedding.norm = {};
  spec.decoder->embedding.norm = {};
  spec.decoder->vocabulary = {{"decoder_vocab_size"}, {}};
  spec.decoder->shared_vocabulary = "share_encoder_decoder_embeddings";
  spec.keys.vocabulary.default_value = 58101;
  spec.position = PositionKind::sinusoidal_halves;
  spec.position_offset = 0;
  return spec;
}

FamilySpec pegasus() {
  FamilySpec spec = mbart();
  spec.name = "pegasus";
  spec.embedding.norm = {};
  spec.decoder->embedding.norm = {};
  spec.position = PositionKind::sinusoidal_halves;
  spec.position_offset = 0;
  return spec;
}

/// One attention of T5 with its norm.
LayerSpec t5_attention(const std::string& layer, const std::string& name) {
  return {.query = linear_without_bias(layer + "." + name + ".q"),
          .key = linear_without_bias(layer + "." + name + ".k"),
          .value = linear_without_bias(layer + "." + name + ".v"),
          .output = linear_without_bias(layer + "." + name + ".o"),
          .attention_norm = norm_without_bias(layer + ".layer_norm")};
}

void add_t5_mlp(LayerSpec& spec, const std::string& layer) {
  spec.mlp_norm = norm_without_bias(layer + ".layer_norm");
  spec.up = linear_without_bias(layer + ".DenseReluDense.wi");
  spec.down = linear_without_bias(layer + ".DenseReluDense.wo");
}

/// Makes the MLPs gated, for the values "gated-ACTIVATION" of /feed_forward_proj.
template <const char* activation>
void gate_t5(FamilySpec& row) {
  row.keys.activation = {};
  row.keys.default_activation = activation;
  for (const auto& [spec, layer] :
       {std::pair(&row.stack.layer, "layer.1"), {&row.decoder->cross, "layer.2"}}) {
    spec->gate = linear_without_bias(fmt::format("{}.DenseReluDense.wi_0", layer));
    spec->up = linear_without_bias(fmt::format("{}.DenseReluDense.wi_1", layer));
  }
}
constexpr char gelu_new[] = "gelu_new";
constexpr char silu[] = "silu";
constexpr char relu[] = "relu";

/// The two scales of T5's logits: 1, or d_model^-0.5 for tied heads. New configurations always tie the head
/// and say the scale in /scale_decoder_outputs.
void leave_logits(FamilySpec& row) {
  row.keys.logit_multiplier = {.default_value = 1};
}
void scale_logits(FamilySpec& row) {
  row.keys.logit_multiplier = {.names = {"d_model"}, .rule = NumberKey::Rule::inverse_root};
}

FamilySpec t5() {
  FamilySpec spec;
  spec.name = "t5";
  spec.prefixes = {""};
  const RelativeBucketSpec buckets = {
      .table = {"encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"},
      .buckets = {{"relative_attention_num_buckets"}, 32},
      .max_distance = {{"relative_attention_max_distance"}, 128}};
  spec.stack = {.prefixes = {"encoder.block.{}."},
                .layer = t5_attention("layer.0", "SelfAttention"),
                .relative = buckets};
  add_t5_mlp(spec.stack.layer, "layer.1");
  spec.embedding = {.token = {"shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"}};
  spec.final_norm = norm_without_bias("encoder.final_layer_norm");
  spec.decoder = DecoderSpec{.prefix = "decoder.block.{}.",
                             .self = t5_attention("layer.0", "SelfAttention"),
                             .cross = t5_attention("layer.1", "EncDecAttention"),
                             .relative = buckets,
                             .embedding = spec.embedding,
                             .final_norm = norm_without_bias("decoder.final_layer_norm"),
                             .layers = {{"num_decoder_layers", "num_layers", "num_hidden_layers"}, 6},
                             .heads = {{"num_heads", "num_attention_heads"}, 8},
                             .mlp_width = {{"d_ff"}, 2048}};
  spec.decoder->relative->table = {"decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"};
  spec.decoder->relative->bidirectional = false;
  add_t5_mlp(spec.decoder->cross, "layer.2");
  spec.head = plain_head("lm_head");
  spec.keys = {.d_model = {{"d_model", "hidden_size"}, 512},
               .layers = {{"num_layers", "num_hidden_layers"}, 6},
               .heads = {{"num_heads", "num_attention_heads"}, 8},
               .d_head = {{"d_kv", "head_dim"}, 64},
               .mlp_width = {{"d_ff"}, 2048},
               .vocabulary = {{"vocab_size"}, 32128},
               .norm_eps = {"layer_norm_epsilon"},
               .activation = {"feed_forward_proj"},
               .default_norm_eps = 1e-6,
               .default_activation = "relu",
               .scale = {.default_value = 1}};
  scale_logits(spec);
  spec.norm = NormKind::rms;
  spec.place = NormPlace::pre;
  spec.variants = {{.key = "feed_forward_proj", .value = "gated-gelu", .apply = gate_t5<gelu_new>},
                   {.key = "feed_forward_proj", .value = "gated-silu", .apply = gate_t5<silu>},
                   {.key = "feed_forward_proj", .value = "gated-relu", .apply = gate_t5<relu>},
                   {.key = "tie_word_embeddings", .value = false, .apply = leave_logits},
                   {.key = "scale_decoder_outputs", .value = true, .apply = scale_logits},
                   {.key = "scale_decoder_outputs", .value = false, .apply = leave_logits}};
  return spec;
}

}  // namespace

std::vector<FamilySpec> encoder_decoder_families() {
  return {bart(), marian(), mbart(), pegasus(), t5()};
}

}  // namespace attnctl
