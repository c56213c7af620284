#include "model/families/family_parts.hpp"

namespace attnctl {

LinearSpec linear(const std::string& name) {
  return {.weight = {{name + ".weight"}}, .bias = {{name + ".bias"}}};
}

LinearSpec linear_without_bias(const std::string& name) {
  return {.weight = {{name + ".weight"}}};
}

LinearSpec linear_with_bias_if(const std::string& name, const std::string& key, Packing packing) {
  LinearSpec spec = packed_linear(name, packing);
  spec.bias_presence = {.rule = Presence::Rule::configured, .key = key};
  return spec;
}

LinearSpec linear_with_bias_if(const std::string& name, const std::string& key, bool default_value) {
  LinearSpec spec = linear(name);
  spec.bias_presence = {.rule = Presence::Rule::configured, .key = key, .default_value = default_value};
  return spec;
}

LinearSpec linear_if_width_differs(const std::string& name) {
  LinearSpec spec = linear_without_bias(name);
  spec.weight_presence.rule = Presence::Rule::width_differs;
  return spec;
}

LinearSpec packed_linear(const std::string& name, Packing packing) {
  return {.weight = {{name + ".weight", Axes::out_in, packing}},
          .bias = {{name + ".bias", Axes::out_in, packing}}};
}

void remove_biases(LayerSpec& layer) {
  for (LinearSpec* one : {&layer.query, &layer.key, &layer.value, &layer.output}) one->bias = {};
  remove_mlp_biases(layer);
}

void remove_mlp_biases(LayerSpec& layer) {
  for (LinearSpec* one : {&layer.up, &layer.gate, &layer.down}) one->bias = {};
}

LinearSpec conv1d(const std::string& name, Packing packing) {
  return {.weight = {{name + ".weight", Axes::in_out, packing}},
          .bias = {{name + ".bias", Axes::in_out, packing}}};
}

NormSpec layer_norm(const std::string& name) {
  return {.gain = {name + ".weight", name + ".gamma"}, .bias = {name + ".bias", name + ".beta"}};
}

NormSpec norm_without_bias(const std::string& name) {
  return {.gain = {name + ".weight"}};
}

HeadSpec plain_head(const std::string& name) {
  return {.decoder = {.weight = {{name + ".weight"}}, .weight_presence = {.rule = Presence::Rule::stored}}};
}

HeadSpec masked_token_head(const std::string& dense, const std::string& norm,
                           const std::string& predictions) {
  return {.transform = linear(dense),
          .transform_norm = layer_norm(norm),
          .decoder = {.weight = {{predictions + ".decoder.weight"}},
                      .bias = {{predictions + ".decoder.bias"}, {predictions + ".bias"}},
                      .weight_presence = {.rule = Presence::Rule::stored}}};
}

ConfigKeys common_keys(std::size_t mlp_width, std::size_t vocabulary, std::size_t max_positions) {
  ConfigKeys keys;
  keys.d_model = {{"hidden_size"}, {}};
  keys.layers = {{"num_hidden_layers"}, {}};
  keys.heads = {{"num_attention_heads"}, {}};
  keys.mlp_width = {{"intermediate_size"}, mlp_width};
  keys.vocabulary = {{"vocab_size"}, vocabulary};
  keys.max_positions = {{"max_position_embeddings"}, max_positions};
  keys.activation = {"hidden_act"};
  return keys;
}

}  // namespace attnctl
