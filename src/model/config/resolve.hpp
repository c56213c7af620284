#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/error.hpp"
#include "checkpoint/source.hpp"
#include "model/families/family.hpp"

namespace attnctl::model {

/// A value of a configuration, and the key under which it was found.
struct ConfigValue {
  std::string name;
  const nlohmann::ordered_json* json = nullptr;
};

/// Reads typed values from a JSON object. A null counts as missing. The name `a/b` means key b of the object
/// a. If a function takes several names, it uses the first one that is present. The functions that return a
/// typed value throw Error(bad_input) with the file and the JSON pointer if the value has the wrong type or
/// range, and return nullopt or the default if it is missing.
class ConfigReader {
 public:
  using Names = std::vector<std::string>;

  /// `pointer` is the JSON pointer of `object` in the file; "" if `object` is the whole document.
  ConfigReader(std::string file, const nlohmann::ordered_json& object, std::string pointer = "")
      : file_(std::move(file)), object_(&object), pointer_(std::move(pointer)) {}

  /// Returns a reader of /text_config if present, otherwise of the whole configuration. Throws
  /// Error(bad_input) if the configuration has both /text_config and /quantization_config.
  [[nodiscard]] static ConfigReader of_text(const std::string& file, const nlohmann::ordered_json& config);

  [[nodiscard]] std::optional<ConfigValue> find(const Names& names) const;
  [[nodiscard]] std::optional<ConfigValue> find(const std::string& name) const;
  [[nodiscard]] bool is_null(const Names& names) const;  // one of the keys exists and is null
  /// Returns the name that find(names) would use, or the first name if none is present.
  [[nodiscard]] std::string present_name(const Names& names) const;

  /// Reads an integer of at least `least`. Throws Error(limit) if it is above kLargestSize.
  [[nodiscard]] std::optional<std::size_t> optional_index(const Names& names, std::int64_t least = 0) const;
  [[nodiscard]] std::optional<std::size_t> optional_size(const Names& names) const {
    return optional_index(names, 1);
  }
  /// If the key is missing, returns its default, or `default_value` if it has none. Throws Error(bad_input)
  /// if there is no default at all.
  [[nodiscard]] std::size_t size(const SizeKey& key, std::optional<std::size_t> default_value = {}) const;
  [[nodiscard]] std::optional<double> optional_number(const Names& names) const;    // finite
  [[nodiscard]] std::optional<double> optional_positive(const Names& names) const;  // finite, above 0
  [[nodiscard]] double number(const NumberKey& key) const;
  [[nodiscard]] std::optional<bool> optional_flag(const std::string& name) const;
  [[nodiscard]] bool flag(const std::string& name, bool default_value = false) const {
    return optional_flag(name).value_or(default_value);
  }
  [[nodiscard]] std::optional<std::string> optional_text(const Names& names) const;
  [[nodiscard]] std::optional<ConfigReader> optional_object(const std::string& name) const;

  /// Throws Error(bad_input) with the message "FILE: /NAME: ...".
  template <typename... Args>
  [[noreturn]] void refuse(std::string_view name, fmt::format_string<Args...> format, Args&&... args) const {
    fail(Status::bad_input, "{}: {}: {}", escaped(file_), pointer(name),
         fmt::format(format, std::forward<Args>(args)...));
  }
  /// Throw Error(bad_input) with the value that was found, and with what is needed or supported.
  [[noreturn]] void reject(const ConfigValue& value, std::string_view need) const;
  [[noreturn]] void reject_unsupported(const ConfigValue& value, std::string_view supported) const;

  /// Throws Error(limit) if the value of /NAME is above `limit`.
  void check_limit(std::string_view name, std::uint64_t value, std::uint64_t limit) const;

  [[nodiscard]] const std::string& file() const { return file_; }
  [[nodiscard]] std::string pointer(std::string_view name) const {
    return fmt::format("{}/{}", pointer_, name);
  }
  [[nodiscard]] const nlohmann::ordered_json& object() const { return *object_; }
  [[nodiscard]] const std::string& object_pointer() const { return pointer_; }

  static constexpr std::size_t kLargestSize = 1U << 30U;

 private:
  std::string file_;
  const nlohmann::ordered_json* object_;
  std::string pointer_;
};

// The steps of resolve_config. Functions that take a ConfigReader throw Error(bad_input) with the file and,
// in most errors, the JSON pointer.

inline constexpr std::size_t kMaxLayers = 10'000;
inline constexpr std::size_t kMaxHeadWidth = 1U << 20U;

/// Returns the number of layers. Throws Error(limit) if it is above kMaxLayers.
[[nodiscard]] std::size_t resolve_layer_count(const FamilySpec& family, const ConfigReader& config);

/// Throws Error(bad_input) if `whole` is not a multiple of `part`. The names are those of their keys.
void check_multiple(const ConfigReader& config, const ConfigReader::Names& whole_names, std::size_t whole,
                    const ConfigReader::Names& part_names, std::size_t part);

[[nodiscard]] Activation resolve_activation(const TextKey& key, const ConfigReader& config);

/// Returns the kind and eps, which all norms of a model share.
[[nodiscard]] NormConfig resolve_norm(const FamilySpec& family, const ConfigReader& config);
/// Returns `norm` with gain and bias set to whether `spec` has tensors for them. The kind is none if the norm
/// does not exist.
[[nodiscard]] NormConfig with_tensors(NormConfig norm, const NormSpec& spec);

/// Returns which tensors of a projection exist according to the configuration. `same_width` says whether the
/// embedding tables and the model have the same width.
[[nodiscard]] LinearParts resolve_parts(const LinearSpec& spec, const ConfigReader& config,
                                        bool same_width = false);

/// Returns the attention properties that all layers share. Uses d_model and max_positions of `model`.
[[nodiscard]] AttentionConfig resolve_attention(const FamilySpec& family, const ConfigReader& config,
                                                const ModelConfig& model);

/// Returns the rotary parameters; inverse frequencies are in float32, exactly as transformers computes them
/// (modeling_rope_utils). A rope_theta in /rope_scaling (the old key) or /rope_parameters (the new key) is
/// used instead of the old top-level key. If `sliding` is true, returns the parameters for layers with a
/// sliding window (RotarySpec::sliding).
[[nodiscard]] RotaryConfig resolve_rotary(const RotarySpec& spec, const ConfigReader& config,
                                          std::size_t d_head, std::size_t max_positions,
                                          bool sliding = false);

/// Returns the layers of one component. Uses d_model and max_positions of `model`.
[[nodiscard]] std::vector<LayerConfig> resolve_layers(const FamilySpec& family, const ConfigReader& config,
                                                      const NormConfig& norm, const ModelConfig& model,
                                                      Component component);

/// Returns the configuration of a family with sizes_from_tensors. Reads the sizes from the shapes of the
/// tensors of the first layer (docs/attention.md).
[[nodiscard]] ModelConfig resolve_from_tensors(const FamilySpec& family, const ConfigReader& config,
                                               const checkpoint::Checkpoint& weights);

}  // namespace attnctl::model
