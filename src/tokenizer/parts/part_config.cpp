#include "tokenizer/parts/part_config.hpp"

#include <algorithm>
#include <functional>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.hpp"
#include "base/text.hpp"

namespace attnctl::tokenizer {
namespace {

std::string found_text(const PartConfig::Json* value) {
  if (value == nullptr) return "nothing";
  if (value->is_structured()) return value->is_object() ? "an object" : "an array";
  return shown(value->dump(-1, ' ', false, PartConfig::Json::error_handler_t::replace));
}

/// Returns the JSON pointer (RFC 6901) of the member `key` of the value at `pointer`.
std::string pointer_to(const std::string& pointer, std::string_view key) {
  return pointer + (PartConfig::Json::json_pointer() / std::string(key)).to_string();
}

}  // namespace

std::string PartConfig::place() const {
  return fmt::format("{}: {}", file_, pointer_.empty() ? "top level" : shown(pointer_));
}

const PartConfig::Json* PartConfig::find(std::string_view key) const {
  if (!node_->is_object()) return nullptr;
  const auto& members = node_->get_ref<const Json::object_t&>();
  // A Json object is a list. The search begins after the last member found, so that a loop over all members
  // does not search the whole list for each.
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (next_ >= members.size()) next_ = 0;
    const auto& [name, value] = members.begin()[static_cast<std::ptrdiff_t>(next_++)];
    if (name == key) return &value;
  }
  return nullptr;
}

template <typename IsValid>
const PartConfig::Json& PartConfig::require(std::string_view key, IsValid is_valid,
                                            std::string_view expected) const {
  const Json* const value = find(key);
  if (value == nullptr || value->is_null() || !std::invoke(is_valid, *value)) {
    refuse(key, fmt::format("expected {}, found {}", expected, found_text(value)));
  }
  return *value;
}

std::string PartConfig::string(std::string_view key, std::optional<std::string_view> default_value) const {
  if (default_value && !has(key)) return std::string(*default_value);
  return require(key, &Json::is_string, "a string").get<std::string>();
}

bool PartConfig::boolean(std::string_view key, std::optional<bool> default_value) const {
  if (default_value && !has(key)) return *default_value;
  return require(key, &Json::is_boolean, "true or false").get<bool>();
}

std::int64_t PartConfig::integer(std::string_view key, std::optional<std::int64_t> default_value) const {
  if (default_value && !has(key)) return *default_value;
  const auto fits = [](const Json& value) {
    constexpr std::uint64_t kLargest = std::numeric_limits<std::int64_t>::max();
    return value.is_number_integer() &&
           (!value.is_number_unsigned() || value.get<std::uint64_t>() <= kLargest);
  };
  return require(key, fits, "a signed 64-bit integer").get<std::int64_t>();
}

std::size_t PartConfig::choice(std::string_view key, std::span<const std::string_view> names,
                               std::optional<std::string_view> default_value) const {
  const std::string name = string(key, default_value);
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) unsupported(key, name, names);
  return static_cast<std::size_t>(found - names.begin());
}

PartConfig PartConfig::at(std::string_view key) const {
  const auto any = [](const Json&) { return true; };
  return {file_, pointer_to(pointer_, key), require(key, any, "a value")};
}

PartConfig PartConfig::object(std::string_view key) const {
  return {file_, pointer_to(pointer_, key), require(key, &Json::is_object, "an object")};
}

std::vector<PartConfig> PartConfig::objects(std::string_view key) const {
  require(key, &Json::is_array, "an array of objects");
  std::vector<PartConfig> all = at(key).elements();
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
  const PartConfig refused(file_, key.empty() ? pointer_ : pointer_to(pointer_, key), *node_);
  fail(Status::bad_input, "{}: {}", refused.place(), what);
}

void PartConfig::unsupported(std::string_view key, std::string_view found,
                             std::span<const std::string_view> supported) const {
  refuse(key, fmt::format("unsupported {}, supported: {}", in_quotes(found), fmt::join(supported, ", ")));
}

}  // namespace attnctl::tokenizer
