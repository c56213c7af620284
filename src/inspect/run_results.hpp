#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "analysis/head_axes.hpp"
#include "analysis/patterns/attention_from.hpp"
#include "analysis/patterns/pattern_metrics.hpp"
#include "analysis/weights/weights.hpp"
#include "base/warnings.hpp"
#include "forward/block.hpp"
#include "input/batch.hpp"
#include "inspect/request.hpp"
#include "model/model.hpp"
#include "results/results.hpp"
#include "tokenizer/vocabulary.hpp"

namespace attnctl::inspect {

/// A captured array of one input: [layers, heads, ...], or [selected, ...] if the selection is ragged. Keys
/// and values have [layers, kv_heads, ...], the output [layers, n, d], and logits [n, vocabulary].
struct InputArray {
  std::string name;  // "pattern", "scores", "queries", "keys", "values", "z", "output", "logits"
  std::size_t sequence = 0;
  std::size_t component = 0;  // index into RunResults::components; the array has the heads of this component
  Tensor array;
};

/// The positions of --from and --to in one input, for the selected component.
struct Question {
  AttentionQuestion positions;
  std::string from;             // --from, as given
  std::vector<std::string> to;  // words of --to that the input contains, as given
};

/// Everything that a run found. results_of() puts it into the form of the request.
struct RunResults {
  const InspectRequest& request;
  const Model& model;
  const Vocabulary& vocabulary;
  const Batch& batch;  // that the results describe: the inputs, or their words under --by-word; may be empty
  Warnings& warnings;
  std::vector<ComponentHeads> components;  // the selection, split by component

  std::optional<WeightsAnalysis> weights = {};
  std::vector<HeadPatternMetrics> pattern_metrics = {};
  std::vector<InputArray> arrays = {};
  std::vector<Question> questions = {};
  std::vector<AttentionAnswer> answers = {};  // ordered by question, then by head
  std::vector<Results> analyses = {};         // in the order of Includes::analyses

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
};

/// Returns the results in the form of the request. Tables are computed on demand and borrow from `run`.
/// Throws Error(usage) for an unknown column in --sort.
[[nodiscard]] Results results_of(const RunResults& run);

/// Adds the first arrays of an NPZ: ids_I, target_ids_I, and `layers` and `heads` of each component.
void add_selection_arrays(ArrayOutput& out, const RunResults& run);
/// Adds the arrays of the weights: qk_similarity, qk_effective_rank, qk_singular_values, qk_circuit, and the
/// same for OV. The array of the singular values of OV has min(k, v) values per head. If values are wider
/// than queries, adds the warning `singular_values_cut`.
void add_weights_arrays(ArrayOutput& out, const RunResults& run);

// The parts of results_of(), each in the form of the request.

/// The inputs with their tokens. In text, also the title of the page.
[[nodiscard]] Results input_results(const RunResults& run);
/// The catalogue of metrics, and the table of heads with the metrics of patterns and weights.
[[nodiscard]] Results head_results(const RunResults& run);
/// Similarity, ranks and directions of heads, and whole circuits.
[[nodiscard]] Results weights_results(const RunResults& run);
[[nodiscard]] Results pattern_results(const RunResults& run);
/// The answers to --from.
[[nodiscard]] Results answer_results(const RunResults& run);
/// The captured arrays other than patterns, for documents.
[[nodiscard]] Results array_results(const RunResults& run);

}  // namespace attnctl::inspect
