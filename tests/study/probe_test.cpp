#include "study/probe.hpp"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "study/state/ratio_sums.hpp"
#include "support/planted_model.hpp"

namespace attnctl::test {
namespace {

/// Reference: NumPy and SciPy, with r = sum a / sum b over four sentences and scipy.stats.t.ppf(0.975, 3).
TEST_CASE("an interval is that of a ratio over sentences") {
  RatioSums sums;
  CHECK_FALSE(sums.mean().has_value());
  const std::vector<SentenceTerm> terms = {{3, 1, 5}, {4, 2, 9}, {0, 0, 0}, {2.5, 0.5, 7}, {3, 1, 6}};
  RatioSums half, rest;
  for (std::size_t i = 0; i < terms.size(); ++i) (i % 2 == 0 ? half : rest).add(terms[i]);
  rest.merge(half);
  CHECK(rest.sentences() == 4);
  CHECK(rest.rows() == 27);
  CHECK(*rest.mean() == doctest::Approx(12.5 / 27));
  CHECK(*rest.null() == doctest::Approx(4.5 / 27));
  CHECK(rest.interval()->low == doctest::Approx(0.3205202).epsilon(1e-4));
  CHECK(rest.interval()->high == doctest::Approx(0.6054057).epsilon(1e-4));
  StateWriter out;
  rest.save(out);
  StateReader in(out.bytes(), "state");
  RatioSums read;
  read.load(in);
  CHECK(in.at_end());
  CHECK(read.interval()->low == rest.interval()->low);
  CHECK_FALSE(sums.interval().has_value());
  sums.add({5, 1, 5});
  CHECK_FALSE(sums.interval().has_value());  // only one sentence
  sums.add({1, 1, 5});
  CHECK(sums.interval()->low == 0);  // clipped to 0
  CHECK(sums.interval()->high == 1);
}

TEST_CASE("quantiles of Student's t are those of SciPy") {
  for (const auto& row : std::vector<std::pair<std::uint64_t, double>>{{1, 12.706205},
                                                                       {2, 4.302653},
                                                                       {5, 2.570582},
                                                                       {30, 2.042272},
                                                                       {31, 2.039513},
                                                                       {40, 2.021075},
                                                                       {100, 1.983972},
                                                                       {1000, 1.962339}}) {
    CAPTURE(row.first);
    CHECK(student_quantile(row.first) == doctest::Approx(row.second).epsilon(3e-5));
  }
}

TEST_CASE("the probe says distinct tokens twice, and its control says others first") {
  const Vocabulary vocabulary = PlantedModel::vocabulary();
  const ProbeRoom room{{PlantedModel::kBegin}, 34, 20};
  const std::vector<ProbeSequence> probes = probe_sequences({.sequences = 3, .seed = 5}, room, vocabulary);
  REQUIRE(probes.size() == 6);
  for (std::size_t i = 0; i < probes.size(); ++i) {
    const std::vector<std::int64_t>& ids = probes[i].sequence.ids;
    const ProbeMarks& marks = probes[i].marks;
    CHECK(marks.first == 1);
    CHECK(marks.length == 8);  // a quarter of 32 ordinary tokens
    CHECK(marks.repeated == (i % 2 == 0));
    REQUIRE(ids.size() == 17);
    CHECK(ids[0] == PlantedModel::kBegin);
    CHECK(std::ranges::max(ids) == PlantedModel::kBegin);  // there is no other special token
    const std::set<std::int64_t> said(ids.begin() + 1, ids.end());
    CHECK(said.size() == (marks.repeated ? 8 : 16));
    if (marks.repeated) CHECK(std::equal(ids.begin() + 1, ids.begin() + 9, ids.begin() + 9));
    if (!marks.repeated)
      CHECK(std::equal(ids.begin() + 9, ids.end(), probes[i - 1].sequence.ids.begin() + 9));
  }
  CHECK(probes[0].sequence.ids != probes[2].sequence.ids);
  const auto sizes = [&](const ProbePlan& plan, const ProbeRoom& of) {
    return probe_sequences(plan, of, vocabulary).size();
  };
  CHECK(sizes({.sequences = 3}, {{PlantedModel::kBegin}, 34, 8}) == 0);  // too short for two copies
  CHECK(sizes({.sequences = 3}, {{}, 15, 20}) == 0);                     // too few ordinary tokens
  CHECK(sizes({.sequences = 0}, room) == 0);
  // A plan with more sequences begins with the same sequences.
  CHECK(probe_sequences({.sequences = 1, .seed = 5}, room, vocabulary)[0].sequence.ids ==
        probes[0].sequence.ids);
}

}  // namespace
}  // namespace attnctl::test
