#pragma once

#include <string>
#include <vector>

#include "attnctl/input.hpp"
#include "attnctl/results.hpp"
#include "attnctl/run.hpp"

namespace attn {

/// The analyses to compute, and the heads and threads to compute them with.
struct AnalyzeOptions {
  /// Words of `attnctl analyze --include`. Tables and tensors have the names, columns and shapes of its CSV
  /// tables and NPZ arrays (docs/cli.md).
  /// - "metrics": the table "heads", the metrics of each head over all inputs (docs/metrics.md)
  /// - "weights": the same table, with the metrics of the head's weights
  /// - "patterns": a tensor "pattern_I" [layers, heads, queries, keys] for each input I, or [selected heads,
  ///   queries, keys] if the selected heads differ between layers. In encoder-decoder models the name begins
  ///   with "enc_", "dec_" or "cross_".
  std::vector<std::string> include = {"metrics"};
  RunOptions run = {};
};

/// Computes analyses of a batch. Throws Error(usage) for an unknown word of `include`, and whatever run()
/// throws.
[[nodiscard]] Results analyze(const Batch& batch, const AnalyzeOptions& options = {});

}  // namespace attn
