#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "analysis/patterns/capture.hpp"
#include "inspect/catalogue.hpp"
#include "inspect/memory_plan.hpp"
#include "inspect/run_results.hpp"

namespace attnctl::inspect {

/// A run of `analyze` or `weights`. The constructor checks the request; run() computes the results.
class Inspection {
 public:
  /// `request`, and the model and vocabulary of `subject`, must outlive this object. Throws Error if the
  /// options of the request contradict each other or do not fit the subject, or if the run would exceed
  /// --limit or --memory.
  Inspection(const InspectRequest& request, InspectSubject subject, const forward::RunContext& context);
  Inspection(const Inspection&) = delete;
  Inspection& operator=(const Inspection&) = delete;

  /// Computes the results and returns them in the form InspectRequest::form. The results must not outlive
  /// this object.
  [[nodiscard]] Results run();
  /// Computes the arrays and writes them to `out`. Large arrays are written while they are computed.
  void run(ArrayOutput& out);
  /// Returns the tables of heads, weights and analyses. Call after run(ArrayOutput&). The tables must not
  /// outlive this object.
  [[nodiscard]] Results tables() const;

 private:
  using Targets = std::vector<std::vector<analysis::CaptureTarget>>;  // [components]
  struct Observers;

  /// Returns the batch that the results describe.
  [[nodiscard]] const input::Batch& shown() const { return request_.by_word ? words_ : subject_.batch; }
  void check_components() const;
  void plan_words();
  void plan_questions();
  void plan_arrays();
  void check_sizes();
  void plan_memory_use(std::uint64_t kept_values);
  template <typename SinkOf>
  [[nodiscard]] Targets targets_of(SinkOf sink_of) const;
  [[nodiscard]] forward::Selection heads_of(HeadsSeen seen) const;
  void compute(const Targets& targets);
  void run_pass(const Targets& targets);

  const InspectRequest& request_;
  const model::ModelConfig& config_;
  InspectSubject subject_;
  forward::RunContext context_;
  input::Batch words_;                   // --by-word: the inputs as words; the results describe this batch
  std::vector<input::WordUnits> units_;  // --by-word: for each sequence, the word of each token
  RunResults found_;
  std::vector<std::unique_ptr<Analysis>> analyses_;
  bool streamed_ = false;  // release the weights of each layer after its use, to fit into --memory
};

}  // namespace attnctl::inspect
