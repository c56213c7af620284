#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "model/families/family.hpp"

namespace attnctl::model {

/// A tensor that was found in a checkpoint, and its layout according to the family.
struct LocatedTensor {
  std::size_t index = 0;  // index in Checkpoint::tensors()
  Axes axes = Axes::out_in;
  Packing packing = Packing::whole;
};

/// The stored weight of a projection: one tensor, two factors, or nothing. The first tensor has the inputs of
/// the projection, the last one has its outputs.
using LocatedWeight = std::vector<LocatedTensor>;

/// Finds a family's tensors in a checkpoint. The constructor chooses the prefixes with the most matching
/// names in the first layer. If a tensor has several possible names, the functions use the first one that is
/// stored. They throw Error(bad_input) if two of the names are stored and the family does not allow this.
class TensorNames {
 public:
  TensorNames(const FamilySpec& family, const checkpoint::Checkpoint& weights, std::size_t layers);

  /// Return what precedes the names of a layer's tensors and of tensors outside of layers.
  [[nodiscard]] std::string in_layer(const LayerConfig::Key& layer) const;
  [[nodiscard]] const std::string& outside_layers() const { return prefix_; }

  /// Return the prefixes of layer tensors, with `{}` in place of the layer number.
  [[nodiscard]] std::string layer_prefix() const { return prefix_ + layer_prefix_; }
  [[nodiscard]] std::string decoder_prefix() const { return prefix_ + decoder_prefix_; }

  /// Returns true if the chosen prefix is not the first one of the family, as in models that were saved
  /// without the head.
  [[nodiscard]] bool headless() const { return headless_; }

  /// Finds a tensor whose name in the checkpoint is `prefix` and one of `names`.
  [[nodiscard]] std::optional<LocatedTensor> find(std::span<const StoredTensor> names,
                                                  const std::string& prefix) const;
  [[nodiscard]] std::optional<LocatedTensor> find_outside_layers(const std::vector<std::string>& names) const;
  /// Finds the weight of a projection. Also throws Error(bad_input) if only one of two factors is stored, or
  /// if both a factor and the whole weight are stored.
  [[nodiscard]] LocatedWeight find_weight(const LinearSpec& spec, const std::string& prefix) const;

  [[nodiscard]] const checkpoint::Checkpoint& weights() const { return *weights_; }
  [[nodiscard]] const checkpoint::TensorInfo& info(const LocatedTensor& tensor) const {
    return weights_->tensors()[tensor.index];
  }

 private:
  const checkpoint::Checkpoint* weights_;
  bool one_name_each_;
  std::string prefix_;
  std::string layer_prefix_;
  std::string decoder_prefix_;
  bool headless_ = false;
};

/// Returns true if two tensors have the same type, shape and bytes. Releases both tensors.
[[nodiscard]] bool same_values(checkpoint::Checkpoint& weights, std::size_t a, std::size_t b);

/// Converts plain names to stored tensors with the default layout.
[[nodiscard]] std::vector<StoredTensor> stored(const std::vector<std::string>& names);

}  // namespace attnctl::model
