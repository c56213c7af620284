#include "analysis/patterns/pattern_metrics.hpp"

#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "support/golden.hpp"
#include "support/long_way.hpp"
#include "support/panels.hpp"

namespace attnctl::analysis {
namespace {

using test::Golden;
using test::GoldenArray;

struct Given {
  input::Sequence sequence;
  std::vector<OwnedMatrix<float>> patterns;  // [heads]
};

std::vector<std::uint8_t> flags(const GoldenArray& array) {
  return {array.values.begin(), array.values.end()};
}

Given read_input(const Golden& golden, int index) {
  const auto at = [&](const char* name) {
    return golden.array(name + std::string("_") + std::to_string(index));
  };
  const GoldenArray pattern = at("pattern");
  const std::size_t n = pattern.shape[1];
  const std::size_t m = pattern.shape[2];
  Given given;
  given.sequence.ids.assign(n, 1);
  given.sequence.separator = flags(at("end_queries"));
  if (n == m) given.sequence.special = flags(at("special_keys"));
  if (n != m) given.sequence.key_embeddings = OwnedMatrix<float>(m, 1);
  for (std::size_t h = 0; h < pattern.shape[0]; ++h) {
    OwnedMatrix<float> matrix(n, m);
    for (std::size_t i = 0; i < n * m; ++i) {
      matrix.values()[i] = static_cast<float>(pattern.values[h * n * m + i]);
    }
    given.patterns.push_back(std::move(matrix));
  }
  return given;
}

const forward::Selection kThreeHeads{{{0, 0}, {0, 1}, {0, 2}}};

std::vector<HeadPatternMetrics> measure(const std::vector<Given>& inputs, bool per_input, std::size_t rows) {
  static const model::Model model = test::open_golden("gpt2");
  PatternMetrics metrics(kThreeHeads, per_input);
  input::Batch batch;
  for (const Given& given : inputs) batch.sequences.push_back(given.sequence);
  metrics.begin(model, batch);
  for (std::size_t s = 0; s < inputs.size(); ++s) {
    for (std::size_t h = 0; h < inputs[s].patterns.size(); ++h) {
      forward::AttentionPanel where;
      where.sequence = s;
      where.head = h;
      test::show(metrics, where, inputs[s].patterns[h].view(), rows);
    }
  }
  return metrics.finish();
}

/// Compares a value with a golden value, where NaN means undefined.
void check_value(const std::optional<double>& got, double want) {
  CHECK(got.has_value() == !std::isnan(want));
  if (got) CHECK(std::abs(*got - want) < 1e-6 * std::max(1.0, std::abs(want)));
}

void check_metrics(const HeadPatternMetrics& got, const Golden& golden, const std::string& suffix) {
  const auto want = [&](std::string_view name) {
    return golden.array(std::string(name) + "_" + suffix).values.at(got.head.head);
  };
  CAPTURE(suffix);
  CAPTURE(got.head.head);
  CHECK(static_cast<double>(got.rows) == want("rows"));
  for (std::size_t i = 0; i < row_metrics().size(); ++i) {
    CAPTURE(row_metrics()[i].about.name);
    check_value(got.means[i], want(row_metrics()[i].about.name));
  }
  REQUIRE(got.best_offset.has_value());
  CHECK(static_cast<double>(*got.best_offset) == want("best_offset"));
  check_value(got.best_offset_share, want("best_offset_share"));
}

TEST_CASE("pattern metrics equal their definitions in NumPy, whatever the panels") {
  const Golden golden(ATTNCTL_SOURCE_DIR "/tests/golden/patterns");
  const std::vector<Given> inputs{read_input(golden, 0), read_input(golden, 1), read_input(golden, 2)};
  for (const std::size_t panel_rows : {std::size_t{128}, std::size_t{5}, std::size_t{1}}) {
    const auto each = measure(inputs, true, panel_rows);
    REQUIRE(each.size() == 9);
    for (std::size_t i = 0; i < each.size(); ++i) {
      CHECK(each[i].input == i / 3);
      check_metrics(each[i], golden, std::to_string(i / 3));
    }
    const auto pooled = measure({inputs[0], inputs[1]}, false, panel_rows);
    REQUIRE(pooled.size() == 3);
    for (const HeadPatternMetrics& head : pooled) {
      CHECK_FALSE(head.input.has_value());
      check_metrics(head, golden, "pooled");
    }
  }
}

std::optional<double> value_of(const HeadPatternMetrics& metrics, std::string_view name) {
  for (std::size_t i = 0; i < row_metrics().size(); ++i) {
    if (row_metrics()[i].about.name == name) return metrics.means[i];
  }
  FAIL("no metric " << name);
  return std::nullopt;
}

/// Returns one head with n queries, m keys and uniform weights.
Given even_weights(std::size_t n, std::size_t m) {
  Given given;
  given.sequence.ids.assign(n, 1);
  if (n != m) given.sequence.key_embeddings = OwnedMatrix<float>(m, 1);
  OwnedMatrix<float> pattern(n, m);
  for (float& weight : pattern.values()) weight = 1 / static_cast<float>(m);
  given.patterns.push_back(std::move(pattern));
  return given;
}

TEST_CASE("even weights give every metric its null") {
  for (const std::size_t n : {std::size_t{1}, std::size_t{2}, std::size_t{17}, std::size_t{1500}}) {
    CAPTURE(n);
    const auto size = static_cast<double>(n);
    const HeadPatternMetrics head = measure({even_weights(n, n)}, false, 100)[0];
    CHECK(head.rows == n);
    CHECK(value_of(head, "entropy").value() == doctest::Approx(std::log(size)).epsilon(1e-5));
    CHECK(value_of(head, "entropy_bits").value() == doctest::Approx(std::log2(size)).epsilon(1e-5));
    CHECK(value_of(head, "confidence").value() == doctest::Approx(1 / size));
    CHECK(value_of(head, "distance").value() ==
          doctest::Approx((size * size - 1) / (3 * size)).epsilon(1e-5));
    CHECK(std::abs(value_of(head, "signed_distance").value()) < 1e-5 * size);
    CHECK(value_of(head, "self").value() == doctest::Approx(1 / size));
    CHECK(value_of(head, "special_token") == 0);
    // For a single row, the previous and next token are undefined instead of 0.
    CHECK(value_of(head, "previous_token").has_value() == (n > 1));
    CHECK(value_of(head, "next_token").has_value() == (n > 1));
    // All keys tie, so the first one counts. The offsets of the rows are 0, -1, -2, ...
    CHECK(head.best_offset == 0);
    CHECK(head.best_offset_share.value() == doctest::Approx(1 / size));
  }
}

TEST_CASE("a head that no row of can be averaged has undefined metrics") {
  struct Row {
    float weight;
    std::uint64_t rows;
    const char* why;
  };
  for (const Row& row : {Row{0, 0, "every row is fully masked"},
                         Row{std::numeric_limits<float>::quiet_NaN(), 4, "weights are not finite"}}) {
    CAPTURE(row.why);
    Given given = even_weights(4, 4);
    for (float& weight : given.patterns[0].values()) weight = row.weight;
    const HeadPatternMetrics head = measure({given}, false, 128)[0];
    CHECK(head.rows == row.rows);
    for (const auto& mean : head.means) CHECK_FALSE(mean.has_value());
    CHECK_FALSE(head.best_offset.has_value());
    CHECK_FALSE(head.best_offset_share.has_value());
  }
}

TEST_CASE("a peak beyond eight keys is at no offset") {
  Given given = even_weights(12, 12);
  for (std::size_t i = 0; i < 12; ++i) {
    for (std::size_t j = 0; j < 12; ++j) given.patterns[0](i, j) = 0;
    given.patterns[0](i, i < 3 ? 11 : 0) = 1;
  }
  OwnedMatrix<float>& pattern = given.patterns[0];
  for (std::size_t i = 3; i < 9; ++i) {
    pattern(i, 0) = 0;
    pattern(i, i - 3) = 1;
  }
  // Rows 0, 1, 2 have offsets 11, 10, 9. Rows 3 to 8 have offset -3. Rows 9, 10, 11 have offsets -9, -10,
  // -11.
  const HeadPatternMetrics head = measure({given}, false, 128)[0];
  CHECK(head.best_offset == -3);
  CHECK(head.best_offset_share.value() == doctest::Approx(0.5));

  for (std::size_t i = 3; i < 9; ++i) pattern(i, i - 3) = 0;
  const HeadPatternMetrics far = measure({given}, false, 128)[0];
  CHECK_FALSE(far.best_offset.has_value());
  CHECK(far.best_offset_share == 0);
}

TEST_CASE("the order of inputs does not change a bit") {
  long_way::Normal normal(5);
  std::vector<Given> inputs;
  for (const std::size_t n : {7U, 31U, 2U, 64U}) {
    Given given = even_weights(n, n);
    for (float& weight : given.patterns[0].values()) weight = static_cast<float>(std::exp(3 * normal()));
    inputs.push_back(std::move(given));
  }
  const HeadPatternMetrics one = measure(inputs, false, 128)[0];
  std::reverse(inputs.begin(), inputs.end());
  const HeadPatternMetrics other = measure(inputs, false, 3)[0];
  for (std::size_t i = 0; i < one.means.size(); ++i) CHECK(one.means[i] == other.means[i]);
}

TEST_CASE("long rows lose nothing in float lanes") {
  // A row of 100,000 keys has distances up to 99,999. The expected sum is in double.
  constexpr std::size_t m = 100000;
  long_way::Normal normal(6);
  OwnedMatrix<float> row(1, m);
  double total = 0;
  for (float& weight : row.values())
    total += static_cast<double>(weight = static_cast<float>(std::exp(normal())));
  double distance = 0;
  double entropy = 0;
  for (std::size_t j = 0; j < m; ++j) {
    row(0, j) = static_cast<float>(static_cast<double>(row(0, j)) / total);
    const auto weight = static_cast<double>(row(0, j));
    distance += weight * static_cast<double>(j);
    entropy -= weight * std::log(weight);
  }
  const SequenceMarks marks;
  const PatternRow facts(row.view().row(0), {0, row.cols()}, 0, marks);
  CHECK(facts.distance == doctest::Approx(distance).epsilon(1e-6));
  CHECK(facts.signed_distance == doctest::Approx(distance).epsilon(1e-6));
  CHECK(facts.entropy == doctest::Approx(entropy).epsilon(1e-6));
}

}  // namespace
}  // namespace attnctl::analysis
