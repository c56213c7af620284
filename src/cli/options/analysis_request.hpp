#pragma once

#include <string>
#include <vector>

#include "analysis/mixing/rollout.hpp"
#include "analysis/patterns/adapters.hpp"
#include "cli/options/options.hpp"

namespace attnctl::cli {

/// The parsed options of `analyze` and `weights`.
struct AnalysisRequest {
  ModelOptions model;
  InputOptions inputs;
  SelectionOptions selection;
  OutputOptions output;
  RunOptions run;
  std::string from;             // --from: a token, a word or a position; empty: not given
  std::vector<std::string> to;  // --to
  std::string show;             // --show: a head L.H or a layer L; empty: not given
  bool by_word = false;         // --by-word
  PoolFrom pool_from = PoolFrom::mean;
  Weighting weighting = Weighting::weights;  // --weighting: weights of the shown patterns
  RolloutOptions rollout;                    // for rollout and flow
  std::string rollout_from;                  // --rollout-from, as for --from; empty: all positions
  std::vector<std::size_t> output_ranks;     // --output-rank; empty: powers of two
  bool output_rank = true;                   // false: --output-rank none
  bool with_inputs = true;                   // false: analyze the weights only
  bool include_given = false;                // --include is on the command line
};

/// Opens the model, computes the analyses and writes the results. Throws Error.
void run_analysis(AnalysisRequest options);

}  // namespace attnctl::cli
