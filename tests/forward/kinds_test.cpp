#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "analysis/axial.hpp"
#include "forward/attention/visibility.hpp"
#include "model/config/config.hpp"
#include "support/capture.hpp"
#include "support/golden.hpp"
#include "support/refusal.hpp"

using attnctl::MatrixView;
using attnctl::OwnedMatrix;
using attnctl::input::Batch;
using attnctl::model::Model;
using attnctl::model::parse_attention_kind;
using attnctl::test::Capture;
using attnctl::test::capture_all;
using attnctl::test::CapturedSequence;
using attnctl::test::Golden;
using attnctl::test::GoldenArray;

namespace {

const std::filesystem::path kFolder = std::filesystem::path(ATTNCTL_SOURCE_DIR) / "tests/golden/kinds";

Model small_model(const std::string& kind = "full") {
  static attnctl::Warnings ignored;
  const std::size_t layers[] = {0};
  return attnctl::test::bind_model(kFolder / "model", ignored)
      .with_attention(parse_attention_kind(kind).value(), layers);
}

OwnedMatrix<float> matrix_of(const GoldenArray& array, std::size_t item = 0) {
  const std::size_t rows = array.shape[array.shape.size() - 2];
  OwnedMatrix<float> matrix(rows, array.shape.back());
  for (std::size_t i = 0; i < matrix.values().size(); ++i) {
    matrix.values()[i] = static_cast<float>(array.values[item * matrix.values().size() + i]);
  }
  return matrix;
}

Batch one_sequence(OwnedMatrix<float> x) {
  Batch batch;
  batch.sequences.emplace_back().id = "0";
  batch.sequences.back().embeddings = std::move(x);
  return batch;
}

template <typename T>
double difference(const GoldenArray& want, std::size_t item, const OwnedMatrix<T>& got) {
  double worst = 0;
  const std::size_t size = got.values().size();
  REQUIRE(want.values.size() >= (item + 1) * size);
  for (std::size_t i = 0; i < size; ++i) {
    const double one = std::abs(want.values[item * size + i] - static_cast<double>(got.values()[i]));
    if (!(one <= worst)) worst = one;
  }
  return worst;
}

double difference(const OwnedMatrix<float>& a, const OwnedMatrix<float>& b) {
  double worst = 0;
  REQUIRE(a.values().size() == b.values().size());
  for (std::size_t i = 0; i < a.values().size(); ++i) {
    worst =
        std::max(worst, std::abs(static_cast<double>(a.values()[i]) - static_cast<double>(b.values()[i])));
  }
  return worst;
}

double largest(const GoldenArray& array) {
  double most = 0;
  for (const double value : array.values) most = std::max(most, std::abs(value));
  return most;
}

/// Compares both passes with the PyTorch arrays named `name`.
void check_case(const Model& model, const Batch& batch, const Golden& golden, const std::string& name) {
  CAPTURE(name);
  const GoldenArray pattern = golden.array(name + "_pattern");
  const GoldenArray output = golden.array(name + "_output");
  attnctl::Pool pool(1);
  const auto reference =
      attnctl::reference::run_reference(model, batch.sequences[0], 0, false, pool).layers.at(0);
  CHECK(difference(output, 0, reference.output) <= 2e-7 * largest(output));
  for (const std::size_t panel_rows : {3U, 128U}) {
    const CapturedSequence got = capture_all(model, batch, {.threads = 2, .panel_rows = panel_rows})[0];
    CHECK(difference(output, 0, got.output.at(0)) <= 2e-6 * largest(output));
    for (std::size_t head = 0; head < 2; ++head) {
      CHECK(difference(pattern, head, got.heads.at({0, head}).pattern) <= 2e-6);
      CHECK(difference(pattern, head, reference.pattern[head]) <= 1e-7);
    }
  }
}

OwnedMatrix<float> first_rows(const OwnedMatrix<float>& x, std::size_t count) {
  OwnedMatrix<float> part(count, x.cols());
  std::copy_n(x.values().begin(), part.values().size(), part.values().begin());
  return part;
}

}  // namespace

TEST_CASE("kinds of attention survive writing and reading") {
  for (const std::string text : {"full", "window:64", "block:1", "strided:4294967295", "linear"}) {
    CHECK(to_string(parse_attention_kind(text).value()) == text);
  }
  for (const std::string text :
       {"", "Full", "window", "window:", "window:0", "window:-1", "window:4 ", "window:1e3", "full:3",
        "linear:2", "strided:4294967296", "axial", "window:3:4"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_attention_kind(text).has_value());
  }
}

TEST_CASE("every kind agrees with dense masks in PyTorch, causal and padded") {
  const Golden golden(kFolder);
  for (const std::string kind :
       {"full", "window:1", "window:4", "block:5", "strided:3", "strided:5", "linear"}) {
    const Model model = small_model(kind);
    for (const bool causal : {false, true}) {
      for (const bool padded : {false, true}) {
        Batch batch = one_sequence(matrix_of(golden.array("x")));
        batch.sequences[0].causal = causal;
        if (padded) {
          for (const double value : golden.array("key_mask").values)
            batch.sequences[0].key_visible.push_back(value != 0 ? 1 : 0);
        }
        std::string name = kind;
        std::replace(name.begin(), name.end(), ':', '_');
        check_case(model, batch, golden, name + (causal ? "_causal" : "") + (padded ? "_padded" : ""));
      }
    }
  }
}

TEST_CASE("kinds that hide nothing equal full attention") {
  const Golden golden(kFolder);
  for (const bool causal : {false, true}) {
    Batch batch = one_sequence(matrix_of(golden.array("x")));
    batch.sequences[0].causal = causal;
    const CapturedSequence full = capture_all(small_model(), batch)[0];
    for (const std::string kind :
         {"window:13", "window:4000000000", "block:13", "block:4000000000", "strided:1"}) {
      CAPTURE(kind);
      const CapturedSequence got = capture_all(small_model(kind), batch)[0];
      CHECK(difference(full.output.at(0), got.output.at(0)) <= 1e-6);
      CHECK(difference(full.heads.at({0, 1}).pattern, got.heads.at({0, 1}).pattern) <= 1e-6);
    }
  }
}

TEST_CASE("rows of linear attention sum to 1, and a causal prefix gives the same rows as the whole input") {
  const Golden golden(kFolder);
  const OwnedMatrix<float> x = matrix_of(golden.array("x"));
  const Model model = small_model("linear");
  Batch batch = one_sequence(x);
  batch.sequences[0].causal = true;
  const CapturedSequence causal = capture_all(model, batch)[0];
  for (std::size_t i = 0; i < x.rows(); ++i) {
    const CapturedSequence prefix = capture_all(model, one_sequence(first_rows(x, i + 1)))[0];
    for (std::size_t head = 0; head < 2; ++head) {
      const OwnedMatrix<float>& pattern = causal.heads.at({0, head}).pattern;
      double sum = 0;
      for (std::size_t j = 0; j < x.rows(); ++j) {
        sum += static_cast<double>(pattern(i, j));
        const float want = j <= i ? prefix.heads.at({0, head}).pattern(i, j) : 0.0F;
        CHECK(std::abs(pattern(i, j) - want) <= 1e-7F);
      }
      CHECK(std::abs(sum - 1) <= 1e-6);
    }
    for (std::size_t c = 0; c < x.cols(); ++c) {
      CHECK(std::abs(causal.output.at(0)(i, c) - prefix.output.at(0)(i, c)) <= 1e-6F);
    }
  }
}

TEST_CASE("linear attention computes patterns only if needed and rejects score masks") {
  const Golden golden(kFolder);
  const Model model = small_model("linear");
  Batch batch = one_sequence(matrix_of(golden.array("x")));
  const CapturedSequence with = capture_all(model, batch)[0];

  class Widths final : public attnctl::forward::Observer {
   public:
    [[nodiscard]] attnctl::forward::Needs needs() const override {
      attnctl::forward::Needs needs{.patterns = false};
      needs.output = true;
      return needs;
    }
    void begin(const Model&, const Batch&) override {}
    void panel(const attnctl::forward::AttentionPanel& panel) override {
      widest = std::max(widest, panel.pattern.cols);
    }
    void output(std::size_t, std::size_t, MatrixView<const float> values) override {
      got = OwnedMatrix<float>(values.rows, values.cols);
      for (std::size_t r = 0; r < values.rows; ++r) {
        std::copy(values.row(r).begin(), values.row(r).end(), got.view().row(r).begin());
      }
    }
    std::size_t widest = 0;
    OwnedMatrix<float> got;
  } widths;
  attnctl::forward::Observer* const observers[] = {&widths};
  attnctl::Pool pool(1);
  attnctl::Warnings warnings;
  attnctl::forward::RunContext context{.pool = pool, .warnings = warnings};
  attnctl::forward::run_forward(model, batch, attnctl::forward::Selection::all(model.config()), observers,
                                context);
  CHECK(widths.widest == 0);
  CHECK(difference(widths.got, with.output.at(0)) == 0);

  batch.sequences[0].mask = attnctl::input::ScoreMask{1, 13, 13, std::vector<float>(169, 0)};
  attnctl::test::check_refusal([&] { attnctl::forward::check_batch(model, batch); },
                               attnctl::Status::bad_input,
                               {"input 0", "linear attention has no scores", "--key-mask"});
}

TEST_CASE("axial attention agrees with explicit loops over columns and rows") {
  const Golden golden(kFolder);
  const Model model = small_model();
  const GoldenArray x = golden.array("grid");
  for (const bool causal : {false, true}) {
    const std::string end = causal ? "_causal" : "";
    Batch batch;
    for (std::size_t r = 0; r < x.shape[0]; ++r) {
      batch.sequences.push_back({});
      batch.sequences.back().embeddings = matrix_of(x, r);
      batch.sequences.back().causal = causal;
    }
    const attnctl::analysis::AxialGrid grid = attnctl::analysis::make_axial(model, batch);
    REQUIRE(grid.rows == 3);
    REQUIRE(grid.columns == 5);
    REQUIRE(batch.sequences.size() == 8);
    CHECK(batch.sequences[4].id == "column 4");
    CHECK(batch.sequences[7].id == "row 2");
    attnctl::Pool pool(2);
    attnctl::Warnings warnings;
    attnctl::forward::RunContext context{.pool = pool, .warnings = warnings};
    const auto reference = attnctl::analysis::run_axial_reference(model, batch, grid, pool);
    Capture capture(attnctl::forward::Selection::all(model.config()));
    attnctl::forward::Observer* const observers[] = {&capture};
    attnctl::analysis::run_axial(model, batch, grid, attnctl::forward::Selection::all(model.config()),
                                 observers, context);
    for (std::size_t s = 0; s < 8; ++s) {
      const bool column = s < grid.columns;
      const std::size_t item = column ? s : s - grid.columns;
      const GoldenArray pattern = golden.array((column ? "column_pattern" : "row_pattern") + end);
      const GoldenArray output = golden.array((column ? "column_output" : "row_output") + end);
      const CapturedSequence& got = capture.sequences.at(s);
      CHECK(difference(output, item, got.output.at(0)) <= 2e-6 * largest(output));
      CHECK(difference(output, item, reference[s].layers[0].output) <= 1e-6 * largest(output));
      for (std::size_t head = 0; head < 2; ++head) {
        CHECK(difference(pattern, item * 2 + head, got.heads.at({0, head}).pattern) <= 2e-6);
      }
    }
  }
}

namespace attnctl::test {

using namespace forward;

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
