#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace attnctl::tokenizer {

/// A value of a JSON document, such as tokenizer.json, with its JSON pointer. If the value under a key is
/// missing or null, a getter returns `default_value`, or throws Error(bad_input) if the caller passed none. A
/// getter throws Error(bad_input) if the value has another type. The message names the file, the pointer,
/// what is expected and what was found. Only one thread may use an object.
class PartConfig {
 public:
  using Json = nlohmann::ordered_json;

  /// `file` is the file's escaped name. `node` must outlive this object.
  PartConfig(std::string file, std::string pointer, const Json& node)
      : file_(std::move(file)), pointer_(std::move(pointer)), node_(&node) {}

  [[nodiscard]] const Json& node() const { return *node_; }
  [[nodiscard]] std::string place() const;  // "FILE: POINTER" or "FILE: top level", for errors

  [[nodiscard]] bool has(std::string_view key) const {
    const Json* const value = find(key);
    return value != nullptr && !value->is_null();
  }
  [[nodiscard]] std::string string(std::string_view key,
                                   std::optional<std::string_view> default_value = {}) const;
  [[nodiscard]] bool boolean(std::string_view key, std::optional<bool> default_value = {}) const;
  [[nodiscard]] std::int64_t integer(std::string_view key,
                                     std::optional<std::int64_t> default_value = {}) const;
  /// Returns the index in `names` of the string under a key. Throws Error(bad_input) if `names` lacks it.
  [[nodiscard]] std::size_t choice(std::string_view key, std::span<const std::string_view> names,
                                   std::optional<std::string_view> default_value = {}) const;
  [[nodiscard]] PartConfig object(std::string_view key) const;
  /// Returns the elements of the array under a key. Each element must be an object.
  [[nodiscard]] std::vector<PartConfig> objects(std::string_view key) const;
  /// Returns the value under a key, which may have any type except null.
  [[nodiscard]] PartConfig at(std::string_view key) const;
  /// Returns the elements of this value, which must be an array.
  [[nodiscard]] std::vector<PartConfig> elements() const;

  /// Throws Error(bad_input): "FILE: POINTER/key: what", or "FILE: POINTER: what" if `key` is empty.
  [[noreturn]] void refuse(std::string_view key, std::string_view what) const;
  /// Throws Error(bad_input), which names the unsupported string `found` and lists the supported strings.
  [[noreturn]] void unsupported(std::string_view key, std::string_view found,
                                std::span<const std::string_view> supported) const;

 private:
  [[nodiscard]] const Json* find(std::string_view key) const;
  template <typename IsValid>
  const Json& require(std::string_view key, IsValid is_valid, std::string_view expected) const;

  std::string file_;
  std::string pointer_;
  const Json* node_;
  mutable std::size_t next_ = 0;  // index of the member after the last one that find() returned
};

/// A row of a table that maps the "type" of a tokenizer part (such as a normalizer) to the function that
/// makes the part. `Args` are additional arguments of the function.
template <typename Part, typename... Args>
struct PartRow {
  std::string_view type;
  Part (*make)(const PartConfig& config, Args... args);
};

/// Returns the row for the string under "type". If there is none, throws Error(bad_input) with all types.
template <typename Row, std::size_t N>
const Row& find_part(const PartConfig& config, const Row (&rows)[N]) {
  std::vector<std::string_view> types;
  for (const Row& row : rows) types.push_back(row.type);
  return rows[config.choice("type", types)];
}

}  // namespace attnctl::tokenizer
