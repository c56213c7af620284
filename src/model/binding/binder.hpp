#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "model/binding/binding.hpp"
#include "model/binding/packing.hpp"
#include "model/binding/tensor_names.hpp"

namespace attnctl {

/// What is wrong with a checkpoint, collected so that all of it can be said at once.
class BindingFaults {
 public:
  void missing(std::string name);
  void wrong(std::string what);

  /// Throws Error(bad_input) where there is anything; `file` lacks the tensors that `config_file` needs.
  void report(std::string_view file, const std::string& config_file) const;

 private:
  std::vector<std::string> missing_, wrong_;  // each once: several projections may be packed in a tensor
  std::set<std::string> known_;
};

/// The outputs of a projection, and which of several packed in a tensor it is.
struct ProjectionOutputs {
  std::size_t heads = 1;
  std::size_t each = 0;
  PackedPart part = PackedPart::other;
  const AttentionConfig* attention = nullptr;  // of a query, key or value

  [[nodiscard]] std::size_t count() const { return heads * each; }
  [[nodiscard]] Slices slices(Packing packing) const;
};

/// A projection's outputs that share a tensor with nothing.
[[nodiscard]] ProjectionOutputs outputs_alone(std::size_t count);

/// Where names are to be looked for.
struct NameScope {
  enum class Place { layer, outside, absolute } place = Place::outside;
  LayerConfig::Key layer = {};
};

/// Finds tensors and checks their shapes and types; what is wrong is noted in `faults` and bound to nothing.
class TensorBinder {
 public:
  TensorBinder(const FamilySpec& family, const ModelConfig& config, const Checkpoint& weights,
               std::string config_file);

  NameScope scope = {};
  std::string because;    // of the shapes that are needed now: sizes of the configuration
  std::size_t heads = 1;  // of the current layer, for an output projection of rank 3

  [[nodiscard]] std::optional<LocatedTensor> find(std::span<const StoredTensor> names) const;
  [[nodiscard]] BoundLinear linear(const LinearSpec& spec, LinearParts parts, std::size_t in,
                                   const ProjectionOutputs& out, bool heads_inward = false);
  /// The weight [outputs, in, kernel] and bias of a convolution over positions.
  [[nodiscard]] BoundLinear kernel(const LinearSpec& spec, std::size_t in, std::size_t kernel,
                                   std::size_t outputs);
  /// The same for each of several experts: names with `{expert}`, or a tensor with one more axis in front.
  [[nodiscard]] std::vector<BoundLinear> expert_linears(const LinearSpec& spec, LinearParts parts,
                                                        std::size_t in, const ProjectionOutputs& out,
                                                        std::size_t experts);
  [[nodiscard]] BoundVector vector(std::span<const StoredTensor> names, std::size_t width);
  /// Gains and biases of `width` each; with `copies` names with `{head}`, or one tensor [copies, width].
  [[nodiscard]] BoundNorm norm(const NormSpec& spec, NormKind kind, std::size_t width,
                               std::optional<std::size_t> copies = {});
  /// Of shape [rows, width], or [1, rows, width] where the family's inputs are images.
  [[nodiscard]] std::size_t table(const std::vector<std::string>& names, std::size_t rows, std::size_t width);
  /// A convolution [out, channels, height, width] of a patch, whose stride is its size: a linear map.
  [[nodiscard]] BoundLinear convolution(const LinearSpec& spec, const PatchGrid& grid, std::size_t out);

  /// All of a tensor [rows, width].
  [[nodiscard]] BoundVector rows(const std::vector<std::string>& names, std::size_t rows, std::size_t width);

  [[nodiscard]] const TensorNames& names() const { return names_; }
  [[nodiscard]] BindingFaults& faults() { return faults_; }
  [[nodiscard]] Binding& bound() { return bound_; }

 private:
  std::optional<LocatedTensor> need(std::span<const StoredTensor> names);
  void note_alternatives(std::span<const StoredTensor> names, std::size_t bound);
  void use(const LocatedTensor& tensor);
  void expect_shape(const LocatedTensor& tensor, const Shape& need);
  BoundMatrix matrix(std::span<const StoredTensor> names, std::size_t in, const ProjectionOutputs& out,
                     bool heads_inward);
  BoundVector bias(std::span<const StoredTensor> names, const ProjectionOutputs& out);
  std::vector<BoundVector> vectors(const std::vector<std::string>& names, std::size_t width,
                                   std::optional<std::size_t> copies);

  const FamilySpec& family_;
  TensorNames names_;
  std::string config_file_;
  Binding bound_;
  BindingFaults faults_;
};

}  // namespace attnctl
