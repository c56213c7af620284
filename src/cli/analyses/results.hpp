#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "analysis/head_axes.hpp"
#include "analysis/heads_table.hpp"
#include "analysis/patterns/attention_from.hpp"
#include "analysis/patterns/norm_weighting.hpp"
#include "analysis/patterns/pattern_metrics.hpp"
#include "analysis/weights/weights.hpp"
#include "cli/analyses/analysis_part.hpp"
#include "cli/options/options.hpp"
#include "forward/run.hpp"
#include "forward/sides.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"
#include "results/results.hpp"
#include "tokenizer/vocabulary.hpp"

namespace attnctl::cli {

/// A captured array of one input, in the shape of the NPZ: [layers, heads, ...], or [selected, ...] if the
/// selection is ragged. Keys and values have [layers, kv_heads, ...], the output [layers, n, d], and logits
/// [n, vocabulary].
struct InputArray {
  std::string name;  // "pattern", "scores", "queries", "keys", "values", "z", "output", "logits"
  std::size_t sequence = 0;
  std::size_t component = 0;  // index into RunResults::components; the array has the heads of this component
  Array array;
};

/// The positions of --from and --to in one input, for the selected component.
struct Question {
  AttentionQuestion positions;
  std::string from;             // --from, as given
  std::vector<std::string> to;  // words of --to that the input contains, as given
};

/// The results of `analyze` and `weights`. Each format has its own writer (document, tables, NPZ, summary,
/// pictures).
struct RunResults {
  const Model& model;
  const Vocabulary& vocabulary;
  const Batch& batch;  // empty for `weights`
  const Selection& selection;
  std::vector<ComponentHeads> components;  // the selection, split by component
  const Includes& includes;
  bool fold_norm = false;
  HeadOrder order = HeadOrder::model;
  Weighting weighting = Weighting::weights;  // weighting of the patterns
  bool show = false;                         // draw the patterns (--show)
  bool show_layers = false;                  // --show names a layer: draw all its heads, and their mean first

  const std::optional<WeightsAnalysis>& weights;
  std::vector<HeadPatternMetrics> pattern_metrics;
  std::vector<InputArray> arrays;
  std::vector<Question> questions;
  std::vector<AttentionAnswer> answers;  // ordered by question, then by head
  std::vector<Results> parts;            // results of the further analyses, in the order of part_rows()

  [[nodiscard]] const ModelConfig& config() const { return model.config(); }
  [[nodiscard]] const std::vector<HeadId>& heads_of(const InputArray& array) const {
    return components[array.component].selection.heads;
  }
  [[nodiscard]] Sides sides(Component component, std::size_t sequence) const {
    return sides_of(component, batch.sequences[sequence]);
  }
  [[nodiscard]] Sides sides(const InputArray& array) const {
    return sides(components[array.component].component, array.sequence);
  }

  /// Returns whether there are results of single heads.
  [[nodiscard]] bool has_heads() const { return weights.has_value() || !pattern_metrics.empty(); }
  [[nodiscard]] Table heads(HeadColumns columns) const {
    return heads_table({.config = model.config(),
                        .selection = selection,
                        .weights = weights ? &*weights : nullptr,
                        .patterns = pattern_metrics,
                        .batch = &batch},
                       columns);
  }
};

}  // namespace attnctl::cli
