#include "model/families/family_parts.hpp"

// Encoders of text and images, and encoder-decoder models.
namespace attnctl::model {
namespace {

void bert(FamilySpec& spec) {
  spec.prefixes = {"bert.", ""};
  spec.layer_prefixes = {"encoder.layer.{}."};
  spec.layer = plain_layer(linear,
                           {"attention.self.query", "attention.self.key", "attention.self.value",
                            "attention.output.dense", "intermediate.dense", "output.dense"},
                           layer_norm("attention.output.LayerNorm"), layer_norm("output.LayerNorm"));
  spec.embedding = {.token = {"embeddings.word_embeddings.weight"},
                    .position = {"embeddings.position_embeddings.weight"},
                    .token_type = {"embeddings.token_type_embeddings.weight"},
                    .norm = layer_norm("embeddings.LayerNorm")};
  spec.head = masked_token_head("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm",
                                "cls.predictions.decoder", "cls.predictions.bias");
  spec.keys = common_keys(3072, 30522, 512, {{"layer_norm_eps"}, 1e-12}, "gelu");
  spec.keys.token_types = {{"type_vocab_size"}, 2};
  spec.keys.causal_if = "is_decoder";
  spec.place = NormPlace::post;
  spec.embedding_config.position = PositionKind::learned;
  spec.requirements = {{"position_embedding_type", {"absolute"}}, {"add_cross_attention", {false}}};
}

void roberta(FamilySpec& spec) {
  spec.prefixes = {"roberta.", ""};
  spec.head = masked_token_head("lm_head.dense", "lm_head.layer_norm", "lm_head.decoder", "lm_head.bias");
  spec.head->activation.default_value = "gelu";
  spec.keys.vocabulary.default_value = 50265;
  spec.keys.padding = {{"pad_token_id"}, 1};
}

void albert(FamilySpec& spec) {
  spec.prefixes = {"albert.", ""};
  spec.layer_prefixes = {"encoder.albert_layer_groups.{}.albert_layers.0."};
  spec.layer = plain_layer(
      linear, {"attention.query", "attention.key", "attention.value", "attention.dense", "ffn", "ffn_output"},
      layer_norm("attention.LayerNorm"), layer_norm("full_layer_layer_norm"));
  spec.embedding.projection = linear("encoder.embedding_hidden_mapping_in");
  spec.head = masked_token_head("predictions.dense", "predictions.LayerNorm", "predictions.decoder",
                                "predictions.bias");
  set_defaults(spec.keys, {.mlp_width = 16384, .vocabulary = 30000});
  spec.keys.embedding = {{"embedding_size"}, 128};
  spec.keys.groups = {{"num_hidden_groups"}, 1};
  spec.keys.activation.default_value = "gelu_new";
  spec.keys.causal_if = "";
  spec.requirements = {{"position_embedding_type", {"absolute"}}, {"inner_group_num", {1}}};
}

void electra(FamilySpec& spec) {
  spec.prefixes = {"electra.", ""};
  spec.embedding.projection = linear("embeddings_project");
  spec.embedding.projection.if_width_differs = true;
  spec.head = masked_token_head("generator_predictions.dense", "generator_predictions.LayerNorm",
                                "generator_lm_head");
  spec.head->activation.default_value = "gelu";
  spec.keys.mlp_width.default_value = 1024;
  spec.keys.embedding = {{"embedding_size"}, 128};
}

void distilbert(FamilySpec& spec) {
  spec.prefixes = {"distilbert.", ""};
  spec.layer_prefixes = {"transformer.layer.{}."};
  spec.layer = plain_layer(
      linear,
      {"attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin", "ffn.lin1", "ffn.lin2"},
      layer_norm("sa_layer_norm"), layer_norm("output_layer_norm"));
  spec.head = masked_token_head("vocab_transform", "vocab_layer_norm", "vocab_projector");
  spec.keys.d_model.names = {"dim", "hidden_size"};
  spec.keys.layers.names = {"n_layers", "num_hidden_layers"};
  spec.keys.heads.names = {"n_heads", "num_attention_heads"};
  spec.keys.mlp_width.names = {"hidden_dim"};
  spec.keys.token_types = {};
  spec.keys.norm_eps.names = {};
  spec.keys.activation.names = {"activation"};
  spec.keys.causal_if = "";
  spec.requirements = {};
}

/// MPNet is like RoBERTa, but has the position bias of T5. Positions start at row 2 of the table, whatever
/// /pad_token_id is.
void mpnet(FamilySpec& spec) {
  spec.prefixes = {"mpnet.", ""};
  set_projections(spec.layer, linear,
                  {"attention.attn.q", "attention.attn.k", "attention.attn.v", "attention.attn.o"});
  spec.layer.attention_norm = layer_norm("attention.LayerNorm");
  spec.relative = {.table = {"encoder.relative_attention_bias.weight"},
                   .buckets = {{}, 32},
                   .max_distance = {{}, 128},
                   .rows = {{"relative_attention_num_buckets"}, 32}};
  spec.keys.vocabulary.default_value = 30527;
  spec.keys.token_types = {};
  spec.keys.padding = {{}, 1};
  spec.keys.causal_if = "";
  spec.requirements = {};
}

void esm(FamilySpec& spec) {
  spec.prefixes = {"esm.", ""};
  spec.layer.attention_norm = layer_norm("attention.LayerNorm");
  spec.layer.mlp_norm = layer_norm("LayerNorm");
  spec.embedding.norm = layer_norm("embeddings.layer_norm");
  spec.final_norm = layer_norm("encoder.emb_layer_norm_after");
  spec.keys.vocabulary = {{"vocab_size"}, {}};
  spec.keys.max_positions.default_value = 1026;
  spec.keys.token_types = {};
  spec.keys.activation.names = {};
  spec.place = NormPlace::pre;
  spec.embedding_config.zero_hidden = true;
  spec.embedding_config.dropout = TokenDropout{.kept = 0.88};
  spec.requirements = {{"position_embedding_type", {"absolute", "rotary"}},
                       {"add_cross_attention", {false}},
                       {"is_folding_model", {false}}};
  spec.variants = {{"emb_layer_norm_before", false, false, [](FamilySpec& row) { row.embedding.norm = {}; }},
                   {"position_embedding_type", "rotary", "absolute", [](FamilySpec& row) {
                      row.embedding_config.position = PositionKind::none;
                      row.keys.padding = {};
                      row.rotary =
                          RotarySpec{.stored = {"rotary_embeddings.inv_freq",
                                                "encoder.layer.*.attention.self.rotary_embeddings.inv_freq",
                                                "encoder.layer.0.attention.self.rotary_embeddings.inv_freq"}};
                    }}};
}

void deberta_v2(FamilySpec& spec) {
  spec.prefixes = {"deberta.", ""};
  set_projections(spec.layer, linear,
                  {"attention.self.query_proj", "attention.self.key_proj", "attention.self.value_proj"});
  spec.disentangled = DisentangledSpec{.table = {"encoder.rel_embeddings.weight"},
                                       .norm = layer_norm("encoder.LayerNorm"),
                                       .key = linear("attention.self.pos_key_proj"),
                                       .query = linear("attention.self.pos_query_proj"),
                                       .has_options = true};
  spec.convolution = ConvolutionSpec{linear("encoder.conv.conv"), layer_norm("encoder.conv.LayerNorm")};
  spec.embedding.projection = linear_if_width_differs("embeddings.embed_proj");
  spec.embedding_config.projected_first = true;
  spec.embedding_config.zero_hidden = true;
  HeadSpec& head = *spec.head;  // alternatives: the names in the original code
  head.transform.weight.push_back({"lm_predictions.lm_head.dense.weight"});
  head.transform.bias.push_back({"lm_predictions.lm_head.dense.bias"});
  head.transform_norm.gain.emplace_back("lm_predictions.lm_head.LayerNorm.weight");
  head.transform_norm.bias.emplace_back("lm_predictions.lm_head.LayerNorm.bias");
  head.decoder.bias.push_back({"lm_predictions.lm_head.bias"});
  spec.keys.d_head = {{"attention_head_size"}, {}};
  set_defaults(spec.keys, {.mlp_width = 6144, .vocabulary = 128100});
  spec.keys.embedding = {{"embedding_size"}, {}};
  spec.keys.token_types.default_value = 0;
  spec.keys.norm_eps.default_value = 1e-7;
  spec.keys.causal_if = "";
  spec.requirements = {};
  spec.variants = {{"position_biased_input", false, true,
                    [](FamilySpec& row) { row.embedding_config.position = PositionKind::none; }}};
}

void deberta(FamilySpec& spec) {
  const StoredTensor packed = {"attention.self.in_proj.weight", Axes::out_in, Packing::by_head};
  spec.layer.query = {.weight = {packed}, .bias = {{"attention.self.q_bias"}}};
  spec.layer.key = {.weight = {packed}};
  spec.layer.value = {.weight = {packed}, .bias = {{"attention.self.v_bias"}}};
  spec.disentangled = DisentangledSpec{.table = {"encoder.rel_embeddings.weight"},
                                       .key = linear_without_bias("attention.self.pos_proj"),
                                       .query = linear("attention.self.pos_q_proj")};
  spec.convolution.reset();
  spec.keys.d_head = {};
  set_defaults(spec.keys, {.mlp_width = 3072, .vocabulary = 50265});
  spec.requirements = {{"talking_head", {false}}};
}

void modernbert(FamilySpec& spec) {
  spec.prefixes = {"model.", ""};
  spec.layer_prefixes = {"layers.{}."};
  LayerSpec& layer = spec.layer;
  set_packed(layer, linear_with_bias_if("attn.Wqkv", "attention_bias", false, Packing::query_key_value));
  layer.output = linear_with_bias_if("attn.Wo", "attention_bias");
  layer.attention_norm = layer_norm("attn_norm");
  layer.mlp_norm = layer_norm("mlp_norm");
  layer.first_attention_normed = false;
  layer.mlp.gate = layer.mlp.up = linear_with_bias_if("mlp.Wi", "mlp_bias", false, Packing::gate_up);
  layer.mlp.down = linear_with_bias_if("mlp.Wo", "mlp_bias");
  spec.embedding = {.token = {"embeddings.tok_embeddings.weight"}, .norm = layer_norm("embeddings.norm")};
  spec.final_norm = layer_norm("final_norm");
  spec.head = HeadSpec{.transform = linear_with_bias_if("head.dense", "classifier_bias"),
                       .activation = {{"classifier_activation"}, "gelu"},
                       .transform_norm = layer_norm("head.norm"),
                       .decoder = linear_with_bias_if("decoder", "decoder_bias", true)};
  spec.keys = common_keys(1152, 50368, 8192, {{"norm_eps"}, 1e-5}, "gelu");
  spec.keys.activation.names = {"hidden_activation"};
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
                      for (NormSpec* const norm :
                           {&row.layer.attention_norm, &row.layer.mlp_norm, &row.embedding.norm,
                            &row.final_norm, &row.head->transform_norm}) {
                        norm->bias.clear();
                      }
                    }}};
}

/// Returns a linear layer with its current name, or its name in older checkpoints.
LinearSpec either(const std::string& name, const std::string& old) {
  LinearSpec spec = linear(name);
  spec.weight.push_back({old + ".weight"});
  spec.bias.push_back({old + ".bias"});
  return spec;
}

void vit(FamilySpec& spec) {
  spec.prefixes = {"vit.", ""};
  spec.layer_prefixes = {"encoder.layer.{}.", "layers.{}."};
  spec.layer = {.query = either("attention.q_proj", "attention.attention.query"),
                .key = either("attention.k_proj", "attention.attention.key"),
                .value = either("attention.v_proj", "attention.attention.value"),
                .output = either("attention.o_proj", "attention.output.dense"),
                .attention_norm = layer_norm("layernorm_before"),
                .mlp_norm = layer_norm("layernorm_after"),
                .mlp = {either("mlp.fc1", "intermediate.dense"), either("mlp.fc2", "output.dense")}};
  for (LinearSpec* one : {&spec.layer.query, &spec.layer.key, &spec.layer.value}) {
    one->bias_if = "qkv_bias";
    one->bias_default = true;
  }
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
               .norm_eps = {{"layer_norm_eps"}, 1e-12},
               .activation = {{"hidden_act"}, "gelu"}};
  spec.embedding_config.position = PositionKind::learned;
}

LayerSpec bart_attention(const std::string& name) {
  return plain_layer(linear, {name + ".q_proj", name + ".k_proj", name + ".v_proj", name + ".out_proj"},
                     layer_norm(name + "_layer_norm"), {});
}

LayerSpec bart_layer(const std::string& name) {
  LayerSpec layer = bart_attention(name);
  layer.mlp_norm = layer_norm("final_layer_norm");
  layer.mlp = {linear("fc1"), linear("fc2")};
  return layer;
}

/// Returns the embedding tables of one stack. The token table is the first of these that is stored: that of
/// the stack, the shared one, that of the encoder, that of the decoder.
EmbeddingSpec bart_embedding(const std::string& stack) {
  return {.token = {stack + ".embed_tokens.weight", "shared.weight", "encoder.embed_tokens.weight",
                    "decoder.embed_tokens.weight"},
          .position = {stack + ".embed_positions.weight"},
          .norm = layer_norm(stack + ".layernorm_embedding")};
}

void bart(FamilySpec& spec) {
  spec.prefixes = {"model.", ""};
  spec.layer_prefixes = {"encoder.layers.{}."};
  spec.layer = bart_layer("self_attn");
  spec.embedding = bart_embedding("encoder");
  spec.decoder = DecoderSpec{.prefix = "decoder.layers.{}.",
                             .self = bart_attention("self_attn"),
                             .cross = bart_layer("encoder_attn"),
                             .embedding = bart_embedding("decoder"),
                             .layers = {{"decoder_layers"}, 12},
                             .heads = {{"decoder_attention_heads"}, 16},
                             .mlp_width = {{"decoder_ffn_dim"}, 4096}};
  spec.head = plain_head("lm_head");
  spec.head->decoder.bias = {{"final_logits_bias", Axes::in_out_or_head}};
  spec.head->bias_if_stored = true;
  spec.keys = {.d_model = {{"d_model", "hidden_size"}, 1024},
               .layers = {{"encoder_layers", "num_hidden_layers"}, 12},
               .heads = {{"encoder_attention_heads", "num_attention_heads"}, 16},
               .mlp_width = {{"encoder_ffn_dim"}, 4096},
               .vocabulary = {{"vocab_size"}, 50265},
               .max_positions = {{"max_position_embeddings"}, 1024},
               .norm_eps = {{}, 1e-5},
               .activation = {{"activation_function"}, "gelu"}};
  spec.place = NormPlace::post;
  spec.embedding_config.position = PositionKind::learned;
  spec.embedding_config.position_offset = 2;
  spec.variants = {{.key = "scale_embedding", .value = true, .apply = [](FamilySpec& row) {
                      row.scale_embedding = true;
                    }}};
}

void mbart(FamilySpec& spec) {
  spec.place = NormPlace::pre;
  spec.final_norm = layer_norm("encoder.layer_norm");
  spec.decoder->final_norm = layer_norm("decoder.layer_norm");
}

void pegasus(FamilySpec& spec) {
  spec.embedding.norm = {};
  spec.decoder->embedding.norm = {};
  spec.embedding_config.position = PositionKind::sinusoidal_halves;
  spec.embedding_config.position_offset = 0;
}

void marian(FamilySpec& spec) {
  pegasus(spec);  // the same positions, and no norm of the embeddings
  spec.decoder->vocabulary = {{"decoder_vocab_size"}, {}};
  spec.decoder->shared_vocabulary = "share_encoder_decoder_embeddings";
  spec.keys.vocabulary.default_value = 58101;
}

LayerSpec t5_attention(const std::string& layer, const std::string& name) {
  const std::string prefix = layer + "." + name;
  return plain_layer(linear_without_bias, {prefix + ".q", prefix + ".k", prefix + ".v", prefix + ".o"},
                     norm_without_bias(layer + ".layer_norm"), {});
}

void add_t5_mlp(LayerSpec& spec, const std::string& layer) {
  spec.mlp_norm = norm_without_bias(layer + ".layer_norm");
  spec.mlp = {linear_without_bias(layer + ".DenseReluDense.wi"),
              linear_without_bias(layer + ".DenseReluDense.wo")};
}

/// Makes the MLPs gated, for configurations with "gated-ACTIVATION" in /feed_forward_proj.
void gate_t5(FamilySpec& row, const char* activation) {
  row.keys.activation = {{}, activation};
  for (const auto& [spec, layer] :
       {std::pair(&row.layer, std::string("layer.1")), {&row.decoder->cross, "layer.2"}}) {
    spec->mlp.gate = linear_without_bias(layer + ".DenseReluDense.wi_0");
    spec->mlp.up = linear_without_bias(layer + ".DenseReluDense.wi_1");
  }
}

/// T5 multiplies the logits by d_model^-0.5, or by 1 if /tie_word_embeddings is false. If the configuration
/// has /scale_decoder_outputs, this flag selects the factor instead (true: d_model^-0.5).
void leave_logits(FamilySpec& row) {
  row.keys.logit_multiplier = {.default_value = 1};
}
void scale_logits(FamilySpec& row) {
  row.keys.logit_multiplier = {.names = {"d_model"}, .conversion = NumberKey::Conversion::inverse_root};
}

void t5(FamilySpec& spec) {
  spec.prefixes = {""};
  const RelativeBucketSpec buckets = {
      .table = {"encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"},
      .buckets = {{"relative_attention_num_buckets"}, 32},
      .max_distance = {{"relative_attention_max_distance"}, 128}};
  spec.layer_prefixes = {"encoder.block.{}."};
  spec.layer = t5_attention("layer.0", "SelfAttention");
  spec.relative = buckets;
  add_t5_mlp(spec.layer, "layer.1");
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
               .norm_eps = {{"layer_norm_epsilon"}, 1e-6},
               .activation = {{"feed_forward_proj"}, "relu"},
               .scale = {.default_value = 1}};
  scale_logits(spec);
  spec.norm = NormKind::rms;
  spec.variants = {{"feed_forward_proj", "gated-gelu", {}, [](FamilySpec& row) { gate_t5(row, "gelu_new"); }},
                   {"feed_forward_proj", "gated-silu", {}, [](FamilySpec& row) { gate_t5(row, "silu"); }},
                   {"feed_forward_proj", "gated-relu", {}, [](FamilySpec& row) { gate_t5(row, "relu"); }},
                   {.key = "tie_word_embeddings", .value = false, .apply = leave_logits},
                   {.key = "scale_decoder_outputs", .value = true, .apply = scale_logits},
                   {.key = "scale_decoder_outputs", .value = false, .apply = leave_logits}};
}

}  // namespace

std::vector<FamilyRow> encoder_families() {
  // clang-format off
  return {{"bert", "", bert}, {"albert", "bert", albert}, {"electra", "bert", electra},
          {"distilbert", "bert", distilbert}, {"deberta-v2", "bert", deberta_v2},
          {"deberta", "deberta-v2", deberta}, {"roberta", "bert", roberta},
          {"mpnet", "roberta", mpnet}, {"esm", "roberta", esm},
          {"xlm-roberta", "roberta", [](FamilySpec& spec) { spec.keys.vocabulary.default_value = 30522; }},
          {"modernbert", "", modernbert}, {"vit", "", vit}, {"t5", "", t5}, {"bart", "", bart},
          {"mbart", "bart", mbart}, {"marian", "bart", marian}, {"pegasus", "mbart", pegasus}};
  // clang-format on
}

}  // namespace attnctl::model
