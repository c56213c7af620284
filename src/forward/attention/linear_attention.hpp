#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/matrix_view.hpp"
#include "forward/attention/visibility.hpp"

namespace attnctl::forward {

/// One head of linear attention over one sequence, with phi(x) = elu(x) + 1. z comes from running sums of
/// phi(k) v^T and phi(k) in float64, in time and memory linear in the length. A causal mask makes them prefix
/// sums.
class LinearHead {
 public:
  /// `v` is empty if z is not needed. Set `patterns` if weights() will be called.
  LinearHead(MatrixView<const float> q, MatrixView<const float> k, MatrixView<const float> v,
             const Visibility& visibility, bool patterns);

  /// Writes z of query i [v]. Call it for ascending queries. Returns the sum of phi(q) phi(k) over the
  /// visible keys; nullopt, and a z of zeros, if there are none.
  std::optional<double> next(std::size_t i, std::span<float> z);

  /// Writes phi(q) phi(k)^T / sums to out [sums, keys of range] for queries first, first + 1, ... It includes
  /// keys that the sequence hides.
  void weights(std::size_t first, std::span<const double> sums, KeyRange range, MatrixView<float> out);

 private:
  void add_key(std::size_t j);

  MatrixView<const float> q_, k_, v_;
  const Visibility& visibility_;
  std::size_t added_ = 0;                    // the sums hold the visible ones of keys [0, added_)
  bool any_ = false;                         // at least one key was visible
  std::vector<double> key_sums_, products_;  // [k], [k, v]
  std::vector<double> total_;                // [v], of one query
  std::vector<float> key_features_;          // [m, k]; empty without patterns
  std::vector<float> query_features_;        // [rows, k], of a panel
};

}  // namespace attnctl::forward
