#pragma once

#include <string>

#include "model/config/config_reader.hpp"
#include "model/families/family.hpp"

namespace attnctl {

/// What a model of more than text says of its text: the object /text_config, where there is one; else all of
/// the configuration. Throws Error(bad_input) where /text_config is no object, or the whole model is
/// quantised.
[[nodiscard]] ConfigReader text_reader(const std::string& file, const nlohmann::ordered_json& config);

/// Lets a row find its tensors within a model of which it is a tower: below "language_model." and the like,
/// in the layouts of today ("model.language_model.layers...") and of the hub
/// ("language_model.model.layers...").
void put_in_tower(FamilySpec& row);

}  // namespace attnctl
