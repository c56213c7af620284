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
#include "checkpoint/checkpoint.hpp"
#include "model/families/family.hpp"

namespace attnctl::model {

/// A value of a configuration, and the key under which it was found.
struct ConfigValue {
  std::string name;
  const nlohmann::ordered_json* json = nullptr;
};

/// Reads typed values from a JSON object. A null counts as missing, except in is_null() and for
/// NumberKey::null_is_zero. The name `a/b` means key b of the object a. If a function takes several names, it
/// uses the first one that is present. The functions that return a typed value throw Error(bad_input) with
/// the file and the JSON pointer if the value has the wrong type or range. If the value is missing, they
/// return nullopt or the default.
class ConfigReader {
 public:
  using Names = std::vector<std::string>;

  /// `pointer` is the JSON pointer of `object` in the file; "" if `object` is the whole document.
  ConfigReader(std::string file, const nlohmann::ordered_json& object, std::string pointer = "")
      : file_(std::move(file)), object_(&object), pointer_(std::move(pointer)) {}

  /// Returns a reader of /text_config if present, otherwise of the whole configuration. Throws
  /// Error(bad_input) if /text_config is not an object, or if the configuration has both /text_config and
  /// an unsupported /quantization_config.
  [[nodiscard]] static ConfigReader of_text(const std::string& file, const nlohmann::ordered_json& config);

  [[nodiscard]] std::optional<ConfigValue> find(const Names& names) const;
  [[nodiscard]] std::optional<ConfigValue> find(const std::string& name) const;
  /// Returns true if one of these keys of the object is null. Does not support names `a/b`.
  [[nodiscard]] bool is_null(const Names& names) const;

  /// Reads an integer of at least `least`. Throws Error(limit) if it is above kLargestSize.
  [[nodiscard]] std::optional<std::size_t> optional_index(const Names& names, std::int64_t least = 0) const;
  [[nodiscard]] std::optional<std::size_t> optional_size(const Names& names) const {
    return optional_index(names, 1);
  }
  /// Reads an integer of at least 1. If the key is missing, returns key.default_value, or `default_value` if
  /// key.default_value is nullopt. Throws Error(bad_input) if both are nullopt.
  [[nodiscard]] std::size_t size(const SizeKey& key, std::optional<std::size_t> default_value = {}) const;
  [[nodiscard]] std::optional<double> optional_number(const Names& names) const;    // finite
  [[nodiscard]] std::optional<double> optional_positive(const Names& names) const;  // finite, above 0
  [[nodiscard]] double number(const NumberKey& key) const;
  [[nodiscard]] bool flag(const std::string& name, bool default_value = false) const;
  [[nodiscard]] std::optional<std::string> optional_text(const Names& names) const;
  [[nodiscard]] std::optional<ConfigReader> optional_object(const std::string& name) const;

  /// Throws Error(bad_input) with the message "FILE: POINTER: ...", where POINTER is pointer(names).
  template <typename... Args>
  [[noreturn]] void refuse(const Names& names, fmt::format_string<Args...> format, Args&&... args) const {
    fail(Status::bad_input, "{}: {}: {}", escaped(file_), pointer(names),
         fmt::format(format, std::forward<Args>(args)...));
  }
  /// Throw Error(bad_input). The message contains the value, and the text `need` or `supported`.
  [[noreturn]] void reject(const ConfigValue& value, std::string_view need) const;
  [[noreturn]] void reject_unsupported(const ConfigValue& value, std::string_view supported) const;

  /// Throws Error(limit) if `value`, the value of the key, is above `limit`.
  void check_limit(const Names& names, std::uint64_t value, std::uint64_t limit) const;

  [[nodiscard]] const std::string& file() const { return file_; }
  [[nodiscard]] std::string pointer(std::string_view name) const {
    return fmt::format("{}/{}", pointer_, name);
  }
  /// Returns the pointer of the name that find(names) would use, or of the first name if none is present.
  [[nodiscard]] std::string pointer(const Names& names) const;
  [[nodiscard]] const nlohmann::ordered_json& object() const { return *object_; }
  [[nodiscard]] const std::string& object_pointer() const { return pointer_; }

  static constexpr std::size_t kLargestSize = 1U << 30U;

 private:
  std::string file_;
  const nlohmann::ordered_json* object_;
  std::string pointer_;
};

// The steps of resolve_config(). Functions that take a ConfigReader throw Error(bad_input) if the
// configuration is wrong, and Error(limit) if a size is too large. The message names the file.

inline constexpr std::size_t kMaxLayers = 10'000;
inline constexpr std::size_t kMaxHeadWidth = 1U << 20U;

/// Returns the number of layers. Throws Error(limit) if it is above kMaxLayers.
[[nodiscard]] std::size_t resolve_layer_count(const FamilySpec& family, const ConfigReader& config);

/// Throws Error(bad_input) if `whole` is not a multiple of `part`. The names are those of their keys.
void check_multiple(const ConfigReader& config, const ConfigReader::Names& whole_names, std::size_t whole,
                    const ConfigReader::Names& part_names, std::size_t part);

[[nodiscard]] Activation resolve_activation(const TextKey& key, const ConfigReader& config);

/// Returns a norm with the kind and the eps that all norms of a model share.
[[nodiscard]] NormConfig resolve_norm(const FamilySpec& family, const ConfigReader& config);
/// Returns `norm` with gain and bias set to whether `spec` has names for them. Returns a norm of the kind
/// none if spec.present() is false.
[[nodiscard]] NormConfig with_tensors(NormConfig norm, const NormSpec& spec);

/// Returns the tensors that a projection has according to the configuration. If `same_width` is true (the
/// embeddings and the model have the same width), a projection with LinearSpec::if_width_differs has none.
[[nodiscard]] LinearParts resolve_parts(const LinearSpec& spec, const ConfigReader& config,
                                        bool same_width = false);

/// Returns the attention properties from which resolve_layers() makes those of each layer. Uses d_model and
/// max_positions of `model`.
[[nodiscard]] AttentionConfig resolve_attention(const FamilySpec& family, const ConfigReader& config,
                                                const ModelConfig& model);

/// Returns the rotary parameters. Computes the inverse frequencies in float32 like transformers
/// (modeling_rope_utils). A theta in the object with the rotary parameters (/rope_parameters, or
/// /rope_scaling in older configurations) is used instead of a theta at the top level. If `sliding` is true,
/// returns the parameters of layers with a sliding window; then spec.sliding must be set.
[[nodiscard]] RotaryConfig resolve_rotary(const RotarySpec& spec, const ConfigReader& config,
                                          std::size_t d_head, std::size_t max_positions,
                                          bool sliding = false);

/// Returns the layers of one component. Uses d_model and max_positions of `model`.
[[nodiscard]] std::vector<LayerConfig> resolve_layers(const FamilySpec& family, const ConfigReader& config,
                                                      const NormConfig& norm, const ModelConfig& model,
                                                      Component component);

/// Returns the configuration of a family with sizes_from_tensors. Reads the widths from the shapes of the
/// first layer's tensors, and the numbers of layers and heads from the configuration (docs/attention.md).
[[nodiscard]] ModelConfig resolve_from_tensors(const FamilySpec& family, const ConfigReader& config,
                                               const checkpoint::Checkpoint& weights);

}  // namespace attnctl::model
