#include "forward/run.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <new>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "support/capture.hpp"
#include "support/golden.hpp"
#include "support/memory_checkpoint.hpp"

using attnctl::OwnedMatrix;
using attnctl::forward::Needs;
using attnctl::forward::Observer;
using attnctl::forward::Selection;
using attnctl::input::Batch;
using attnctl::input::Sequence;
using attnctl::model::Model;
using attnctl::test::capture_all;
using attnctl::test::CapturedHead;
using attnctl::test::CapturedSequence;

namespace {

Model golden(const std::string& name) {
  attnctl::Warnings warnings;
  return attnctl::test::bind_model(std::filesystem::path(ATTNCTL_SOURCE_DIR) / "tests/golden" / name,
                                   warnings);
}

Sequence random_ids(const Model& model, std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  Sequence sequence;
  sequence.id = std::to_string(seed);
  for (std::size_t i = 0; i < n; ++i) {
    sequence.ids.push_back(static_cast<std::int64_t>(random() % model.config().embedding.vocabulary));
  }
  return sequence;
}

/// Returns sequences of different lengths, up to the maximum of the tiny models.
Batch mixed_batch(const Model& model) {
  Batch batch;
  for (const std::size_t n : {5U, 1U, 11U, 3U, 8U}) {
    batch.sequences.push_back(random_ids(model, n, static_cast<unsigned>(n)));
  }
  return batch;
}

Batch only(const Sequence& sequence) {
  Batch batch;
  batch.sequences.push_back(sequence);
  return batch;
}

double difference(const OwnedMatrix<float>& a, const OwnedMatrix<float>& b) {
  if (a.rows() != b.rows() || a.cols() != b.cols()) return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (std::size_t i = 0; i < a.values().size(); ++i) {
    if (a.values()[i] == b.values()[i]) continue;  // also equal infinities
    const double distance = std::abs(double{a.values()[i]} - double{b.values()[i]});
    if (!(distance <= worst)) worst = distance;
  }
  return worst;
}

double difference(const CapturedSequence& a, const CapturedSequence& b) {
  double worst = difference(a.logits, b.logits);
  for (const auto& [id, head] : a.heads) {
    const CapturedHead& other = b.heads.at(id);
    for (const auto what : {&CapturedHead::pattern, &CapturedHead::scores, &CapturedHead::z, &CapturedHead::q,
                            &CapturedHead::k, &CapturedHead::v}) {
      worst = std::max(worst, difference(head.*what, other.*what));
    }
  }
  for (const auto& [layer, values] : a.output)
    worst = std::max(worst, difference(values, b.output.at(layer)));
  return worst;
}

std::vector<float> normal_values(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

/// One model per kind: post-norm and pre-norm, gated, grouped, rotary, shared layers, projected embeddings.
const std::vector<std::string> kModelNames{"bert",  "albert",         "gpt2",
                                           "llama", "llama-longrope", "attention-json"};

std::vector<attnctl::Warning> warnings_of(const Model& model, const Batch& batch, Needs needs = {}) {
  attnctl::Pool pool(2);
  attnctl::Warnings warnings;
  attnctl::forward::RunContext context{pool, warnings};
  const Selection all = Selection::all(model.config());
  attnctl::test::Capture capture(all, needs);
  Observer* const observers[] = {&capture};
  attnctl::forward::run_forward(model, batch, all, observers, context);
  return warnings.list();
}

}  // namespace

TEST_CASE("rows of patterns are distributions") {
  for (const std::string& name : kModelNames) {
    CAPTURE(name);
    const Model model = golden(name);
    for (const CapturedSequence& sequence : capture_all(model, mixed_batch(model))) {
      CHECK(sequence.heads.size() == Selection::all(model.config()).heads.size());
      for (const auto& [id, head] : sequence.heads) {
        for (std::size_t i = 0; i < head.pattern.rows(); ++i) {
          double sum = 0;
          for (const float p : head.pattern.view().row(i)) sum += double{p};
          CHECK(std::abs(sum - 1) <= 1e-6);
          CHECK(head.fully_masked[i] == 0);
        }
      }
    }
  }
}

TEST_CASE("panels, blocks and threads do not change the results") {
  for (const std::string& name : kModelNames) {
    CAPTURE(name);
    const Model model = golden(name);
    const Batch batch = mixed_batch(model);
    const auto want = capture_all(model, batch);
    struct Row {
      attnctl::test::PassOptions options;
      double bound;
    };
    for (const Row& row : {
             Row{{.panel_rows = 1}, 1e-5}, Row{{.panel_rows = 3}, 1e-5}, Row{{.packed_rows = 1}, 1e-5},
             Row{{.packed_rows = 9}, 1e-5}, Row{{.threads = 3}, 1e-5},
             Row{{.threads = 5, .panel_rows = 4, .packed_rows = 16}, 1e-5},
             Row{{}, 0},  // repeats the run: the result must be identical
         }) {
      const auto got = capture_all(model, batch, row.options);
      for (std::size_t i = 0; i < want.size(); ++i) CHECK(difference(want[i], got[i]) <= row.bound);
    }
    for (std::size_t i = 0; i < want.size(); ++i) {  // runs the sequences one by one
      CHECK(difference(want[i], capture_all(model, only(batch.sequences[i])).at(0)) <= 1e-5);
    }
  }
}

TEST_CASE("the panels of a head come in order and cover all rows") {
  const Model model = golden("bert");
  const auto captured = capture_all(model, mixed_batch(model), {.threads = 3, .panel_rows = 3});
  const std::vector<std::size_t> panels{2, 1, 4, 1, 3};
  for (std::size_t i = 0; i < captured.size(); ++i) {
    for (const auto& [id, head] : captured[i].heads) CHECK(head.panels == panels[i]);
  }
}

TEST_CASE("a causal model gives a prefix the same rows as the whole") {
  for (const std::string name : {"gpt2", "llama"}) {
    CAPTURE(name);
    const Model model = golden(name);
    const Sequence whole = random_ids(model, 11, 1);
    Sequence prefix = whole;
    prefix.ids.resize(6);
    const auto of_whole = capture_all(model, only(whole)).at(0);
    const auto of_prefix = capture_all(model, only(prefix)).at(0);
    double worst = 0;
    for (const auto& [id, head] : of_prefix.heads) {
      for (std::size_t i = 0; i < 6; ++i) {
        for (std::size_t j = 0; j < 6; ++j) {
          worst = std::max(worst, double{std::abs(head.pattern(i, j) - of_whole.heads.at(id).pattern(i, j))});
        }
        CHECK(of_whole.heads.at(id).pattern(i, 6) == 0);
        CHECK(std::isinf(of_whole.heads.at(id).scores(i, 6)));
      }
    }
    CHECK(worst <= 1e-5);
  }
}

TEST_CASE("hidden keys at the end only add zeros, even if they are NaN") {
  for (const bool not_numbers : {false, true}) {
    const Model model = golden("bert");
    const Sequence plain = random_ids(model, 6, 2);
    Sequence padded;
    padded.embeddings = OwnedMatrix<float>(9, model.config().embedding.width);
    for (std::size_t p = 0; p < 6; ++p) {
      model.embedding()->token.row(static_cast<std::size_t>(plain.ids[p]), padded.embeddings.view().row(p));
    }
    if (not_numbers) {
      for (float& value : padded.embeddings.view().row(7)) value = std::numeric_limits<float>::quiet_NaN();
    }
    padded.key_visible = {1, 1, 1, 1, 1, 1, 0, 0, 0};
    const auto want = capture_all(model, only(plain)).at(0);
    const auto got = capture_all(model, only(padded)).at(0);
    double worst = 0;
    for (const auto& [id, head] : want.heads) {
      for (std::size_t i = 0; i < 6; ++i) {
        for (std::size_t j = 0; j < 9; ++j) {
          const float expected = j < 6 ? head.pattern(i, j) : 0.0F;
          const double distance = std::abs(double{expected} - double{got.heads.at(id).pattern(i, j)});
          if (!(distance <= worst)) worst = distance;
        }
      }
    }
    CHECK(worst <= 1e-5);
  }
}

TEST_CASE("patterns do not depend on other needs") {
  for (const std::string& name : kModelNames) {
    CAPTURE(name);
    const Model model = golden(name);
    const Batch batch = mixed_batch(model);
    const auto everything = capture_all(model, batch);
    const std::size_t last = model.config().layers.size() - 1;
    attnctl::Pool pool(2);
    attnctl::Warnings warnings;
    attnctl::forward::RunContext context{pool, warnings};
    const Selection one_head{{{last, 1}}};
    attnctl::test::Capture capture(one_head, Needs{});
    Observer* const observers[] = {&capture};
    attnctl::forward::run_forward(model, batch, one_head, observers, context);
    for (std::size_t i = 0; i < batch.sequences.size(); ++i) {
      const CapturedSequence& got = capture.sequences[i];
      CHECK(got.heads.size() == 1);  // Capture throws for heads that are not selected
      const CapturedHead& head = got.heads.at({last, 1});
      CHECK(difference(head.pattern, everything[i].heads.at({last, 1}).pattern) <= 1e-5);
      CHECK(head.scores.rows() == 0);
      CHECK(head.z.rows() == 0);
      CHECK(head.v.rows() == 0);
      CHECK(got.output.empty());
      CHECK(got.logits.rows() == 0);
    }
  }
}

TEST_CASE("permuting the heads of the weights permutes the patterns and keeps the output") {
  constexpr std::size_t heads = 4;
  const std::vector<std::size_t> order{2, 0, 3, 1};
  attnctl::test::MemoryModel plain;
  attnctl::test::MemoryModel permuted;
  plain.config = permuted.config = {{"model_type", "attention"}, {"heads", heads}};
  unsigned seed = 0;
  for (const auto& [name, size] : {std::pair{"W_q", 18U}, {"W_k", 18U}, {"W_v", 12U}, {"W_o", 12U}}) {
    const bool out = std::string_view(name) == "W_o";  // [heads, 2, 6]; the others are [heads, 6, size / 6]
    const attnctl::Shape shape{heads, out ? 2U : 6U, out ? 6U : size / 6};
    const std::vector<float> values = normal_values(heads * size, ++seed);
    std::vector<float> moved;
    for (const std::size_t head : order) {
      const auto first = values.begin() + static_cast<std::ptrdiff_t>(head * size);
      moved.insert(moved.end(), first, first + size);
    }
    plain.tensors[name] = attnctl::test::floats(shape, values);
    permuted.tensors[name] = attnctl::test::floats(shape, moved);
  }
  Sequence sequence;
  sequence.embeddings = OwnedMatrix<float>(7, 6);
  std::ranges::copy(normal_values(42, 9), sequence.embeddings.values().begin());
  attnctl::Warnings warnings;
  const auto a = capture_all(Model::bind(plain.source(), warnings), only(sequence)).at(0);
  const auto b = capture_all(Model::bind(permuted.source(), warnings), only(sequence)).at(0);
  for (std::size_t head = 0; head < heads; ++head) {
    CHECK(difference(b.heads.at({0, head}).pattern, a.heads.at({0, order[head]}).pattern) <= 1e-6);
    CHECK(difference(a.heads.at({0, head}).pattern, a.heads.at({0, order[head]}).pattern) > 1e-3);
  }
  CHECK(difference(a.output.at(0), b.output.at(0)) <= 1e-5);
}

TEST_CASE("fully masked rows, non-finite rows and a missing head give counted warnings") {
  const Model bert = golden("bert");
  Sequence hidden = random_ids(bert, 4, 1);
  hidden.id = "a\x1b";
  hidden.key_visible.assign(4, 0);
  auto warnings = warnings_of(bert, only(hidden));
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].code == "fully_masked_row");
  CHECK(warnings[0].count == 4 * 3 * 2);
  CHECK(warnings[0].message.starts_with("input a\\x1b, head 0.0, query 0:"));

  Sequence undefined;
  undefined.id = "5";
  undefined.embeddings = OwnedMatrix<float>(3, bert.config().embedding.width);
  undefined.embeddings(1, 2) = std::numeric_limits<float>::infinity();
  warnings = warnings_of(bert, only(undefined));
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].code == "non_finite_pattern");
  CHECK(warnings[0].count == 3 * 3 * 2);  // a NaN key affects every query
  CHECK(warnings[0].message.starts_with("input 5, head 0.0, query 0:"));

  Needs logits;
  logits.logits = true;
  const Model headless = golden("bert-headless");
  warnings = warnings_of(headless, only(random_ids(headless, 3, 1)), logits);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].code == "no_output_head");
  CHECK(warnings_of(bert, mixed_batch(bert), logits).empty());
}

TEST_CASE("an exception in an observer ends the pass and reaches the caller") {
  class Failing : public Observer {
   public:
    void begin(const Model&, const Batch&) override {}
    void panel(const attnctl::forward::AttentionPanel& panel) override {
      if (panel.layer == 1 && panel.head == 2) throw std::bad_alloc();
    }
  };
  const Model model = golden("bert");
  for (const std::size_t threads : {1U, 3U}) {
    attnctl::Pool pool(threads);
    attnctl::Warnings warnings;
    attnctl::forward::RunContext context{pool, warnings};
    Failing failing;
    Observer* const observers[] = {&failing};
    CHECK_THROWS_AS(attnctl::forward::run_forward(model, mixed_batch(model), Selection::all(model.config()),
                                                  observers, context),
                    std::bad_alloc);
  }
}
