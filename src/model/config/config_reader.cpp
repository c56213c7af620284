#include "model/config/config_reader.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace attnctl {
namespace {

std::string shown(const nlohmann::ordered_json& value) {
  using Json = nlohmann::ordered_json;
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return escaped(text);
}

/// The value of `a`, or of `a/b`: b of the object a. Null where there is none.
const nlohmann::ordered_json* value_at(const nlohmann::ordered_json& object, std::string_view name) {
  const std::size_t slash = name.find('/');
  const auto found = object.find(name.substr(0, slash));
  if (found == object.end()) return nullptr;
  if (slash == std::string_view::npos) return &*found;
  return found->is_object() ? value_at(*found, name.substr(slash + 1)) : nullptr;
}

}  // namespace

ConfigReader::ConfigReader(std::string file, const nlohmann::ordered_json& object, std::string pointer)
    : file_(std::move(file)), object_(&object), pointer_(std::move(pointer)) {}

std::string ConfigReader::pointer(std::string_view name) const {
  return fmt::format("{}/{}", pointer_, name);
}

std::optional<ConfigValue> ConfigReader::find(std::span<const std::string> names) const {
  for (const std::string& name : names) {
    const nlohmann::ordered_json* const found = value_at(*object_, name);
    if (found != nullptr && !found->is_null()) return ConfigValue{name, found};
  }
  return std::nullopt;
}

std::optional<ConfigValue> ConfigReader::find(const std::string& name) const {
  return find({&name, 1});
}

std::string ConfigReader::name_of(const SizeKey& key) const {
  const auto found = find(key.names);
  return found ? found->name : key.names.front();
}

bool ConfigReader::is_null(const std::string& name) const {
  const auto found = object_->find(name);
  return found != object_->end() && found->is_null();
}

std::optional<std::size_t> ConfigReader::index(std::span<const std::string> names) const {
  const auto value = find(names);
  if (!value) return std::nullopt;
  if (value->json->is_number_integer() && value->json->get<std::int64_t>() == 0) return 0;
  return size(names);
}

std::optional<std::size_t> ConfigReader::size(std::span<const std::string> names) const {
  const auto value = find(names);
  if (!value) return std::nullopt;
  if (!value->json->is_number_integer()) refuse(*value, "an integer of at least 1");
  if (value->json->is_number_unsigned()) {
    const auto size = value->json->get<std::uint64_t>();
    if (size > largest_size) {
      fail(Status::limit, "{}: {}: got {}, the limit is {}", escaped(file_), pointer(value->name), size,
           largest_size);
    }
    if (size >= 1) return static_cast<std::size_t>(size);
  } else if (value->json->get<std::int64_t>() >= 1) {  // a document built in memory holds signed integers
    return static_cast<std::size_t>(value->json->get<std::int64_t>());
  }
  refuse(*value, "an integer of at least 1");
}

std::size_t ConfigReader::size(const SizeKey& key) const {
  if (const auto value = size(std::span(key.names))) return *value;
  if (key.otherwise) return *key.otherwise;
  missing(key.names.at(0), "an integer of at least 1");
}

std::optional<double> ConfigReader::number(std::span<const std::string> names) const {
  const auto value = find(names);
  if (!value) return std::nullopt;
  if (!value->json->is_number()) refuse(*value, "a number");
  const auto number = value->json->get<double>();
  if (!std::isfinite(number)) refuse(*value, "a finite number");
  return number;
}

double ConfigReader::number(const NumberKey& key) const {
  const auto value = find(key.names);
  if (!value) {
    const bool null = std::ranges::any_of(key.names, [&](const auto& name) { return is_null(name); });
    return null && key.null_is_zero ? 0 : key.otherwise;
  }
  if (key.rule == NumberKey::Rule::plain) return number(key.names).value();
  const double number = positive(key.names).value();
  return key.rule == NumberKey::Rule::inverse ? 1 / number : 1 / std::sqrt(number);
}

std::optional<double> ConfigReader::positive(std::span<const std::string> names) const {
  const auto value = number(names);
  if (value && *value <= 0) refuse(*find(names), "a number above 0");
  return value;
}

std::optional<bool> ConfigReader::flag(const std::string& name) const {
  const auto value = find(name);
  if (!value) return std::nullopt;
  if (!value->json->is_boolean()) refuse(*value, "true or false");
  return value->json->get<bool>();
}

std::optional<std::string> ConfigReader::text(std::span<const std::string> names) const {
  const auto value = find(names);
  if (!value) return std::nullopt;
  if (!value->json->is_string()) refuse(*value, "a string");
  return value->json->get<std::string>();
}

std::optional<std::vector<double>> ConfigReader::positives(const std::string& name) const {
  const auto value = find(name);
  if (!value) return std::nullopt;
  if (!value->json->is_array()) refuse(*value, "a list of numbers");
  std::vector<double> numbers;
  for (const auto& element : *value->json) {
    if (!element.is_number() || !std::isfinite(element.get<double>()) || element.get<double>() <= 0) {
      refuse(*value, "a list of numbers above 0");
    }
    numbers.push_back(element.get<double>());
  }
  return numbers;
}

std::optional<ConfigReader> ConfigReader::object(const std::string& name) const {
  const auto value = find(name);
  if (!value) return std::nullopt;
  if (!value->json->is_object()) refuse(*value, "an object");
  return ConfigReader(file_, *value->json, pointer(name));
}

void ConfigReader::refuse(const ConfigValue& value, std::string_view need) const {
  fail(Status::bad_input, "{}: {}: got {}, need {}", escaped(file_), pointer(value.name), shown(*value.json),
       need);
}

void ConfigReader::refuse_unsupported(const ConfigValue& value, std::string_view supported) const {
  fail(Status::bad_input, "{}: {}: unsupported {}; supported: {}", escaped(file_), pointer(value.name),
       shown(*value.json), supported);
}

void ConfigReader::missing(std::string_view name, std::string_view need) const {
  fail(Status::bad_input, "{}: {}: missing, need {}", escaped(file_), pointer(name), need);
}

}  // namespace attnctl
