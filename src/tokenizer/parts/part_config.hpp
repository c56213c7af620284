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

namespace attnctl {

/// A value of tokenizer.json with its JSON pointer. Every getter throws Error(bad_input) if the value has
/// another type; the error names file, pointer, expected and found. A getter with a default returns it if the
/// key is missing or null.
class PartConfig {
 public:
  using Json = nlohmann::ordered_json;

  /// `file` is escaped; `node` must outlive this.
  PartConfig(std::string file, std::string pointer, const Json& node)
      : file_(std::move(file)), pointer_(std::move(pointer)), node_(&node) {}

  [[nodiscard]] const std::string& file() const { return file_; }
  [[nodiscard]] const std::string& pointer() const { return pointer_; }
  [[nodiscard]] const Json& node() const { return *node_; }
  /// Returns "FILE: POINTER" for errors.
  [[nodiscard]] std::string place() const;

  /// Returns whether the key is there and not null.
  [[nodiscard]] bool has(std::string_view key) const { return find(key) != nullptr; }
  [[nodiscard]] std::string string(std::string_view key,
                                   std::optional<std::string_view> default_value = {}) const;
  [[nodiscard]] bool boolean(std::string_view key, std::optional<bool> default_value = {}) const;
  [[nodiscard]] std::int64_t integer(std::string_view key,
                                     std::optional<std::int64_t> default_value = {}) const;
  /// Returns the index in `names` of the string under a key.
  [[nodiscard]] std::size_t choice(std::string_view key, std::span<const std::string_view> names,
                                   std::optional<std::string_view> default_value = {}) const;
  [[nodiscard]] PartConfig object(std::string_view key) const;
  /// Returns the elements of the array under a key, each of them an object.
  [[nodiscard]] std::vector<PartConfig> objects(std::string_view key) const;
  /// Returns a value of any type that is not null.
  [[nodiscard]] PartConfig at(std::string_view key) const;
  /// Returns the elements of this array.
  [[nodiscard]] std::vector<PartConfig> elements() const;

  /// Throws the error "FILE: POINTER[/key]: what".
  [[noreturn]] void refuse(std::string_view key, std::string_view what) const;
  /// Throws the error "FILE: POINTER/key: unsupported "found", supported: a, b, c".
  [[noreturn]] void unsupported(std::string_view key, std::string_view found,
                                std::span<const std::string_view> supported) const;

 private:
  [[nodiscard]] const Json* find(std::string_view key) const;
  template <typename IsValid>
  const Json& require(std::string_view key, IsValid is_valid, std::string_view expected) const;

  std::string file_;
  std::string pointer_;
  const Json* node_;
};

/// A row of a table of parts: the "type" and its factory, which takes `Args` after the configuration.
template <typename Part, typename... Args>
struct PartRow {
  std::string_view type;
  Part (*make)(const PartConfig& config, Args... args);
};

/// Returns the row of the type that /type names. Throws Error(bad_input) with the supported types if none has
/// it.
template <typename Row, std::size_t N>
const Row& find_part(const PartConfig& config, const Row (&rows)[N]) {
  std::vector<std::string_view> types;
  for (const Row& row : rows) types.push_back(row.type);
  return rows[config.choice("type", types)];
}

}  // namespace attnctl
