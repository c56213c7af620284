#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "checkpoint/checkpoint.hpp"
#include "model/families/family.hpp"

namespace attnctl {

/// A tensor of a checkpoint and how the family says it is stored.
struct LocatedTensor {
  std::size_t index = 0;  // in Checkpoint::tensors()
  Axes axes = Axes::out_in;
  Packing packing = Packing::whole;
};

/// How a checkpoint stores the weight of a projection: as one tensor, or as two factors.
struct LocatedWeight {
  std::optional<LocatedTensor> whole;
  std::optional<LocatedTensor> first, last;  // both or none

  [[nodiscard]] bool found() const { return whole || first; }
  /// The tensor whose inputs, or outputs, are the projection's.
  [[nodiscard]] const LocatedTensor& at_inputs() const { return whole ? *whole : first.value(); }
  [[nodiscard]] const LocatedTensor& at_outputs() const { return whole ? *whole : last.value(); }
};

/// Finds a family's tensors in a checkpoint: settles which of the prefixes this file uses, and fills numbers
/// into names. Throws Error(bad_input) where a file holds two alternatives and the family allows one.
class TensorNames {
 public:
  TensorNames(const FamilySpec& family, const Checkpoint& weights, std::size_t layers);

  [[nodiscard]] std::string outside_layers(const std::string& name) const { return prefix_ + name; }
  [[nodiscard]] std::string in_layer(const std::string& name, LayerConfig::Key layer) const;
  [[nodiscard]] std::string in_layer(const std::string& name, std::size_t number) const {
    return in_layer(name, LayerConfig::Key{Component::none, number});
  }

  /// That of a layer's tensors, with `{}` for its number.
  [[nodiscard]] std::string layer_prefix() const { return prefix_ + layer_prefix_; }

  [[nodiscard]] std::string decoder_prefix() const { return prefix_ + decoder_prefix_; }

  /// The file leaves out the prefix that its family has: the model was saved without its output head.
  [[nodiscard]] bool headless() const { return headless_; }

  /// The alternatives under a layer's number, below the family's prefix, or as they are.
  [[nodiscard]] std::optional<LocatedTensor> find_in_layer(std::span<const StoredTensor> names,
                                                           LayerConfig::Key layer) const;
  [[nodiscard]] std::optional<LocatedTensor> find_in_layer(std::span<const StoredTensor> names,
                                                           std::size_t number) const {
    return find_in_layer(names, LayerConfig::Key{Component::none, number});
  }
  /// Throws Error(bad_input) where there is one factor of two, or a factor beside the whole weight.
  [[nodiscard]] LocatedWeight find_weight_in_layer(const LinearSpec& spec, std::size_t number) const;
  [[nodiscard]] std::optional<LocatedTensor> find_outside_layers(std::span<const StoredTensor> names) const;
  [[nodiscard]] std::optional<LocatedTensor> find_absolute(std::span<const StoredTensor> names) const;

  [[nodiscard]] const Checkpoint& weights() const { return *weights_; }
  [[nodiscard]] const TensorInfo& info(const LocatedTensor& tensor) const {
    return weights_->tensors()[tensor.index];
  }

 private:
  template <typename FullName>
  std::optional<LocatedTensor> find(std::span<const StoredTensor> names, const FullName& full) const;

  const Checkpoint* weights_;
  bool one_name_each_;
  std::string prefix_;
  std::string layer_prefix_;
  std::string decoder_prefix_;  // of a layer of the decoder behind an encoder
  bool headless_ = false;
};

/// Plain names as stored tensors.
[[nodiscard]] std::vector<StoredTensor> stored(const std::vector<std::string>& names);

}  // namespace attnctl
