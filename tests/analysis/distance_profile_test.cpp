#include "analysis/patterns/distance_profile.hpp"

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "support/capture.hpp"
#include "support/golden.hpp"
#include "support/memory_checkpoint.hpp"
#include "textbook/experiments.hpp"

namespace attnctl::analysis {
namespace {

TEST_CASE("bins of distances: 0, 1, 2, 3-4, 5-8, ... cover every distance once") {
  CHECK(distance_bins(0).empty());
  for (const std::size_t n : {1U, 2U, 3U, 4U, 5U, 6U, 100U, 1024U, 1025U}) {
    CAPTURE(n);
    const std::vector<DistanceBin> bins = distance_bins(n);
    std::size_t next = 0;
    for (const DistanceBin& bin : bins) {
      CHECK(bin.first == next);
      next = bin.last + 1;
    }
    CHECK(bins.back().first < n);
    CHECK(bins.back().last + 1 >= n);
    CHECK((bins.back().last <= 2 || bins.back().last == 2 * (bins.back().first - 1)));
  }
}

/// Returns |v_j W_O^h|, computed from its definition.
double length_of(const test::CapturedHead& head, const model::Linear& output, std::size_t index,
                 std::size_t key) {
  double squares = 0;
  const std::size_t width = head.v.cols();
  const OwnedMatrix<double> weight = output.in_out_double();
  for (std::size_t c = 0; c < weight.cols(); ++c) {
    double sum = 0;
    for (std::size_t k = 0; k < width; ++k)
      sum += static_cast<double>(head.v(key, k)) * weight(index * width + k, c);
    squares += sum * sum;
  }
  return std::sqrt(squares);
}

DistanceSums sums_the_long_way(const std::vector<test::CapturedSequence>& captured, const model::Model& model,
                               model::HeadId id, DistanceBin bin) {
  DistanceSums sums;
  for (const test::CapturedSequence& sequence : captured) {
    const test::CapturedHead& head = sequence.heads.at(id);
    for (std::size_t i = 0; i < head.pattern.rows(); ++i) {
      double visible = 0;
      for (std::size_t j = 0; j < head.pattern.cols(); ++j) visible += std::isinf(head.scores(i, j)) ? 0 : 1;
      for (std::size_t j = 0; j < head.pattern.cols(); ++j) {
        const std::size_t distance = i < j ? j - i : i - j;
        if (std::isinf(head.scores(i, j)) || distance < bin.first || distance > bin.last) continue;
        const double weight = static_cast<double>(head.pattern(i, j));
        ++sums.pairs;
        sums.weight += weight;
        sums.uniform += 1 / visible;
        sums.influence += weight * length_of(head, model.attention(id.layer)->output, id.head, j);
      }
    }
  }
  return sums;
}

/// bert has hidden keys and biases; llama is causal, with six heads on two key/value heads.
TEST_CASE("weight and influence by distance equal their definition") {
  for (const std::string name : {"bert", "llama"}) {
    CAPTURE(name);
    const test::Golden golden(ATTNCTL_SOURCE_DIR "/tests/golden/" + name);
    const model::Model model = test::MemoryModel::golden(name).bound();
    input::Batch batch;
    for (std::size_t i = 0; i < golden.inputs(); ++i) {
      batch.sequences.push_back(golden.sequence(i));
      batch.sequences.back().id = std::to_string(i);
    }
    const auto captured = test::capture_all(model, batch);
    const forward::Selection selection = forward::Selection::all(model.config());
    DistanceProfile profile(selection);
    forward::Observer* const observers[] = {&profile};
    Pool pool(2);
    Warnings warnings;
    forward::RunContext context{.pool = pool, .warnings = warnings, .panel_rows = 3};
    forward::run_forward(model, batch, selection, observers, context);
    for (const HeadDistances& head : profile.finish()) {
      CHECK(head.finite);
      CHECK(head.has_values);
      double mass = 0;
      double even = 0;
      for (std::size_t b = 0; b < profile.bins().size(); ++b) {
        const DistanceSums want = sums_the_long_way(captured, model, head.head, profile.bins()[b]);
        CHECK(head.bins[b].pairs == want.pairs);
        // The expected values come from a second pass, which sums in a different order on some processors.
        CHECK(head.bins[b].weight == doctest::Approx(want.weight).epsilon(1e-5));
        CHECK(head.bins[b].uniform == doctest::Approx(want.uniform).epsilon(1e-9));
        CHECK(head.bins[b].influence == doctest::Approx(want.influence).epsilon(1e-6));
        mass += head.bins[b].weight;
        even += head.bins[b].uniform;
      }
      CHECK(mass == doctest::Approx(static_cast<double>(head.rows)).epsilon(1e-5));
      CHECK(even == doctest::Approx(static_cast<double>(head.rows)).epsilon(1e-9));
    }
    const textbook::ExperimentResult result =
        textbook::distance_of_model(model.config(), profile.finish(), profile.bins(), false);
    CHECK(result.rows.rows == model.config().layers.size() * profile.bins().size());
  }
}

TEST_CASE("distances between different sequences mean nothing") {
  const model::Model model = test::MemoryModel::golden("llama").bound();
  input::Batch batch;
  batch.sequences.resize(1);
  batch.sequences[0].embeddings = OwnedMatrix<float>(2, 24);
  batch.sequences[0].key_embeddings = OwnedMatrix<float>(3, 24);
  DistanceProfile profile(forward::Selection::all(model.config()));
  CHECK_THROWS_AS(profile.begin(model, batch), Error);
}

}  // namespace
}  // namespace attnctl::analysis
