#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "model/families/family.hpp"

namespace attnctl {

/// A tensor of a checkpoint, and how the family says it is stored.
struct LocatedTensor {
  std::size_t index = 0;  // in Checkpoint::tensors()
  Axes axes = Axes::out_in;
  Packing packing = Packing::whole;
};

/// The stored weight of a projection: one tensor, or two factors.
struct LocatedWeight {
  std::optional<LocatedTensor> whole;
  std::optional<LocatedTensor> first, last;  // both or neither

  [[nodiscard]] bool found() const { return whole || first; }
  /// The tensors whose inputs and outputs are the projection's.
  [[nodiscard]] const LocatedTensor& at_inputs() const { return whole ? *whole : first.value(); }
  [[nodiscard]] const LocatedTensor& at_outputs() const { return whole ? *whole : last.value(); }
};

/// The prefix of a tensor's name: that of a layer, that of tensors outside of layers, or none.
struct NameScope {
  enum class Place { layer, outside, absolute } place = Place::outside;
  LayerConfig::Key layer = {};

  [[nodiscard]] static NameScope in_layer(std::size_t number) { return {Place::layer, {{}, number}}; }
  [[nodiscard]] static NameScope absolute() { return {.place = Place::absolute}; }
};

/// Finds a family's tensors in a checkpoint: chooses the prefixes that match most names of the first layer,
/// and inserts layer numbers. Functions that find tensors return the first stored alternative; they throw
/// Error(bad_input) if there are two and the family allows only one.
class TensorNames {
 public:
  TensorNames(const FamilySpec& family, const Checkpoint& weights, std::size_t layers);

  [[nodiscard]] std::string full_name(const std::string& name, const NameScope& scope) const;

  /// The prefixes of layer tensors, with `{}` for the number.
  [[nodiscard]] std::string layer_prefix() const { return prefix_ + layer_prefix_; }
  [[nodiscard]] std::string decoder_prefix() const { return prefix_ + decoder_prefix_; }

  /// True if the file omits the family's prefix, as models saved without their head do.
  [[nodiscard]] bool headless() const { return headless_; }

  [[nodiscard]] std::optional<LocatedTensor> find(std::span<const StoredTensor> names,
                                                  const NameScope& scope = {}) const;
  /// Also throws Error(bad_input) for one factor without the other, or a factor next to the whole weight.
  [[nodiscard]] LocatedWeight find_weight_in_layer(const LinearSpec& spec, std::size_t number) const;

  [[nodiscard]] const Checkpoint& weights() const { return *weights_; }
  [[nodiscard]] const TensorInfo& info(const LocatedTensor& tensor) const {
    return weights_->tensors()[tensor.index];
  }

 private:
  const Checkpoint* weights_;
  bool one_name_each_;
  std::string prefix_;
  std::string layer_prefix_;
  std::string decoder_prefix_;
  bool headless_ = false;
};

/// Returns true if two tensors have the same type, shape and bytes. Ends the loans of both.
[[nodiscard]] bool same_values(Checkpoint& weights, std::size_t a, std::size_t b);

/// Returns plain names as stored tensors.
[[nodiscard]] std::vector<StoredTensor> stored(const std::vector<std::string>& names);

}  // namespace attnctl
