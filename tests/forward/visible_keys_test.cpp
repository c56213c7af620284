#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "forward/attention/visibility.hpp"
#include "support/capture.hpp"
#include "support/golden.hpp"

namespace attnctl::test {
namespace {

TEST_CASE("visible keys are those with finite scores for every kind of attention") {
  struct Row {
    const char* model;  // "bert" is not causal, "gpt2" is
    const char* kind;
  };
  const std::vector<Row> rows = {{"bert", "full"},      {"gpt2", "full"},      {"bert", "window:3"},
                                 {"gpt2", "window:3"},  {"bert", "block:4"},   {"gpt2", "block:4"},
                                 {"bert", "strided:3"}, {"gpt2", "strided:3"}, {"gpt2", "strided:1"}};
  for (const Row& row : rows) {
    CAPTURE(row.model);
    CAPTURE(row.kind);
    Warnings warnings;
    const std::size_t layers[] = {0};
    const Model model = bind_model(std::string(ATTNCTL_SOURCE_DIR "/tests/golden/") + row.model, warnings)
                            .with_attention(*parse_attention_kind(row.kind), layers);
    Batch batch;
    batch.sequences.resize(2);
    batch.sequences[0].ids = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    batch.sequences[1] = batch.sequences[0];
    batch.sequences[1].key_visible = {0, 1, 1, 1, 0, 0, 1, 1, 1, 0};
    const std::vector<CapturedSequence> captured = capture_all(model, batch);
    for (std::size_t s = 0; s < 2; ++s) {
      const VisibleKeys visible(model.config().layers[0].attention, batch.sequences[s]);
      const OwnedMatrix<float>& scores = captured[s].heads.at({0, 0}).scores;
      for (std::size_t i = 0; i < scores.rows(); ++i) {
        std::vector<std::size_t> shown(scores.cols() + 1);  // number of visible keys before key j
        for (std::size_t j = 0; j < scores.cols(); ++j) {
          const bool hidden = std::isinf(scores(i, j)) && scores(i, j) < 0;
          CHECK(visible.shows(i, j) == !hidden);
          shown[j + 1] = shown[j] + (hidden ? 0 : 1);
        }
        CHECK(visible.count(i) == shown.back());
        for (std::size_t first = 0; first < shown.size(); ++first) {
          for (std::size_t last = first; last < shown.size(); ++last)
            CHECK(visible.count(i, first, last) == shown[last] - shown[first]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace attnctl::test
