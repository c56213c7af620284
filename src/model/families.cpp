#include "attnctl/base/error.hpp"
#include "attnctl/model/family.hpp"

#include <algorithm>
#include <utility>

namespace attnctl {
namespace {

using Rule = Presence::Rule;

/// torch.nn.Linear `name`, always with a bias.
LinearSpec linear(const std::string& name) {
  return {.weight = {{name + ".weight"}}, .bias = {{name + ".bias"}}};
}

LinearSpec linear_with_bias_if(const std::string& name, const std::string& key) {
  LinearSpec spec = linear(name);
  spec.bias_presence = {.rule = Rule::configured, .key = key};
  return spec;
}

/// transformers' Conv1D `name`.
LinearSpec conv1d(const std::string& name, Packing packing = Packing::whole) {
  return {.weight = {{name + ".weight", Axes::in_out, packing}},
          .bias = {{name + ".bias", Axes::in_out, packing}}};
}

/// torch.nn.LayerNorm `name`, once saved as gamma and beta.
NormSpec layer_norm(const std::string& name) {
  return {.gain = {name + ".weight", name + ".gamma"}, .bias = {name + ".bias", name + ".beta"}};
}

NormSpec rms_norm(const std::string& name) {
  return {.gain = {name + ".weight"}};
}

/// A decoder without transform: the stored one, else the token embedding.
HeadSpec plain_head(const std::string& name) {
  return {.decoder = {.weight = {{name + ".weight"}}, .weight_presence = {.rule = Rule::stored}}};
}

/// A masked-token head; its bias is stored beside the decoder's, or as both.
HeadSpec masked_token_head(const std::string& dense, const std::string& norm,
                           const std::string& predictions) {
  return {.transform = linear(dense),
          .transform_norm = layer_norm(norm),
          .decoder = {.weight = {{predictions + ".decoder.weight"}},
                      .bias = {{predictions + ".decoder.bias"}, {predictions + ".bias"}},
                      .weight_presence = {.rule = Rule::stored}}};
}

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
               .unscaled_unless = "scale_attn_weights",
               .inverse_layer_if = "scale_attn_by_inverse_layer_idx"};
  spec.norm = NormKind::layer;
  spec.place = NormPlace::pre;
  spec.position = PositionKind::learned;
  spec.causal = true;
  spec.requirements = {{"add_cross_attention", {false}}};
  return spec;
}

FamilySpec llama() {
  FamilySpec spec;
  spec.name = "llama";
  spec.prefixes = {"model.", ""};
  spec.stack = {.prefixes = {"layers.{}."},
                .layer = {.query = linear_with_bias_if("self_attn.q_proj", "attention_bias"),
                          .key = linear_with_bias_if("self_attn.k_proj", "attention_bias"),
                          .value = linear_with_bias_if("self_attn.v_proj", "attention_bias"),
                          .output = linear_with_bias_if("self_attn.o_proj", "attention_bias"),
                          .attention_norm = rms_norm("input_layernorm"),
                          .mlp_norm = rms_norm("post_attention_layernorm"),
                          .up = linear_with_bias_if("mlp.up_proj", "mlp_bias"),
                          .gate = linear_with_bias_if("mlp.gate_proj", "mlp_bias"),
                          .down = linear_with_bias_if("mlp.down_proj", "mlp_bias")}};
  spec.embedding = {.token = {"embed_tokens.weight"}};
  spec.final_norm = rms_norm("norm");
  spec.head = plain_head("lm_head");
  spec.head->tied_otherwise = false;
  spec.keys = {.d_model = {{"hidden_size"}, {}},
               .layers = {{"num_hidden_layers"}, {}},
               .heads = {{"num_attention_heads"}, {}},
               .kv_heads = {{"num_key_value_heads"}, {}},
               .d_head = {{"head_dim"}, {}},
               .mlp_width = {{"intermediate_size"}, 11008},
               .vocabulary = {{"vocab_size"}, 32000},
               .max_positions = {{"max_position_embeddings"}, 2048},
               .norm_eps = {"rms_norm_eps"},
               .activation = {"hidden_act"},
               .norm_eps_otherwise = 1e-6,
               .activation_otherwise = "silu"};
  spec.norm = NormKind::rms;
  spec.place = NormPlace::pre;
  spec.rotary = RotarySpec{};
  spec.causal = true;
  spec.requirements = {{"partial_rotary_factor", {1.0}}};
  return spec;
}

/// One projection of the bare mechanism: `W_q` and `b_q` as row vectors multiply them, or as modules save
/// them.
LinearSpec bare(std::string_view letter, const std::vector<std::string>& modules) {
  LinearSpec spec = {.weight = {{fmt::format("W_{}", letter), Axes::in_out_or_head}},
                     .bias = {{fmt::format("b_{}", letter), Axes::in_out_or_head}},
                     .weight_presence = {.rule = Rule::stored},
                     .bias_presence = {.rule = Rule::stored}};
  for (const std::string& module : modules) {
    spec.weight.push_back({module + ".weight"});
    spec.bias.push_back({module + ".bias"});
  }
  return spec;
}

/// A factorised projection: the factor at the heads may be stored by head.
FactorSpec bare_factors(std::string_view letter, Axes first, Axes last) {
  return {.first = StoredTensor{fmt::format("W_{}_a", letter), first},
          .last = StoredTensor{fmt::format("W_{}_b", letter), last}};
}

/// The same for a projection of the input, or as torch.nn.MultiheadAttention saves it.
LinearSpec bare_input(std::string_view letter) {
  const auto named = [&](std::string_view pattern) { return fmt::format(fmt::runtime(pattern), letter); };
  LinearSpec spec = bare(letter, {named("W_{}"), named("w_{}"), named("{}_proj")});
  spec.weight.push_back({named("{}_proj_weight")});
  spec.weight.push_back({"in_proj_weight", Axes::out_in, Packing::query_key_value});
  spec.bias.push_back({"in_proj_bias", Axes::out_in, Packing::query_key_value});
  spec.factors = bare_factors(letter, Axes::in_out, Axes::in_out_or_head);
  return spec;
}

FamilySpec attention() {
  FamilySpec spec;
  spec.name = "attention";
  spec.prefixes = {""};
  spec.stack = {.prefixes = {"", "layers.{}."},
                .layer = {.query = bare_input("q"),
                          .key = bare_input("k"),
                          .value = bare_input("v"),
                          .output = bare("o", {"W_o", "w_o", "o_proj", "out_proj"})}};
  spec.stack.layer.query.weight_presence = {};
  spec.stack.layer.output.factors = bare_factors("o", Axes::in_out_or_head, Axes::in_out);
  spec.embedding = {.token = {"embedding"}};
  spec.sizes = SizesFrom::tensors;
  spec.keys = {.layers = {{"layers"}, 1},
               .heads = {{"heads"}, {}},
               .kv_heads = {{"kv_heads"}, {}},
               .d_head = {{"d_head"}, {}},
               .causal_if = "causal"};
  spec.requirements = {{"add_zero_attn", {false}}, {"position", {"none", "sinusoidal"}}};
  spec.refused_tensors = {"bias_k", "bias_v"};
  spec.one_name_each = true;
  return spec;
}

}  // namespace

std::span<const FamilySpec> families() {
  static const std::vector<FamilySpec> table = {albert(), attention(), bert(), gpt2(), llama()};
  return table;
}

const FamilySpec& family_of(const std::string& file, const nlohmann::ordered_json& config) {
  std::string supported;
  for (const FamilySpec& family : families()) {
    supported += fmt::format("{}{}", supported.empty() ? "" : ", ", family.name);
  }
  const auto type = config.find("model_type");
  if (type == config.end() || !type->is_string()) {
    fail(Status::bad_input, "{}: /model_type: missing or no string, need one of {} (attnctl info --families)",
         escaped(file), supported);
  }
  const auto name = type->get<std::string>();
  const auto found =
      std::ranges::find_if(families(), [&](const FamilySpec& family) { return family.name == name; });
  if (found == families().end()) {
    fail(Status::bad_input, "{}: /model_type: unsupported \"{}\"; supported: {} (attnctl info --families)",
         escaped(file), escaped(name), supported);
  }
  return *found;
}

bool is_known_buffer(std::string_view tensor_name) {
  const auto named = [&](std::string_view end) {
    return tensor_name == end ||
           (tensor_name.ends_with(end) && tensor_name[tensor_name.size() - end.size() - 1] == '.');
  };
  return named("position_ids") || named("attn.bias") || named("attention.bias") || named("masked_bias") ||
         named("rotary_emb.inv_freq") || named("rotary_embeddings.inv_freq");
}

}  // namespace attnctl
