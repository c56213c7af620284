#include "forward/attention/head.hpp"

#include <algorithm>

#include "forward/attention/rows.hpp"
#include "forward/layers/dense.hpp"
#include "forward/layers/norm.hpp"
#include "linalg/kernels/kernels.hpp"

namespace attnctl::forward {

namespace {

void scale_logits(const HeadConfig& config, std::span<float> logits) {
  if (config.multiplier != 1) kernels().scale(double{config.multiplier}, logits);
  if (config.soft_cap == 0) return;
  kernels().scale(1 / double{config.soft_cap}, logits);
  kernels().tanh(logits);
  kernels().scale(double{config.soft_cap}, logits);
}

}  // namespace

std::size_t logits_rows(std::size_t vocabulary) {
  constexpr std::size_t most_elements = std::size_t{1} << 21U;  // 8 MiB of logits
  constexpr std::size_t fewest_rows = 16;
  return std::max(fewest_rows, most_elements / std::max<std::size_t>(vocabulary, 1));
}

MatrixView<const float> OutputHead::logits(MatrixView<const float> x) {
  const HeadConfig& config = model_.config().head;
  const Lease<HeadWeights> lease = model_.head();
  const HeadWeights& weights = *lease;
  MatrixView<float> stream = normed_.take(x.rows, x.cols);
  apply_norm(pool_, model_.config().final_norm, model_.final_norm(), x, stream);
  if (weights.projection.present()) {
    const MatrixView<float> out = projected_.take(x.rows, weights.projection.out());
    const Dense projection{stream, weights.projection, out};
    run_dense(pool_, {&projection, 1});
    stream = out;
  }
  if (config.transform) {
    const MatrixView<float> out = transformed_.take(x.rows, weights.transform.out());
    const Dense transform{stream, weights.transform, out, config.activation};
    run_dense(pool_, {&transform, 1});
    apply_norm(pool_, config.norm, weights.transform_norm, out, out);
    stream = out;
  }
  const Dense decoder{stream, weights.decoder, logits_.take(x.rows, weights.decoder.out())};
  run_dense(pool_, {&decoder, 1});
  for_row_ranges(pool_, x.rows, decoder.out.cols, [&](std::size_t first, std::size_t count) {
    for (std::size_t r = first; r < first + count; ++r) scale_logits(config, decoder.out.row(r));
  });
  return decoder.out;
}

}  // namespace attnctl::forward
