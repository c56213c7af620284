#include "forward/attention/attention_rows.hpp"

#include <algorithm>
#include <limits>

#include "linalg/kernels/kernels.hpp"

namespace attnctl::forward {

bool all_finite(MatrixView<const float> values) {
  for (std::size_t r = 0; r < values.rows; ++r) {
    if (!kernels().all_finite(values.row(r))) return false;
  }
  return true;
}

void weighted_sum_of_seen(MatrixView<const float> pattern, MatrixView<const float> v, MatrixView<float> z,
                          float beta) {
  for (std::size_t i = 0; i < pattern.rows; ++i) {
    const std::span<float> sum = z.row(i);
    if (beta == 0) std::fill(sum.begin(), sum.end(), 0.0F);
    for (std::size_t j = 0; j < pattern.cols; ++j) {
      const float weight = pattern(i, j);
      if (weight == 0) continue;
      for (std::size_t c = 0; c < v.cols; ++c) sum[c] += weight * v(j, c);
    }
  }
}

bool softmax_with_sink(std::span<const float> scores, float sink, std::vector<float>& room,
                       std::span<float> weights) {
  const bool some_visible = std::ranges::any_of(
      scores, [](float score) { return score != -std::numeric_limits<float>::infinity(); });
  room.assign(scores.begin(), scores.end());
  room.push_back(sink);
  kernels().softmax(room, room);
  std::copy_n(room.begin(), weights.size(), weights.begin());
  return some_visible;
}

MatrixView<const float> rows_of(MatrixView<const float> all, KeySteps rows) {
  return {all.data + rows.first * all.stride, rows.count, all.cols, rows.step * all.stride};
}

}  // namespace attnctl::forward
