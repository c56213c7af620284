#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace attnctl {

/// A value of tokenizer.json with its JSON pointer. Every getter throws Error(bad_input) if the value has
/// another type; the error names file, pointer, expected and found.
class PartConfig {
 public:
  using Json = nlohmann::ordered_json;

  /// `file` is escaped; `node` must outlive this.
  PartConfig(std::string file, std::string pointer, const Json& node)
      : file_(std::move(file)), pointer_(std::move(pointer)), node_(&node) {}

  [[nodiscard]] const std::string& file() const { return file_; }
  [[nodiscard]] const std::string& pointer() const { return pointer_; }
  [[nodiscard]] const Json& node() const { return *node_; }

  /// Returns whether the key is there and not null.
  [[nodiscard]] bool has(std::string_view key) const;
  [[nodiscard]] std::string string(std::string_view key) const;
  [[nodiscard]] std::string string(std::string_view key, std::string_view default_value) const;
  [[nodiscard]] bool boolean(std::string_view key) const;
  [[nodiscard]] bool boolean(std::string_view key, bool default_value) const;
  [[nodiscard]] std::optional<bool> optional_boolean(std::string_view key) const;
  [[nodiscard]] std::int64_t integer(std::string_view key) const;
  [[nodiscard]] std::int64_t integer(std::string_view key, std::int64_t default_value) const;
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
  std::string file_;
  std::string pointer_;
  const Json* node_;
};

/// A row of a table of parts: the "type" and its factory.
template <typename Part>
struct PartRow {
  std::string_view type;
  Part (*make)(const PartConfig& config);
};

/// Returns the row of the type that /type names. Throws Error(bad_input) with the supported types if none has
/// it.
template <typename Row, std::size_t N>
const Row& find_part(const PartConfig& config, const Row (&rows)[N]) {
  const std::string type = config.string("type");
  std::vector<std::string_view> supported;
  for (const Row& row : rows) {
    if (row.type == type) return row;
    supported.push_back(row.type);
  }
  config.unsupported("type", type, supported);
}

template <typename Part, std::size_t N>
Part make_part(const PartConfig& config, const PartRow<Part> (&rows)[N]) {
  return find_part(config, rows).make(config);
}

}  // namespace attnctl
