#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/axial.hpp"
#include "analysis/mixing/rollout.hpp"
#include "analysis/patterns/adapters.hpp"
#include "forward/run.hpp"
#include "input/batch.hpp"
#include "inspect/catalogue.hpp"
#include "model/model.hpp"
#include "tokenizer/vocabulary.hpp"

namespace attnctl::inspect {

/// Order of the heads in matrices over heads: as in the model, or clustered so that similar heads are
/// adjacent.
enum class HeadOrder { model, cluster };

/// The options of a run: what to compute, for which heads, and what to output. Error messages use the names
/// of the command-line options.
struct InspectRequest {
  Includes includes;
  Selection selection;
  Form form = Form::document;
  std::string format = "json";  // name of the format in messages

  // Weights
  bool across_layers = false;
  bool fold_norm = false;
  std::size_t directions = 5;
  HeadOrder order = HeadOrder::model;
  std::string similarity = "qk,ov";  // similarities for --include map, separated by commas

  // Patterns
  bool per_input = false;
  std::string from;             // --from: a token, a word or a position; empty if not given
  std::vector<std::string> to;  // --to: key words of --from
  bool draw = false;            // --show: draw the patterns in text
  bool draw_layers = false;     // also draw the mean pattern of each layer
  bool by_word = false;
  PoolFrom pool_from = PoolFrom::mean;
  Weighting weighting = Weighting::weights;  // weighting of the patterns in the results

  // Mixing
  RolloutOptions rollout;    // for rollout and flow
  std::string rollout_from;  // a token, a word or a position; empty: all positions
  bool output_rank = true;   // contributions: also compute the output with W_O reduced to lower ranks
  std::vector<std::size_t> output_ranks;  // ranks for output_rank; empty: powers of two

  // Text
  std::string sort;                // column by which the heads are sorted; empty: model order
  std::optional<std::size_t> top;  // maximum number of heads in a table, or of keys per head for --from

  std::uint64_t limit = 50'000'000;  // maximum number of values in a text format
  std::uint64_t memory = 0;          // bytes; 0: no limit
};

/// The model and the inputs of a run.
struct InspectSubject {
  const Model& model;
  const Vocabulary& vocabulary;
  Batch batch = {};                    // empty: the run uses only weights
  std::optional<AxialGrid> grid = {};  // for axial attention: `batch` comes from make_axial
};

}  // namespace attnctl::inspect
