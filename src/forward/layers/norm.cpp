#include "forward/layers/norm.hpp"

#include <algorithm>

#include "forward/attention/rows.hpp"
#include "linalg/kernels/kernels.hpp"

namespace attnctl::forward {
namespace {

void norm_row(const NormConfig& config, const NormWeights& weights, std::span<const float> x,
              std::span<float> out) {
  switch (config.kind) {
    case NormKind::layer:
      return kernels().layer_norm(x, weights.gain, weights.bias, config.eps, out);
    case NormKind::rms:
      return kernels().rms_norm(x, weights.gain, config.eps, out);
    case NormKind::none:
      if (x.data() != out.data()) std::copy(x.begin(), x.end(), out.begin());
  }
}

}  // namespace

void apply_norm(Pool& pool, const NormConfig& config, const NormWeights& weights, MatrixView<const float> x,
                MatrixView<float> out) {
  if (config.kind == NormKind::none && x.data == out.data) return;
  for_row_ranges(pool, x.rows, x.cols, [&](std::size_t first, std::size_t count) {
    for (std::size_t r = first; r < first + count; ++r) norm_row(config, weights, x.row(r), out.row(r));
  });
}

NormWeights head_gains(const AttentionConfig& config, const NormWeights& norm, std::size_t head) {
  if (config.head_norm_span != HeadNormSpan::each) return norm;
  const auto part = [&](std::span<const float> all) {
    return all.empty() ? all : all.subspan(head * config.d_head, config.d_head);
  };
  return {part(norm.gain), part(norm.bias)};
}

void add_rows(Pool& pool, MatrixView<const float> y, MatrixView<float> x, float factor) {
  for_row_ranges(pool, x.rows, x.cols, [&](std::size_t first, std::size_t count) {
    for (std::size_t r = first; r < first + count; ++r) {
      if (factor == 1) {
        kernels().add(y.row(r), x.row(r));
      } else {
        for (std::size_t c = 0; c < x.cols; ++c) x(r, c) += factor * y(r, c);
      }
    }
  });
}

}  // namespace attnctl::forward
