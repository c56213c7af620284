#include "tokenizer/part_config.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.hpp"
#include "base/text.hpp"

namespace attnctl {
namespace {

const PartConfig::Json* find(const PartConfig::Json& node, std::string_view key) {
  const auto found = node.find(std::string(key));
  return found == node.end() || found->is_null() ? nullptr : &*found;
}

std::string found_text(const PartConfig::Json* value) {
  if (value == nullptr) return "nothing";
  if (value->is_structured()) return value->is_object() ? "an object" : "an array";
  return shown(value->dump(-1, ' ', false, PartConfig::Json::error_handler_t::replace));
}

/// Returns the JSON pointer of a member (RFC 6901).
std::string pointer_to(const std::string& pointer, std::string_view key) {
  std::string path = pointer + '/';
  for (const char c : key) {
    if (c == '~') {
      path += "~0";
    } else if (c == '/') {
      path += "~1";
    } else {
      path += c;
    }
  }
  return path;
}

[[noreturn]] void wrong_type(const PartConfig& config, std::string_view key, std::string_view expected) {
  const PartConfig::Json* value = config.node().is_object() ? find(config.node(), key) : nullptr;
  config.refuse(key, fmt::format("expected {}, found {}", expected, found_text(value)));
}

}  // namespace

bool PartConfig::has(std::string_view key) const {
  return node_->is_object() && find(*node_, key) != nullptr;
}

std::string PartConfig::string(std::string_view key) const {
  const Json* value = node_->is_object() ? find(*node_, key) : nullptr;
  if (value == nullptr || !value->is_string()) wrong_type(*this, key, "a string");
  return value->get<std::string>();
}

std::string PartConfig::string(std::string_view key, std::string_view default_value) const {
  return has(key) ? string(key) : std::string(default_value);
}

bool PartConfig::boolean(std::string_view key) const {
  const Json* value = node_->is_object() ? find(*node_, key) : nullptr;
  if (value == nullptr || !value->is_boolean()) wrong_type(*this, key, "true or false");
  return value->get<bool>();
}

bool PartConfig::boolean(std::string_view key, bool default_value) const {
  return has(key) ? boolean(key) : default_value;
}

std::optional<bool> PartConfig::optional_boolean(std::string_view key) const {
  if (!has(key)) return std::nullopt;
  return boolean(key);
}

std::int64_t PartConfig::integer(std::string_view key) const {
  const Json* value = node_->is_object() ? find(*node_, key) : nullptr;
  const bool is_integer =
      value != nullptr && value->is_number_integer() &&
      !(value->is_number_unsigned() &&
        value->get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()});
  if (!is_integer) wrong_type(*this, key, "an integer");
  return value->get<std::int64_t>();
}

std::int64_t PartConfig::integer(std::string_view key, std::int64_t default_value) const {
  return has(key) ? integer(key) : default_value;
}

PartConfig PartConfig::at(std::string_view key) const {
  const Json* value = node_->is_object() ? find(*node_, key) : nullptr;
  if (value == nullptr) wrong_type(*this, key, "a value");
  return {file_, pointer_to(pointer_, key), *value};
}

PartConfig PartConfig::object(std::string_view key) const {
  PartConfig value = at(key);
  if (!value.node().is_object()) wrong_type(*this, key, "an object");
  return value;
}

std::vector<PartConfig> PartConfig::objects(std::string_view key) const {
  const PartConfig value = at(key);
  if (!value.node().is_array()) wrong_type(*this, key, "an array of objects");
  std::vector<PartConfig> all = value.elements();
  for (const PartConfig& each : all) {
    if (!each.node().is_object()) each.refuse("", "expected an object, found " + found_text(&each.node()));
  }
  return all;
}

std::vector<PartConfig> PartConfig::elements() const {
  if (!node_->is_array()) refuse("", "expected an array, found " + found_text(node_));
  std::vector<PartConfig> all;
  all.reserve(node_->size());
  for (std::size_t i = 0; i < node_->size(); ++i) {
    all.emplace_back(file_, fmt::format("{}/{}", pointer_, i), (*node_)[i]);
  }
  return all;
}

void PartConfig::refuse(std::string_view key, std::string_view what) const {
  const std::string place = key.empty() ? pointer_ : pointer_to(pointer_, key);
  fail(Status::bad_input, "{}: {}: {}", file_, place.empty() ? "top level" : shown(place), what);
}

void PartConfig::unsupported(std::string_view key, std::string_view found,
                             std::span<const std::string_view> supported) const {
  refuse(key, fmt::format("unsupported {}, supported: {}", in_quotes(found), fmt::join(supported, ", ")));
}

}  // namespace attnctl
