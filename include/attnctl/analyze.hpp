#pragma once

#include <string>
#include <vector>

#include "attnctl/input.hpp"
#include "attnctl/results.hpp"
#include "attnctl/run.hpp"

namespace attn {

/// Options of analyze(): the analyses to compute, the heads to analyze and the number of threads.
struct AnalyzeOptions {
  /// The analyses to compute. The words are those of `attnctl analyze --include` (docs/cli.md):
  /// - "metrics": the table "heads", with the metrics of each head over all inputs (docs/metrics.md).
  /// - "weights": the table "heads", with metrics of the heads' weights; the tables "subspace_similarity" and
  ///   "singular_values"; and tensors of similarities, effective ranks and singular values.
  /// - "patterns": for input number I (from 0), a tensor "pattern_I" [layers, heads, queries, keys]. If the
  ///   selected heads differ between layers, the shape is [selected heads, queries, keys]. In encoder-decoder
  ///   models the name begins with "enc_", "dec_" or "cross_".
  /// - "scores", "queries", "keys", "values", "z", "output", "logits": other tensors of the forward pass.
  /// - "subspaces", "composition", "map", "rollout", "flow", "contributions", "mixing", "routing" and others:
  ///   one analysis each. "directions" adds neither a table nor a tensor.
  std::vector<std::string> include = {"metrics"};
  RunOptions run = {};
};

/// Computes analyses of a batch. Returns the tables that `attnctl analyze` writes as CSV (except those of
/// patterns and inputs) and the arrays that it writes as NPZ. Names, columns and shapes are those of the
/// command. Throws Error(usage) for an unknown word in `include`; the message lists the known words. Throws
/// Error(usage) or Error(bad_input) if an analysis does not support the model or the selected heads. Also
/// throws the errors of run().
[[nodiscard]] Results analyze(const Batch& batch, const AnalyzeOptions& options = {});

}  // namespace attn
