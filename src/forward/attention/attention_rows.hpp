#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/matrix_view.hpp"
#include "forward/attention/visibility.hpp"

namespace attnctl::forward {

/// Neither infinite nor NaN.
[[nodiscard]] bool all_finite(MatrixView<const float> values);

/// z = pattern v + beta z over the keys of weight above zero alone: 0 times NaN of a hidden key must not
/// leak.
void weighted_sum_of_seen(MatrixView<const float> pattern, MatrixView<const float> v, MatrixView<float> z,
                          float beta);

/// One more score takes part in the softmax, of which no weight is kept; `room` is memory for both. Returns
/// whether any key is visible.
bool softmax_with_sink(std::span<const float> scores, float sink, std::vector<float>& room,
                       std::span<float> weights);

/// Rows first, first + step, ... of a matrix.
[[nodiscard]] MatrixView<const float> rows_of(MatrixView<const float> all, KeySteps rows);

/// The part of a matrix of many heads that is one head's in one sequence.
template <typename T>
MatrixView<T> head_part(MatrixView<T> all, std::size_t first_row, std::size_t rows, std::size_t head,
                        std::size_t width) {
  if (all.data == nullptr) return {};
  return all.row_range(first_row, rows).col_range(head * width, width);
}

}  // namespace attnctl::forward
