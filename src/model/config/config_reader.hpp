#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/error.hpp"

namespace attnctl {

struct NumberKey;
struct SizeKey;

/// A value found in a configuration, with the key that it was found under.
struct ConfigValue {
  std::string name;
  const nlohmann::ordered_json* json = nullptr;
};

/// Typed reads of a JSON object. A null counts as missing, and key `a/b` is key b of the object a. Every read
/// throws Error(bad_input) with the file and the JSON pointer if the value has the wrong type or range.
/// Functions that take several names use the first one present.
class ConfigReader {
 public:
  using Names = std::vector<std::string>;

  /// `pointer` is the JSON pointer of `object` within the file; "" for the whole document.
  ConfigReader(std::string file, const nlohmann::ordered_json& object, std::string pointer = "");

  /// Returns a reader of /text_config if there is one, otherwise of the whole configuration. Throws
  /// Error(bad_input) if a model with a /text_config is quantized.
  [[nodiscard]] static ConfigReader of_text(const std::string& file, const nlohmann::ordered_json& config);

  [[nodiscard]] std::optional<ConfigValue> find(const Names& names) const;
  [[nodiscard]] std::optional<ConfigValue> find(const std::string& name) const;
  [[nodiscard]] bool is_null(const std::string& name) const;  // the key exists and is null
  /// Returns the name that find(names) uses, or the first one if none is present.
  [[nodiscard]] std::string present_name(const Names& names) const;

  /// Integers of at least 0: token ids and layer numbers.
  [[nodiscard]] std::optional<std::size_t> optional_index(const Names& names) const;
  /// Integers from 1 to largest_size. Throws Error(limit) above it.
  [[nodiscard]] std::optional<std::size_t> optional_size(const Names& names) const;
  [[nodiscard]] std::size_t size(const SizeKey& key) const;  // an error if missing without a default
  [[nodiscard]] std::size_t size(const SizeKey& key, std::size_t default_value) const;
  [[nodiscard]] std::optional<double> optional_number(const Names& names) const;    // finite
  [[nodiscard]] std::optional<double> optional_positive(const Names& names) const;  // finite and above 0
  [[nodiscard]] double number(const NumberKey& key) const;
  [[nodiscard]] std::optional<std::vector<double>> optional_positives(const std::string& name) const;
  [[nodiscard]] std::optional<bool> optional_flag(const std::string& name) const;
  [[nodiscard]] bool flag(const std::string& name, bool default_value = false) const;
  [[nodiscard]] std::optional<std::string> optional_text(const Names& names) const;
  [[nodiscard]] std::optional<ConfigReader> optional_object(const std::string& name) const;

  /// Throws Error(bad_input): "FILE: /NAME: ...".
  template <typename... Args>
  [[noreturn]] void refuse(std::string_view name, fmt::format_string<Args...> format, Args&&... args) const {
    fail(Status::bad_input, "{}: {}: {}", escaped(file_), pointer(name),
         fmt::format(format, std::forward<Args>(args)...));
  }
  /// The same with "got VALUE, need ...".
  [[noreturn]] void reject(const ConfigValue& value, std::string_view need) const;
  [[noreturn]] void reject_unsupported(const ConfigValue& value, std::string_view supported) const;
  [[noreturn]] void reject_missing(std::string_view name, std::string_view need) const;

  [[nodiscard]] const std::string& file() const { return file_; }
  [[nodiscard]] std::string pointer(std::string_view name) const;
  [[nodiscard]] const nlohmann::ordered_json& object() const { return *object_; }
  [[nodiscard]] const std::string& object_pointer() const { return pointer_; }

  static constexpr std::size_t largest_size = 1U << 30U;

 private:
  std::string file_;
  const nlohmann::ordered_json* object_;
  std::string pointer_;
};

}  // namespace attnctl
