#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "analysis/patterns/capture.hpp"
#include "inspect/catalogue.hpp"
#include "inspect/memory_plan.hpp"
#include "inspect/request.hpp"
#include "inspect/run_results.hpp"

namespace attnctl::inspect {

/// One run of `analyze` or `weights`. The constructor resolves and checks the request before any work; run()
/// computes.
class Inspection {
 public:
  /// The request, and the model and the vocabulary of the subject, must outlive this object. Throws Error if
  /// the request contradicts itself or the subject, or if it exceeds --limit or --memory.
  Inspection(const InspectRequest& request, InspectSubject subject, const RunContext& context);
  Inspection(const Inspection&) = delete;
  Inspection& operator=(const Inspection&) = delete;

  /// Computes and returns the results in the form of the request. They borrow from this object.
  [[nodiscard]] Results run();
  /// Computes and writes the arrays, the large ones while they are computed.
  void run(ArrayOutput& out);
  /// Returns the tables of heads, weights and analyses after run(ArrayOutput&). They borrow from this object.
  [[nodiscard]] Results tables() const;

 private:
  /// An array of the forward pass to capture.
  struct Part {
    Captured what;
    std::size_t sequence;
    std::size_t component;  // index into the components of the results
    Shape shape;
  };
  using Targets = std::vector<std::vector<CaptureTarget>>;  // [components]
  class Observers;

  /// Returns the batch that the results describe.
  [[nodiscard]] const Batch& shown() const { return request_.by_word ? words_ : subject_.batch; }
  void check_components() const;
  void plan_words();
  void plan_questions();
  void plan_parts();
  void check_sizes();
  void plan_memory_use(std::uint64_t kept_values);
  [[nodiscard]] Selection heads_of(HeadsSeen seen) const;
  void compute(const Targets& targets);
  void run_pass(const Targets& targets);

  const InspectRequest& request_;
  const ModelConfig& config_;
  InspectSubject subject_;
  RunContext context_;
  Batch words_;                   // --by-word: batch that the results describe
  std::vector<WordUnits> units_;  // --by-word: words of each sequence
  RunResults found_;
  std::vector<Part> parts_;
  std::vector<std::unique_ptr<Analysis>> analyses_;
  bool streamed_ = false;  // release the weights of each layer after use
};

}  // namespace attnctl::inspect
