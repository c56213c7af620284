#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/matrix_view.hpp"
#include "forward/attention/visibility.hpp"

namespace attnctl::forward {

/// elu(x) + 1: x + 1 above 0, exp(x) elsewhere; never 0 in double but for x below -745.
[[nodiscard]] double linear_feature(float x);

/// One head of linear attention over one sequence, its queries taken in order: z from running sums over the
/// keys, phi(k) v^T and phi(k), in time and memory linear in the length. A causal mask makes them prefix
/// sums; keys that the sequence hides are left out. Sums are in double.
class LinearHead {
 public:
  /// v: empty where no z is wanted. `patterns`: weights() will be called.
  LinearHead(MatrixView<const float> q, MatrixView<const float> k, MatrixView<const float> v,
             const Visibility& visibility, bool patterns);

  /// z of query i, [v] or empty; the queries come in order. Returns the sum over the visible keys of
  /// phi(q) phi(k), nullopt (and a z of zeros) where there is none.
  std::optional<double> next(std::size_t i, std::span<float> z);

  /// phi(q) phi(k)^T over their sums, [sums, keys of range], for queries first.. on; of keys that are hidden
  /// as well.
  void weights(std::size_t first, std::span<const double> sums, KeyRange range, MatrixView<float> out);

 private:
  void add_key(std::size_t j);

  MatrixView<const float> q_, k_, v_;
  const Visibility& visibility_;
  std::size_t added_ = 0;                    // keys [0, added_) are in the sums, as far as they are visible
  bool any_ = false;                         // one of them is
  std::vector<double> key_sums_, products_;  // [k], [k, v]
  std::vector<double> total_;                // [v], of a query
  std::vector<float> key_features_;          // [m, k]; empty without patterns
  std::vector<float> query_features_;        // [rows, k] of a panel
};

}  // namespace attnctl::forward
