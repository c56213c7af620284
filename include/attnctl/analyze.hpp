#pragma once

#include <string>
#include <vector>

#include "attnctl/input.hpp"
#include "attnctl/results.hpp"
#include "attnctl/run.hpp"

namespace attn {

/// The analyses to compute, and the heads and threads to compute them with.
struct AnalyzeOptions {
  /// Words of `attnctl analyze --include` (docs/cli.md):
  /// - "metrics": the table "heads", with the metrics of each head over all inputs (docs/metrics.md)
  /// - "weights": the same table, with metrics of the weights; also the similarity of heads, and the singular
  ///   values and ranks of their circuits
  /// - "patterns": a tensor "pattern_I" [layers, heads, queries, keys] for each input I, or [selected heads,
  ///   queries, keys] if the selected heads differ between layers. In encoder-decoder models the name begins
  ///   with "enc_", "dec_" or "cross_".
  /// - "scores", "queries", "keys", "values", "z", "output", "logits": further tensors of the forward pass
  /// - "subspaces", "composition", "map", "rollout", "flow", "contributions", "mixing", "routing", ...: the
  ///   other analyses
  std::vector<std::string> include = {"metrics"};
  RunOptions run = {};
};

/// Computes analyses of a batch. Returns the tables that the command writes as CSV, except those of patterns
/// and inputs, and the arrays that it writes as NPZ, with the same names, columns and shapes. Throws
/// Error(usage), which lists the words, for an unknown word of `include`, Error(bad_input) if the model lacks
/// what an analysis needs, and whatever run() throws.
[[nodiscard]] Results analyze(const Batch& batch, const AnalyzeOptions& options = {});

}  // namespace attn
