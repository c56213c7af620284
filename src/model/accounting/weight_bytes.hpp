#pragma once

#include <algorithm>
#include <cstdint>
#include <set>

#include "checkpoint/checkpoint.hpp"
#include "model/binding/binding.hpp"

namespace attnctl {

/// What parts of a model take in memory as float32, before any of it is read: each tensor once, copies of
/// slices that do not lie side by side, and what the largest conversion holds beside its result.
class WeightBytes {
 public:
  explicit WeightBytes(const Checkpoint& weights) : weights_(weights) {}

  WeightBytes& add(const BoundLinear& linear);
  WeightBytes& add(const BoundNorm& norm);
  WeightBytes& add(const BoundMlp& mlp);
  WeightBytes& add_attention(const BoundLayer& layer);
  WeightBytes& add_layer(const BoundLayer& layer);
  /// Of a table of which `rows` rows at most are looked up.
  WeightBytes& add_table(std::size_t tensor, std::size_t rows);

  [[nodiscard]] std::uint64_t total() const { return kept_ + conversion_; }

 private:
  void add(const BoundMatrix& matrix);
  void add(const BoundVector& vector);
  void add_tensor(std::size_t tensor);

  const Checkpoint& weights_;
  std::set<std::size_t> tensors_;
  std::uint64_t kept_ = 0;
  std::uint64_t conversion_ = 0;
};

}  // namespace attnctl
