#include <algorithm>
#include <cmath>
#include <utility>

#include <nlohmann/json.hpp>

#include "model/config/resolve.hpp"

namespace attnctl::model {
namespace {

using Json = nlohmann::ordered_json;

/// Formats a JSON value for an error message, shortened to 60 characters.
std::string excerpt(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return escaped(text);
}

/// Returns the value for the name `a` or `a/b`, or null if there is none.
const Json* value_at(const Json& object, std::string_view name) {
  const std::size_t slash = name.find('/');
  const auto found = object.find(name.substr(0, slash));
  if (found == object.end()) return nullptr;
  if (slash == std::string_view::npos) return &*found;
  return found->is_object() ? value_at(*found, name.substr(slash + 1)) : nullptr;
}

}  // namespace

ConfigReader ConfigReader::of_text(const std::string& file, const Json& config) {
  const ConfigReader whole(file, config);
  const auto text = whole.optional_object("text_config");
  if (!text) return whole;
  if (const auto packed = whole.find("quantization_config")) whole.reject_unsupported(*packed, "null");
  return *text;
}

std::optional<ConfigValue> ConfigReader::find(const Names& names) const {
  for (const std::string& name : names) {
    if (auto found = find(name)) return found;
  }
  return std::nullopt;
}

std::optional<ConfigValue> ConfigReader::find(const std::string& name) const {
  const Json* const found = name.empty() ? nullptr : value_at(*object_, name);
  return found != nullptr && !found->is_null() ? std::optional(ConfigValue{name, found}) : std::nullopt;
}

bool ConfigReader::is_null(const Names& names) const {
  return std::ranges::any_of(names, [&](const std::string& name) {
    const auto found = object_->find(name);
    return found != object_->end() && found->is_null();
  });
}

std::string ConfigReader::present_name(const Names& names) const {
  const auto found = find(names);
  return found ? found->name : names.front();
}

std::optional<std::size_t> ConfigReader::optional_index(const Names& names, std::int64_t least) const {
  const auto value = find(names);
  if (!value) return std::nullopt;
  if (value->json->is_number_unsigned())
    check_limit(value->name, value->json->get<std::uint64_t>(), largest_size);
  // In a document that was built in memory, also positive integers are signed.
  if (!value->json->is_number_integer() || value->json->get<std::int64_t>() < least)
    reject(*value, fmt::format("an integer of at least {}", least));
  return value->json->get<std::size_t>();
}

std::size_t ConfigReader::size(const SizeKey& key, std::optional<std::size_t> default_value) const {
  for (const auto& value : {optional_size(key.names), key.default_value, default_value}) {
    if (value) return *value;
  }
  reject_missing(key.names.at(0), "an integer of at least 1");
}

std::optional<double> ConfigReader::optional_number(const Names& names) const {
  const auto value = find(names);
  if (!value) return std::nullopt;
  if (!value->json->is_number()) reject(*value, "a number");
  const auto number = value->json->get<double>();
  if (!std::isfinite(number)) reject(*value, "a finite number");
  return number;
}

std::optional<double> ConfigReader::optional_positive(const Names& names) const {
  const auto value = optional_number(names);
  if (value && *value <= 0) reject(*find(names), "a number above 0");
  return value;
}

double ConfigReader::number(const NumberKey& key) const {
  if (!find(key.names)) return key.null_is_zero && is_null(key.names) ? 0 : key.default_value;
  if (key.conversion == NumberKey::Conversion::plain) return optional_number(key.names).value();
  const double number = optional_positive(key.names).value();
  return key.conversion == NumberKey::Conversion::inverse ? 1 / number : 1 / std::sqrt(number);
}

std::optional<bool> ConfigReader::optional_flag(const std::string& name) const {
  const auto value = find(name);
  if (!value) return std::nullopt;
  if (!value->json->is_boolean()) reject(*value, "true or false");
  return value->json->get<bool>();
}

std::optional<std::string> ConfigReader::optional_text(const Names& names) const {
  const auto value = find(names);
  if (!value) return std::nullopt;
  if (!value->json->is_string()) reject(*value, "a string");
  return value->json->get<std::string>();
}

std::optional<ConfigReader> ConfigReader::optional_object(const std::string& name) const {
  const auto value = find(name);
  if (!value) return std::nullopt;
  if (!value->json->is_object()) reject(*value, "an object");
  return ConfigReader(file_, *value->json, pointer(name));
}

void ConfigReader::reject(const ConfigValue& value, std::string_view need) const {
  refuse(value.name, "got {}, need {}", excerpt(*value.json), need);
}

void ConfigReader::reject_unsupported(const ConfigValue& value, std::string_view supported) const {
  refuse(value.name, "unsupported {}; supported: {}", excerpt(*value.json), supported);
}

void ConfigReader::reject_missing(std::string_view name, std::string_view need) const {
  refuse(name, "missing, need {}", need);
}

void ConfigReader::check_limit(std::string_view name, std::uint64_t value, std::uint64_t limit) const {
  if (value <= limit) return;
  fail(Status::limit, "{}: {}: got {}, the limit is {}", escaped(file_), pointer(name), value, limit);
}

}  // namespace attnctl::model
