#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/head_axes.hpp"
#include "analysis/patterns/attention_from.hpp"
#include "analysis/patterns/capture.hpp"
#include "analysis/patterns/pattern_metrics.hpp"
#include "analysis/weights/weights.hpp"
#include "base/error.hpp"
#include "forward/block.hpp"
#include "input/batch.hpp"
#include "inspect/catalogue.hpp"
#include "model/model.hpp"
#include "results/results.hpp"
#include "tokenizer/vocabulary.hpp"

namespace attnctl::inspect {

/// A captured array of one input. The shape of patterns, scores, queries and z is [layers, heads, ...]. Keys
/// and values are [layers, kv_heads, ...], the output is [layers, n, d], and logits are [n, vocabulary]. If
/// the selected heads differ between layers, one axis [selected] replaces the axes of layers and heads.
struct InputArray {
  analysis::Captured what = analysis::Captured::pattern;
  std::size_t sequence = 0;
  /// Index into RunResults::components. The array contains the heads of this component. 0 for logits.
  std::size_t component = 0;
  Tensor array;  // has values after the pass, except for NPZ, where they go to the file
};

/// All results of a run. results_of() converts them to the form of the request.
struct RunResults : AnalysisInput {
  std::vector<analysis::ComponentHeads> components;  // the selected heads of each component
  std::vector<analysis::HeadPatternMetrics> pattern_metrics = {};
  std::vector<InputArray> arrays = {};
  std::vector<analysis::AttentionQuestion> questions = {};  // --from and the words of --to in an input
  std::vector<analysis::AttentionAnswer> answers = {};      // ordered by question, then by head
  std::vector<Results> analyses = {};                       // in the order of Includes::analyses

  [[nodiscard]] const std::vector<model::HeadId>& heads_of(const InputArray& array) const {
    return components[array.component].selection.heads;
  }
  [[nodiscard]] forward::Sides sides(std::size_t sequence, std::size_t component = 0) const {
    return forward::sides_of(components[component].component, shown.sequences[sequence]);
  }
};

/// Returns the results in the form of the request; no results for Form::arrays. Some table rows are computed
/// on demand from `run`, which must outlive the results. In text, throws Error(usage) if --sort or
/// --columns names an unknown column.
[[nodiscard]] Results results_of(const RunResults& run);

/// Adds the first arrays of an NPZ file: ids_I of each input I that has ids, target_ids_I of each input I
/// that has a target, and `layers` and `heads` of each component.
void add_selection_arrays(ArrayOutput& out, const RunResults& run);
/// Adds an array for each metric of the heads table, with the name of its column and the axes of HeadAxes;
/// the first axis is that of the inputs with --per-input. Leaves out metrics that were not computed.
void add_heads_arrays(ArrayOutput& out, const RunResults& run);
/// Adds the arrays of the weights that --include selects: similarities, singular values and circuits of QK
/// and OV. Leaves out OV if a selected layer has no W_V or no W_O. The arrays of singular
/// values have k values per head for QK and min(k, v) for OV, where k is the query/key width and v the value
/// width. Adds the warning `singular_values_cut` if heads have more singular values.
void add_weights_arrays(ArrayOutput& out, const RunResults& run);

// The following functions each add one part of results_of(), in the form of the request.

/// Adds the inputs with their tokens, if there are inputs. In text, first adds a line with the name and sizes
/// of the model.
void add_inputs(Results& results, const RunResults& run);
/// Adds the heads table with the metrics of patterns and weights, if there are any. In documents, also the
/// list of metrics.
void add_heads(Results& results, const RunResults& run);
void add_weights(Results& results, const RunResults& run);
void add_patterns(Results& results, const RunResults& run);
void add_answers(Results& results, const RunResults& run);
void add_captured(Results& results, const RunResults& run);

/// Returns the attention on each input, for a page. It has the vectors of the neuron view if the run captured
/// queries, keys and scores.
[[nodiscard]] std::vector<Attention> attention_of(const RunResults& run);
/// Returns whether the queries, keys and scores of the selected heads are at most a million numbers, and have
/// vectors of one width. A page then includes them.
[[nodiscard]] bool fits_neuron_view(const forward::Selection& selection, const model::ModelConfig& config,
                                    const input::Batch& batch);

/// Return the number of values (numbers, texts and nulls) that the parts of results_of() have in JSON, before
/// they are computed: of add_heads(), of add_weights(), and of add_patterns(), add_answers() and
/// add_captured() together. Count directions of zero or undefined circuits, and weights of masked queries of
/// --from, although they are left out. Do not count directions and circuits in forms that do not show them.
[[nodiscard]] std::uint64_t values_of_heads(const RunResults& run);
[[nodiscard]] std::uint64_t values_of_weights(const RunResults& run);
[[nodiscard]] std::uint64_t values_of_patterns(const RunResults& run);

/// Adds a table of heads to a text page. If `left` is not 0, also adds a line that says how many heads (or,
/// in a table with a column "input", how many rows) the table leaves out. `advice` is the end of this line.
void append_heads(std::vector<PageBlock>& blocks, TextTable table, std::size_t left,
                  const std::string& advice = "");

/// Returns the columns of the table of heads by which --sort sorts.
[[nodiscard]] std::vector<std::string> sort_columns();

/// A run of `analyze` or `weights`. The constructor checks the request; run() computes the results.
class Inspection {
 public:
  /// `request`, and the model and vocabulary of `subject`, must outlive this object. Throws Error if the
  /// options of the request contradict each other or do not fit the subject, or if the run would exceed
  /// --limit or --memory.
  Inspection(const InspectRequest& request, InspectSubject subject, const forward::RunContext& context);
  Inspection(const Inspection&) = delete;
  Inspection& operator=(const Inspection&) = delete;

  /// Returns the results in the form InspectRequest::form. They must not outlive this object.
  [[nodiscard]] Results run();
  /// Computes the arrays and writes them to `out`. Large arrays are written while they are computed.
  void run(ArrayOutput& out);
  /// Returns the tables, after run(ArrayOutput&). They must not outlive this object.
  [[nodiscard]] Results tables() const;

 private:
  using SinkOf = std::function<ArraySink*(const InputArray& array)>;
  struct Observers;

  void check_components() const;
  void check_sort() const;
  void plan_words();
  void plan_questions();
  [[noreturn]] void refuse_from() const;
  void plan_arrays();
  void check_sizes();
  void plan_memory_use(std::uint64_t kept_values);
  void compute(const SinkOf& sink_of);

  const InspectRequest& request_;
  InspectSubject subject_;
  forward::RunContext context_;
  input::Batch words_;  // --by-word: the inputs as words; the results describe this batch
  RunResults found_;
  std::vector<std::unique_ptr<Analysis>> analyses_;
};

}  // namespace attnctl::inspect
