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
#include "forward/block.hpp"
#include "forward/run.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"
#include "results/result.hpp"
#include "tokenizer/vocabulary.hpp"

namespace attnctl::cli {

/// An array of the pass of one input, in the shape of the NPZ: [layers, heads, ...], [selected, ...] where
/// the selection is ragged, [layers, kv_heads, ...] of keys and values, [layers, n, d] of the output, [n,
/// vocabulary] of logits.
struct InputArray {
  std::string name;  // "pattern", "scores", "queries", "keys", "values", "z", "output", "logits"
  std::size_t sequence = 0;
  std::size_t component = 0;  // of RunResults::components, whose heads are its axes
  Array array;
};

/// --from and --to in one input, of the component that is selected.
struct Question {
  AttentionQuestion positions;
  std::string from;             // as asked
  std::vector<std::string> to;  // as asked, those that the input has
};

/// What `analyze` and `weights` computed; each format shows it in its own way (document, tables, NPZ,
/// summary, pictures).
struct RunResults {
  const Model& model;
  const Vocabulary& vocabulary;
  const Batch& batch;  // empty for `weights`
  const Selection& selection;
  std::vector<ComponentHeads> components;  // the same by component
  const Includes& includes;
  bool fold_norm = false;
  HeadOrder order = HeadOrder::model;
  Weighting weighting = Weighting::weights;  // of the patterns
  bool show = false;                         // --show: patterns are drawn
  bool show_layers = false;                  // all heads of a layer, their mean first

  const std::optional<WeightsAnalysis>& weights;
  std::vector<HeadPatternMetrics> pattern_metrics;
  std::vector<InputArray> arrays;
  std::vector<Question> questions;
  std::vector<AttentionAnswer> answers;  // by question, then head
  std::vector<Results> parts;            // of the registry, in its order

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

  /// True where there is anything to say of single heads.
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
