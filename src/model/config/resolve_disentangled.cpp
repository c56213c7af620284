#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>

#include "base/error.hpp"
#include "model/config/resolve.hpp"

namespace attnctl {
namespace {

/// A list of strings, or one string of them between bars.
std::vector<std::string> listed_words(const std::string& key, const ConfigReader& config) {
  const auto value = config.find(key);
  if (!value) return {};
  std::vector<std::string> words;
  if (value->json->is_string()) {
    std::string word;
    for (const char letter : value->json->get<std::string>() + "|") {
      if (letter == '|') {
        words.push_back(std::move(word));
        word.clear();
      } else if (letter != ' ') {
        word += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
      }
    }
    return words;
  }
  if (!value->json->is_array()) config.refuse(*value, "a string or a list of strings");
  for (const auto& word : *value->json) {
    if (!word.is_string()) config.refuse(*value, "a string or a list of strings");
    words.push_back(word.get<std::string>());
  }
  return words;
}

/// A size, where below 1 says that there is none.
std::optional<std::size_t> size_if_any(const std::string& name, const ConfigReader& config) {
  const std::vector<std::string> names = {name};
  if (config.number(names).value_or(0) < 1) return std::nullopt;
  return config.size(std::span(names));
}

void read_terms(const ConfigReader& config, DisentangledConfig& disentangled) {
  const std::string key = "pos_att_type";
  for (const std::string& term : listed_words(key, config)) {
    if (term == "c2p") {
      disentangled.content_to_position = true;
    } else if (term == "p2c") {
      disentangled.position_to_content = true;
    } else if (!term.empty()) {
      config.refuse_unsupported(*config.find(key), "c2p, p2c");
    }
  }
}

void read_distances(const DisentangledSpec& spec, const ConfigReader& config, const ModelConfig& model,
                    DisentangledConfig& disentangled) {
  disentangled.max_distance =
      size_if_any("max_relative_positions", config).value_or(model.max_positions.value());
  const auto buckets = spec.buckets ? size_if_any("position_buckets", config) : std::nullopt;
  disentangled.span = buckets.value_or(disentangled.max_distance);
  disentangled.logarithmic = buckets.has_value();
  if (buckets && (*buckets < 2 || disentangled.max_distance <= *buckets / 2 + 1)) {
    fail(Status::bad_input,
         "{}: {}: got {}, need at least 2, and half of them less than the largest distance {}",
         escaped(config.file()), config.pointer("position_buckets"), *buckets, disentangled.max_distance - 1);
  }
}

}  // namespace

void resolve_disentangled(const FamilySpec& family, const ConfigReader& config, const ModelConfig& model,
                          AttentionConfig& attention) {
  const DisentangledSpec& spec = *family.stack.disentangled;
  DisentangledConfig disentangled;
  read_terms(config, disentangled);
  const int terms = (disentangled.content_to_position ? 1 : 0) + (disentangled.position_to_content ? 1 : 0);
  attention.scale /= std::sqrt(1.0 + terms);
  if (terms == 0 || !config.flag("relative_attention").value_or(false)) return;
  read_distances(spec, config, model, disentangled);
  if (!spec.shares || !config.flag("share_att_key").value_or(false)) {
    if (disentangled.content_to_position) disentangled.key = resolve_parts(spec.key, config);
    if (disentangled.position_to_content) disentangled.query = resolve_parts(spec.query, config);
  }
  const std::vector<std::string> norms = listed_words("norm_rel_ebd", config);
  if (spec.norm.present() && std::ranges::find(norms, "layer_norm") != norms.end()) {
    disentangled.norm = norm_of(resolve_norm(family, config), spec.norm);
  }
  attention.disentangled = std::make_shared<const DisentangledConfig>(disentangled);
}

std::shared_ptr<const ConvolutionConfig> resolve_convolution(const ConfigReader& config,
                                                             const ModelConfig& model) {
  const auto kernel = size_if_any("conv_kernel_size", config);
  if (!kernel) return nullptr;
  ConvolutionConfig convolution;
  convolution.kernel = *kernel;
  if (*kernel % 2 == 0) config.refuse(*config.find("conv_kernel_size"), "an odd number");
  convolution.groups = size_if_any("conv_groups", config).value_or(1);
  if (model.d_model % convolution.groups != 0)
    check_multiple(config, "hidden_size", model.d_model, "conv_groups", convolution.groups);
  const ConfigKeys keys = {.activation = {"conv_act"}, .activation_otherwise = "tanh"};
  convolution.activation = resolve_activation(keys, config);
  return std::make_shared<const ConvolutionConfig>(convolution);
}

}  // namespace attnctl
