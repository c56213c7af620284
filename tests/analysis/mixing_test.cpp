#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "analysis/mixing/contributions.hpp"
#include "analysis/mixing/rollout.hpp"
#include "analysis/patterns/adapters.hpp"
#include "base/error.hpp"
#include "base/pool.hpp"
#include "support/capture.hpp"
#include "support/golden.hpp"
#include "support/memory_checkpoint.hpp"
#include "support/panels.hpp"

namespace attnctl::analysis {
namespace {

/// A model of tests/golden/make_mixing.py and the expected results for its input.
struct Case {
  const char* name;
  const char* model;
};
constexpr Case kCases[] = {{"tiny-bert", "data/tiny-bert"},
                           {"tiny-llama", "data/tiny-llama"},
                           {"gpt2", "tests/golden/gpt2"},
                           {"llama", "tests/golden/llama"}};

model::Model open(const Case& of) {
  static Warnings warnings;  // must outlive the model, which adds to it
  return test::bind_model(std::string(ATTNCTL_SOURCE_DIR "/") + of.model, warnings);
}

test::Golden golden_of(const Case& of) {
  return test::Golden(std::string(ATTNCTL_SOURCE_DIR "/tests/golden/mixing/") + of.name);
}

input::Batch input_of(const test::Golden& golden) {
  input::Batch batch;
  batch.sequences.resize(1);
  batch.sequences[0].ids = golden.integers("ids");
  return batch;
}

void run(const model::Model& model, const input::Batch& batch, std::vector<forward::Observer*> observers,
         std::size_t threads = 2, std::size_t panel_rows = 128) {
  Pool pool(threads);
  Warnings warnings;
  forward::RunContext context{.pool = pool, .warnings = warnings, .panel_rows = panel_rows};
  forward::run_forward(model, batch, forward::Selection::all(model.config()), observers, context);
}

/// Compares values relative to the largest expected value. Both sides are float32 passes of different
/// programs.
void check_close(const std::vector<double>& got, const std::vector<double>& want, const std::string& what) {
  REQUIRE_MESSAGE(got.size() == want.size(), what);
  double largest = 0;
  for (const double value : want) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < want.size(); ++i) {
    CHECK_MESSAGE(std::abs(got[i] - want[i]) <= 2e-6 * std::max(1.0, largest), what, " ", i, ": ", got[i],
                  " for ", want[i]);
  }
}

TEST_CASE("contributions of heads and cuts of W_O are those of NumPy") {
  for (const Case& of : kCases) {
    CAPTURE(of.name);
    const model::Model model = open(of);
    const test::Golden golden = golden_of(of);
    Contributions contributions(forward::Selection::all(model.config()));
    std::vector<std::size_t> ranks;
    for (const std::int64_t rank : golden.integers("ranks")) ranks.push_back(static_cast<std::size_t>(rank));
    Pool pool(2);
    OutputRank cuts(forward::Selection::all(model.config()), ranks, pool);
    run(model, input_of(golden), {&contributions, &cuts});

    const std::vector<HeadContribution> found = contributions.finish();
    const auto column = [&](std::optional<double> HeadContribution::*value, bool of_layer) {
      std::vector<double> values;
      for (const HeadContribution& each : found) {
        if (!of_layer || each.head.head == 0) values.push_back((each.*value).value());
      }
      return values;
    };
    check_close(column(&HeadContribution::norm, false), golden.array("norm").values, "norm");
    check_close(column(&HeadContribution::norm_share, false), golden.array("norm_share").values,
                "norm_share");
    check_close(column(&HeadContribution::cosine, false), golden.array("cosine").values, "cosine");
    check_close(column(&HeadContribution::share, false), golden.array("share").values, "share");
    check_close(column(&HeadContribution::explained, false), golden.array("explained").values, "explained");
    check_close(column(&HeadContribution::whole_norm, true), golden.array("whole_norm").values, "whole_norm");
    check_close(column(&HeadContribution::stream_norm, true), golden.array("stream_norm").values, "stream");

    std::vector<double> changes;
    const std::vector<double> removed = golden.array("removed").values;
    const std::vector<LayerOutputRank> layers = cuts.finish();
    for (std::size_t l = 0; l < layers.size(); ++l) {
      for (const OutputRankChange& cut : layers[l].cuts) changes.push_back(cut.change.value());
      CHECK(layers[l].removed.has_value() == !std::isnan(removed[l]));  // undefined if heads v differs from d
      if (layers[l].removed) CHECK(*layers[l].removed == doctest::Approx(removed[l]).epsilon(1e-5));
    }
    check_close(changes, golden.array("rank_change").values, "rank_change");
  }
}

TEST_CASE("shares of the heads of a layer sum to 1, whichever panels and heads are asked for") {
  const model::Model model = test::open_golden("bert");
  input::Batch batch;
  batch.sequences.resize(2);
  batch.sequences[0].ids = {3, 1, 4, 1, 5};
  batch.sequences[1].ids = {2, 7};
  Contributions all(forward::Selection::all(model.config()));
  Contributions one(forward::Selection{{{1, 2}}});
  Pool pool(2);
  OutputRank cuts(forward::Selection{{{1, 0}}}, {}, pool);
  run(model, batch, {&all, &one, &cuts}, 3, 2);
  const std::vector<HeadContribution> found = all.finish();
  const std::size_t heads = model.config().layers[0].attention.heads;
  REQUIRE(found.size() == 2 * model.config().layers.size() * heads);
  for (std::size_t first = 0; first < found.size(); first += heads) {
    double share = 0;
    double norm_share = 0;
    for (std::size_t i = first; i < first + heads; ++i) {
      share += found[i].share.value();
      norm_share += found[i].norm_share.value();
      CHECK(found[i].explained.value() <= 1);
      CHECK(std::abs(found[i].cosine.value()) <= 1);
      CHECK(found[i].rows == batch.sequences[found[i].input].ids.size());
    }
    CHECK(share == doctest::Approx(1).epsilon(1e-12));
    CHECK(norm_share == doctest::Approx(1).epsilon(1e-12));
  }
  const std::vector<HeadContribution> alone = one.finish();
  REQUIRE(alone.size() == 2);
  CHECK(alone[0].head == model::HeadId{1, 2});
  CHECK(alone[0].share == found[heads + 2].share);
  // The default ranks are the powers of two below the full rank r. The error decreases with the rank.
  const std::vector<LayerOutputRank> layers = cuts.finish();
  REQUIRE(layers.size() == 2);
  CHECK(layers[0].layer == 1);
  for (std::size_t i = 0; i < layers[0].cuts.size(); ++i) {
    CHECK(layers[0].cuts[i].rank == std::size_t{1} << i);
    CHECK(layers[0].cuts[i].rank < layers[0].full_rank);
    if (i > 0) CHECK(*layers[0].cuts[i].change <= *layers[0].cuts[i - 1].change);
  }
}

TEST_CASE("mixing ratios are those of NumPy, where norms come after and where they come before") {
  for (const Case& of : kCases) {
    CAPTURE(of.name);
    const model::Model model = open(of);
    const test::Golden golden = golden_of(of);
    Mixing mixing(forward::Selection::all(model.config()));
    run(model, input_of(golden), {&mixing}, 2, 4);
    std::vector<double> mix;
    std::vector<double> keep;
    for (const LayerMixing& layer : mixing.finish()) {
      for (const PositionMixing& at : layer.positions) {
        mix.push_back(at.mix);
        keep.push_back(at.keep);
        CHECK(at.ratio() == doctest::Approx(at.mix / (at.mix + at.keep)));
      }
    }
    check_close(mix, golden.array("mix").values, "mix");
    check_close(keep, golden.array("keep").values, "keep");
  }
  CHECK_FALSE(PositionMixing{0, 0}.ratio().has_value());
}

TEST_CASE("norm-based weights are those of NumPy, rows can be made to sum to 1") {
  for (const Case& of : kCases) {
    CAPTURE(of.name);
    const model::Model model = open(of);
    const test::Golden golden = golden_of(of);
    const forward::Selection all = forward::Selection::all(model.config());
    test::Capture norms(all, {});
    test::Capture rows(all, {});
    NormWeighting weighting(all, Weighting::norm, {&norms});
    NormWeighting by_row(all, Weighting::norm_row, {&rows});
    run(model, input_of(golden), {&weighting, &by_row}, 2, 4);
    std::vector<double> got;
    for (const auto& [id, head] : norms.sequences.at(0).heads) {
      const auto values = head.pattern.values();
      got.insert(got.end(), values.begin(), values.end());
      const OwnedMatrix<float>& by_rows = rows.sequences[0].heads.at(id).pattern;
      for (std::size_t i = 0; i < by_rows.rows(); ++i) {
        double total = 0;
        double norm_total = 0;
        for (const float value : by_rows.view().row(i)) total += double{value};
        for (const float value : head.pattern.view().row(i)) norm_total += double{value};
        CHECK(total == doctest::Approx(1).epsilon(1e-6));
        CHECK(double{by_rows(i, 0)} ==
              doctest::Approx(double{head.pattern(i, 0)} / norm_total).epsilon(1e-5));
      }
    }
    check_close(got, golden.array("norm_weights").values, "norm_weights");
  }
}

TEST_CASE("a hidden key has no norm-based weight, whatever its value, and a blind row none at all") {
  const model::Model model = test::open_golden("attention");
  const std::size_t d = model.config().d_model;
  input::Batch batch;
  batch.sequences.resize(1);
  batch.sequences[0].embeddings = OwnedMatrix<float>(3, d);
  for (std::size_t c = 0; c < d; ++c) {
    batch.sequences[0].embeddings(0, c) = 0.1F * static_cast<float>(c + 1);
    batch.sequences[0].embeddings(1, c) = std::nanf("");
    batch.sequences[0].embeddings(2, c) = 0.3F;
  }
  batch.sequences[0].key_visible = {1, 0, 1};
  const forward::Selection all = forward::Selection::all(model.config());
  test::Capture norms(all, {});
  NormWeighting weighting(all, Weighting::norm, {&norms});
  Contributions contributions(all);
  run(model, batch, {&weighting, &contributions});
  for (const auto& [id, head] : norms.sequences.at(0).heads) {
    CHECK(head.pattern(0, 1) == 0);
    CHECK(head.pattern(0, 0) > 0);
    CHECK(std::isfinite(head.pattern(0, 2)));
  }
  batch.sequences[0].key_visible = {0, 0, 0};
  Contributions blind(all);
  run(model, batch, {&blind});
  for (const HeadContribution& each : blind.finish()) {
    CHECK(each.rows == 0);
    CHECK_FALSE(each.norm.has_value());
    CHECK_FALSE(each.share.has_value());
    CHECK(each.whole_norm == 0.0);
  }
}

TEST_CASE("without W_O heads write side by side: each explains its own columns") {
  test::MemoryModel without = test::MemoryModel::golden("attention");
  std::erase_if(without.tensors,
                [](const auto& tensor) { return tensor.first.find("_o") != std::string::npos; });
  const model::Model model = without.bound();
  REQUIRE_FALSE(model.attention(0)->output.present());
  input::Batch batch;
  batch.sequences.resize(1);
  batch.sequences[0].embeddings = OwnedMatrix<float>(4, model.config().d_model);
  float value = 0.2F;
  for (float& each : batch.sequences[0].embeddings.values()) each = value = -0.9F * value + 0.05F;
  const forward::Selection all = forward::Selection::all(model.config());
  Contributions contributions(all);
  Pool pool(1);
  OutputRank cuts(all, {}, pool);
  run(model, batch, {&contributions, &cuts});
  CHECK(cuts.finish().empty());
  double explained = 0;
  for (const HeadContribution& each : contributions.finish()) {
    CHECK(each.explained.value() == doctest::Approx(each.share.value()));  // writes are orthogonal
    CHECK(each.cosine.value() == doctest::Approx(std::sqrt(each.share.value())));
    explained += *each.explained;
  }
  CHECK(explained == doctest::Approx(1));
}

TEST_CASE("mixing and flow refuse inputs for which they are undefined") {
  const model::Model model = test::open_golden("llama");
  input::Batch batch;
  batch.sequences.resize(1);
  batch.sequences[0].embeddings = OwnedMatrix<float>(2, 24);
  batch.sequences[0].key_embeddings = OwnedMatrix<float>(3, 24);
  Mixing mixing(forward::Selection::all(model.config()));
  CHECK_THROWS_AS(mixing.begin(model, batch), Error);
  AttentionFlow crossed;
  CHECK_THROWS_AS(crossed.begin(model, batch), Error);
  input::Batch longer;
  longer.sequences.resize(1);
  longer.sequences[0].ids.assign(kLargestFlow, 1);
  AttentionFlow flow;
  CHECK_NOTHROW(flow.begin(model, longer));
  longer.sequences[0].ids.push_back(1);
  CHECK_THROWS_AS(flow.begin(model, longer), Error);
}

}  // namespace
}  // namespace attnctl::analysis
