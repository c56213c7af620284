#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "base/matrix_view.hpp"
#include "forward/run.hpp"

namespace attnctl::test {

/// The captured values of one head for one sequence, with the rows of all panels joined.
struct CapturedHead {
  OwnedMatrix<float> pattern, scores, z, q;
  OwnedMatrix<float> k, v;
  std::vector<std::uint8_t> fully_masked;  // [n]; 2 if no panel contained the row
  std::size_t panels = 0;
};

struct CapturedSequence {
  std::map<model::HeadId, CapturedHead> heads;
  std::map<std::size_t, OwnedMatrix<float>> output;  // by layer
  OwnedMatrix<float> logits;                         // [n, V]; empty if not reported
};

/// An observer that stores everything that a pass reports.
class Capture : public forward::Observer {
 public:
  explicit Capture(
      forward::Selection selection,
      forward::Needs needs = {.scores = true, .values = true, .z = true, .output = true, .logits = true})
      : selection_(std::move(selection)), needs_(needs) {}
  [[nodiscard]] forward::Needs needs() const override { return needs_; }
  void begin(const model::Model& model, const input::Batch& batch) override;
  void panel(const forward::AttentionPanel& panel) override;
  void output(std::size_t sequence, std::size_t layer, MatrixView<const float> values) override;
  void logits(std::size_t sequence, std::size_t first_query, MatrixView<const float> values) override;

  std::vector<CapturedSequence> sequences;

 private:
  forward::Selection selection_;
  forward::Needs needs_;
  std::vector<std::size_t> lengths_;  // number of rows of the logits of each sequence
};

/// Options of a pass. The defaults are those of RunContext.
struct PassOptions {
  std::size_t threads = 1;
  std::size_t panel_rows = 128;
  std::size_t packed_rows = 1024;
  std::size_t streamed_rows = 0;
};

/// Runs all heads of a model and returns everything that the pass reports.
[[nodiscard]] std::vector<CapturedSequence> capture_all(const model::Model& model, const input::Batch& batch,
                                                        const PassOptions& options = {});

}  // namespace attnctl::test
