#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "model/binding/binding.hpp"
#include "model/binding/tensor_names.hpp"

namespace attnctl {

/// All that is wrong with a checkpoint, collected for one error message.
class BindingFaults {
 public:
  void add_missing(const std::string& name);
  void add(const std::string& fault);

  /// Throws Error(bad_input) if there are any. `file` lacks the missing tensors; `config_file` needs them.
  void report(std::string_view file, const std::string& config_file) const;

 private:
  std::vector<std::string> missing_, other_;
  std::set<std::string> known_;  // several projections may be packed in one tensor
};

/// The role of a projection among those packed in one tensor.
enum class PackedPart { query, key, value, gate, up, other };

/// The outputs of a projection.
struct ProjectionOutputs {
  std::size_t heads = 1;
  std::size_t each = 0;
  PackedPart part = PackedPart::other;
  const AttentionConfig* attention = nullptr;  // for a query, key or value

  [[nodiscard]] static ProjectionOutputs unpacked(std::size_t count) { return {.heads = 1, .each = count}; }
  [[nodiscard]] std::size_t count() const { return heads * each; }
  /// Returns which outputs of a tensor with this packing are the projection's.
  [[nodiscard]] Slices slices(Packing packing) const;
};

/// Where a tensor's name applies: in a layer, outside of the layers, or without any prefix.
struct NameScope {
  enum class Place { layer, outside, absolute } place = Place::outside;
  LayerConfig::Key layer = {};
};

/// Finds tensors and checks their shapes and types. Whatever is wrong is added to faults(), and the result
/// then has no tensor.
class TensorBinder {
 public:
  TensorBinder(const FamilySpec& family, const ModelConfig& config, const Checkpoint& weights,
               std::string config_file);

  NameScope scope = {};
  std::string shape_origin;  // the configured sizes that the current shapes come from, for messages
  std::size_t heads = 1;     // of the current layer, for an output projection of rank 3

  [[nodiscard]] const FamilySpec& family() const { return family_; }
  [[nodiscard]] const ModelConfig& config() const { return config_; }
  [[nodiscard]] const TensorNames& names() const { return names_; }
  [[nodiscard]] BindingFaults& faults() { return faults_; }
  [[nodiscard]] Binding& bound() { return bound_; }

  [[nodiscard]] std::optional<LocatedTensor> find(std::span<const StoredTensor> names) const;
  /// `heads_are_inputs` marks an output projection, which rank 3 stores as [heads, v, out].
  [[nodiscard]] BoundLinear linear(const LinearSpec& spec, LinearParts parts, std::size_t in,
                                   const ProjectionOutputs& out, bool heads_are_inputs = false);
  [[nodiscard]] BoundLinear linear(const LinearSpec& spec, LinearParts parts, std::size_t in, std::size_t out,
                                   bool heads_are_inputs = false) {
    return linear(spec, parts, in, ProjectionOutputs::unpacked(out), heads_are_inputs);
  }
  /// A linear layer stored as a convolution whose weight has `shape`: all axes after the first are inputs.
  [[nodiscard]] BoundLinear convolution(const LinearSpec& spec, const Shape& shape);
  /// One linear layer per expert, from names with `{expert}` or from a stack [experts, ...].
  [[nodiscard]] std::vector<BoundLinear> expert_linears(const LinearSpec& spec, LinearParts parts,
                                                        std::size_t in, const ProjectionOutputs& out,
                                                        std::size_t experts);
  [[nodiscard]] BoundVector vector(std::span<const StoredTensor> names, std::size_t width);
  /// Gains and biases of `width`. With `copies`, one tensor per head (names with `{head}`) or one [copies,
  /// width].
  [[nodiscard]] BoundNorm norm(const NormSpec& spec, NormKind kind, std::size_t width,
                               std::optional<std::size_t> copies = {});
  /// Returns the index of a table [rows, width], or [1, rows, width] if the family reads images.
  [[nodiscard]] std::size_t table(const std::vector<std::string>& names, std::size_t rows, std::size_t width);
  /// Returns all elements of a tensor [rows, width].
  [[nodiscard]] BoundVector rows(const std::vector<std::string>& names, std::size_t rows, std::size_t width);

 private:
  std::optional<LocatedTensor> need(std::span<const StoredTensor> names);
  void expect_shape(const LocatedTensor& tensor, const Shape& expected);
  BoundMatrix matrix(std::span<const StoredTensor> names, std::size_t in, const ProjectionOutputs& out,
                     bool heads_are_inputs);
  BoundVector bias(std::span<const StoredTensor> names, const ProjectionOutputs& out);
  std::vector<BoundVector> vectors(const std::vector<std::string>& names, std::size_t width,
                                   std::optional<std::size_t> copies);

  const FamilySpec& family_;
  const ModelConfig& config_;
  TensorNames names_;
  std::string config_file_;
  Binding bound_;
  BindingFaults faults_;
};

}  // namespace attnctl
