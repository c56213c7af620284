#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace attnctl {

/// An object of tokenizer.json with its place, for reading it strictly: every getter names file, JSON
/// pointer, what was expected and what was found. Throws Error(bad_input).
class PartConfig {
 public:
  using Json = nlohmann::ordered_json;

  /// The document, or one of its parts. `file` is escaped; `node` must outlive this.
  PartConfig(std::string file, std::string pointer, const Json& node)
      : file_(std::move(file)), pointer_(std::move(pointer)), node_(&node) {}

  [[nodiscard]] const std::string& file() const { return file_; }
  [[nodiscard]] const std::string& pointer() const { return pointer_; }
  [[nodiscard]] const Json& node() const { return *node_; }

  /// Is the key there, and not null?
  [[nodiscard]] bool has(std::string_view key) const;
  [[nodiscard]] std::string string(std::string_view key) const;
  [[nodiscard]] std::string string(std::string_view key, std::string_view otherwise) const;
  [[nodiscard]] bool boolean(std::string_view key) const;
  [[nodiscard]] bool boolean(std::string_view key, bool otherwise) const;
  [[nodiscard]] std::optional<bool> optional_boolean(std::string_view key) const;
  [[nodiscard]] std::int64_t integer(std::string_view key) const;
  [[nodiscard]] std::int64_t integer(std::string_view key, std::int64_t otherwise) const;
  /// The object under a key.
  [[nodiscard]] PartConfig object(std::string_view key) const;
  /// The elements of the array under a key, each an object.
  [[nodiscard]] std::vector<PartConfig> objects(std::string_view key) const;
  /// Any value under a key, with its pointer.
  [[nodiscard]] PartConfig at(std::string_view key) const;
  [[nodiscard]] std::vector<PartConfig> elements() const;  // of an array

  /// Throws: FILE: POINTER[/key]: what.
  [[noreturn]] void refuse(std::string_view key, std::string_view what) const;
  /// Throws: FILE: POINTER/key: unsupported "found", supported: a, b, c.
  [[noreturn]] void unsupported(std::string_view key, std::string_view found,
                                std::span<const std::string_view> supported) const;

 private:
  std::string file_;
  std::string pointer_;
  const Json* node_;
};

/// One row of a table of parts: its "type" and what makes it.
template <typename Part>
struct PartRow {
  std::string_view type;
  Part (*make)(const PartConfig& config);
};

/// Makes the part that /type names; an unknown one is refused with the list of the known.
template <typename Part, std::size_t N>
Part make_part(const PartConfig& config, const PartRow<Part> (&rows)[N]) {
  const std::string type = config.string("type");
  std::vector<std::string_view> supported;
  for (const PartRow<Part>& row : rows) {
    if (row.type == type) return row.make(config);
    supported.push_back(row.type);
  }
  config.unsupported("type", type, supported);
}

}  // namespace attnctl
