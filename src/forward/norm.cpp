#include "forward/norm.hpp"

#include "attnctl/linalg/kernels.hpp"

#include <algorithm>

#include "forward/rows.hpp"

namespace attnctl::forward {
namespace {

void norm_row(const NormConfig& config, const NormWeights& weights, std::span<const float> x,
              std::span<float> out) {
  switch (config.kind) {
    case NormKind::layer:
      return kernels().layer_norm(x, weights.gain, weights.bias, config.eps, out);
    case NormKind::rms:
      return kernels().rms_norm(x, weights.gain, config.gain_offset, config.eps, out);
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

void add_rows(Pool& pool, MatrixView<const float> y, MatrixView<float> x) {
  for_row_ranges(pool, x.rows, x.cols, [&](std::size_t first, std::size_t count) {
    for (std::size_t r = first; r < first + count; ++r) kernels().add(y.row(r), x.row(r));
  });
}

}  // namespace attnctl::forward
