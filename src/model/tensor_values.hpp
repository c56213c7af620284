#pragma once

#include "attnctl/base/warnings.hpp"
#include "attnctl/checkpoint/checkpoint.hpp"
#include "attnctl/model/model.hpp"

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "model/binding.hpp"

namespace attnctl {

/// float32 values of a checkpoint's tensors: borrowed where they are stored so, else converted at the first
/// call and kept. The first use of a tensor warns of values that are not finite (`non_finite_weight`).
class TensorValues {
 public:
  TensorValues(Checkpoint& weights, Warnings& warnings) : weights_(&weights), warnings_(&warnings) {}

  [[nodiscard]] Linear linear(const BoundLinear& bound);
  [[nodiscard]] NormWeights norm(const BoundNorm& bound);
  /// A matrix of so many columns.
  [[nodiscard]] MatrixView<const float> columns(const BoundVector& bound, std::size_t count);
  [[nodiscard]] std::span<const float> vector(const BoundVector& bound);
  [[nodiscard]] LookupTable table(std::size_t tensor);

 private:
  StoredMatrix matrix(const BoundMatrix& bound);
  std::span<const float> values(std::size_t tensor);
  std::span<const float> in_out_of_heads(const BoundMatrix& bound);
  std::span<const float> joined(const std::vector<BoundVector>& parts, float offset);
  std::vector<float>& keep(std::size_t size);
  void check_finite(std::size_t tensor, const TensorView& view);

  Checkpoint* weights_;
  Warnings* warnings_;
  std::map<std::size_t, std::vector<float>> converted_;  // by tensor
  std::map<std::size_t, std::vector<float>> rearranged_;
  std::deque<std::vector<float>> gathered_;  // slices that do not lie side by side
  std::set<std::size_t> checked_;
};

}  // namespace attnctl
