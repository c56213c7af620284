#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "model/families/family.hpp"

namespace attnctl {

/// A value of a configuration that was found under one of its names.
struct ConfigValue {
  std::string name;
  const nlohmann::ordered_json* json = nullptr;
};

/// Typed reads of a JSON object; errors name the file and the JSON pointer. A null counts as missing.
class ConfigReader {
 public:
  /// `pointer` is that of `object` in the file, "" for the whole.
  ConfigReader(std::string file, const nlohmann::ordered_json& object, std::string pointer = "");

  [[nodiscard]] std::optional<ConfigValue> find(std::span<const std::string> names) const;
  [[nodiscard]] std::optional<ConfigValue> find(const std::string& name) const;

  /// What the key says, or follows from it; without one, what the key says of that, as it is.
  [[nodiscard]] double number(const NumberKey& key) const;

  /// Under which of its names a size stands; the first where under none.
  [[nodiscard]] std::string name_of(const SizeKey& key) const;

  /// The key is there and null.
  [[nodiscard]] bool is_null(const std::string& name) const;

  /// An integer of at least 0: an id, or a number of a layer.
  [[nodiscard]] std::optional<std::size_t> index(std::span<const std::string> names) const;
  /// An integer of at least 1 and at most largest_size; Error(limit) above it.
  [[nodiscard]] std::optional<std::size_t> size(std::span<const std::string> names) const;
  [[nodiscard]] std::size_t size(
      const SizeKey& key) const;  // what the key says where there is none; else an error
  [[nodiscard]] std::optional<double> number(std::span<const std::string> names) const;  // finite
  [[nodiscard]] std::optional<double> positive(std::span<const std::string> names) const;
  [[nodiscard]] std::optional<bool> flag(const std::string& name) const;
  [[nodiscard]] std::optional<std::string> text(std::span<const std::string> names) const;
  [[nodiscard]] std::optional<std::vector<double>> positives(const std::string& name) const;
  [[nodiscard]] std::optional<ConfigReader> object(const std::string& name) const;

  /// Throws Error(bad_input): "FILE: /NAME: got VALUE, need ...".
  [[noreturn]] void refuse(const ConfigValue& value, std::string_view need) const;
  [[noreturn]] void refuse_unsupported(const ConfigValue& value, std::string_view supported) const;
  [[noreturn]] void missing(std::string_view name, std::string_view need) const;

  [[nodiscard]] const std::string& file() const { return file_; }
  [[nodiscard]] std::string pointer(std::string_view name) const;
  [[nodiscard]] const std::string& whole() const { return pointer_; }

  static constexpr std::size_t largest_size = 1U << 30U;

 private:
  std::string file_;
  const nlohmann::ordered_json* object_;
  std::string pointer_;
};

}  // namespace attnctl
