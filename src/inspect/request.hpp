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

/// Order of the heads in matrices over heads: as in the model, or with similar heads adjacent.
enum class HeadOrder { model, cluster };

/// What to compute, for which heads, and what to show of it. Error messages name the members as options of
/// the command line.
struct InspectRequest {
  Includes includes;
  Selection selection;
  Form form = Form::document;
  std::string format = "json";  // name of the format, for messages

  // Weights
  bool across_layers = false;
  bool fold_norm = false;
  std::size_t directions = 5;
  HeadOrder order = HeadOrder::model;
  std::string similarity = "qk,ov";  // for the map of heads

  // Patterns
  bool per_input = false;
  std::string from;             // a token, a word or a position; empty: no question
  std::vector<std::string> to;  // words, for `from`
  bool draw = false;            // draw the patterns in text
  bool draw_layers = false;     // draw the mean of the heads of each layer before them
  bool by_word = false;
  PoolFrom pool_from = PoolFrom::mean;
  Weighting weighting = Weighting::weights;  // weighting of the patterns in the results

  // Mixing
  RolloutOptions rollout;                 // for rollout and flow
  std::string rollout_from;               // as for `from`; empty: all positions
  bool output_rank = true;                // contributions with W_O cut to ranks
  std::vector<std::size_t> output_ranks;  // empty: powers of two

  // Text
  std::string sort;                // column of the heads
  std::optional<std::size_t> top;  // number of heads, or of keys for `from`

  std::uint64_t limit = 50'000'000;  // largest number of values in a text format
  std::uint64_t memory = 0;          // bytes; 0: no limit
};

/// The model and the inputs of a run.
struct InspectSubject {
  const Model& model;
  const Vocabulary& vocabulary;
  Batch batch = {};                    // empty: only the weights
  std::optional<AxialGrid> grid = {};  // the batch holds the columns and rows of this grid
};

}  // namespace attnctl::inspect
