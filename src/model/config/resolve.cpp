#include "model/config/resolve.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "model/config/text_tower.hpp"

namespace attnctl {
namespace {

void check_requirements(const FamilySpec& family, const ConfigReader& config) {
  for (const Requirement& requirement : family.requirements) {
    const auto value = config.find(requirement.key);
    if (!value || std::ranges::find(requirement.values, *value->json) != requirement.values.end()) continue;
    std::string supported;
    for (const auto& one : requirement.values) {
      supported += fmt::format("{}{}", supported.empty() ? "" : ", ", one.dump());
    }
    config.refuse_unsupported(*value, supported);
  }
  if (const auto pruned = config.find("pruned_heads"); pruned && !pruned->json->empty()) {
    config.refuse_unsupported(*pruned, "{}");
  }
  if (const auto packed = config.find("quantization_config")) config.refuse_unsupported(*packed, "null");
}

/// Says at once what is wrong with parts of a configuration that do not depend on each other: options, norm,
/// activation, attention with its positions.
void check_parts(const FamilySpec& family, const ConfigReader& config) {
  std::vector<std::string> faults;
  const auto attempt = [&](const auto& part) {
    try {
      part();
    } catch (const Error& error) {
      if (error.status() != Status::bad_input) throw;
      if (std::ranges::find(faults, error.what()) == faults.end()) faults.emplace_back(error.what());
    }
  };
  attempt([&] { check_requirements(family, config); });
  if (family.sizes == SizesFrom::config) {
    attempt([&] { static_cast<void>(resolve_norm(family, config)); });
    attempt([&] { static_cast<void>(resolve_activation(family.keys, config)); });
    attempt([&] {
      ModelConfig model;
      model.d_model = config.size(family.keys.d_model);
      model.max_positions = resolve_max_positions(family.keys, config);
      static_cast<void>(resolve_attention(family, config, model));
    });
  }
  if (faults.empty()) return;
  std::string all;
  for (const std::string& fault : faults) all += fmt::format("{}{}", all.empty() ? "" : "; ", fault);
  fail(Status::bad_input, "{}", all);
}

ModelConfig resolve_from_config(const FamilySpec& family, const ConfigReader& config,
                                const ModelSource& source) {
  ModelConfig model;
  model.d_model = config.size(family.keys.d_model);
  model.max_positions = resolve_max_positions(family.keys, config);
  const NormConfig norm = resolve_norm(family, config);
  resolve_layers(family, config, norm, model);
  if (source.weights) use_stored_frequencies(family, *source.weights, model);
  model.embedding = resolve_embedding(family, config, model);
  model.final_norm = norm_of(norm, family.final_norm);
  if (family.decoder) resolve_decoder(family, config, norm, source, model);
  model.d_key_input = model.d_value_input = model.d_output = model.d_model;
  model.head = resolve_head(family, config, model, source.weights.get());
  return model;
}

}  // namespace

std::size_t resolve_layer_count(const FamilySpec& family, const ConfigReader& config) {
  const std::size_t count = config.size(family.keys.layers);
  if (count > most_layers) {
    fail(Status::limit, "{}: {}: got {}, the limit is {}", escaped(config.file()),
         config.pointer(config.name_of(family.keys.layers)), count, most_layers);
  }
  return count;
}

void check_multiple(const ConfigReader& config, const std::string& whole_name, std::size_t whole,
                    const std::string& part_name, std::size_t part) {
  if (whole % part == 0) return;
  fail(Status::bad_input, "{}: {}: got {}, need a multiple of {} ({})", escaped(config.file()),
       config.pointer(whole_name), whole, config.pointer(part_name), part);
}

ModelConfig resolve_config(const ModelSource& source) {
  return resolve_config(family_of(source.config_path.string(), source.config), source);
}

ModelConfig resolve_config(const FamilySpec& family, const ModelSource& source) {
  const std::string file = source.config_path.string();
  const ConfigReader config = text_reader(file, source.config);
  check_parts(family, config);
  if (family.sizes == SizesFrom::tensors && !source.weights) {
    fail(Status::bad_input, "{}: a model of the type {} has its sizes in its weights; need a weights file",
         escaped(file), family.name);
  }
  ModelConfig model = family.sizes == SizesFrom::tensors
                          ? resolve_from_tensors(family, config, *source.weights)
                          : resolve_from_config(family, config, source);
  model.family = family.name;
  model.special_ids = resolve_special_ids(config, model.embedding.vocabulary);
  return model;
}

}  // namespace attnctl
