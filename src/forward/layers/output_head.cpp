#include "forward/layers/output_head.hpp"

#include <algorithm>

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
  constexpr std::size_t kMostElements = std::size_t{1} << 21U;  // 8 MiB of logits
  constexpr std::size_t kFewestRows = 16;
  return std::max(kFewestRows, kMostElements / std::max<std::size_t>(vocabulary, 1));
}

MatrixView<const float> OutputHead::logits(MatrixView<const float> x) {
  const HeadConfig& config = model_.config().head;
  const Lease<HeadWeights> lease = model_.head();
  const HeadWeights& weights = *lease;
  MatrixView<float> stream = normed_.take(x.rows, x.cols);
  apply_norm(pool_, model_.config().final_norm, model_.final_norm(), x, stream);
  if (weights.projection.present()) {
    const MatrixView<float> out = projected_.take(x.rows, weights.projection.out());
    run_dense(pool_, Dense{stream, weights.projection, out});
    stream = out;
  }
  if (config.transform) {
    const MatrixView<float> out = transformed_.take(x.rows, weights.transform.out());
    run_dense(pool_, Dense{stream, weights.transform, out, config.activation});
    apply_norm(pool_, config.norm, weights.transform_norm, out, out);
    stream = out;
  }
  const MatrixView<float> logits = logits_.take(x.rows, weights.decoder.out());
  run_dense(pool_, Dense{stream, weights.decoder, logits});
  for_row_ranges(pool_, logits.rows, logits.cols, [&](std::size_t first, std::size_t count) {
    for (std::size_t r = first; r < first + count; ++r) scale_logits(config, logits.row(r));
  });
  return logits;
}

}  // namespace attnctl::forward
