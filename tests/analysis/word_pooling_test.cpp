#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include "analysis/patterns/adapters.hpp"
#include "support/panels.hpp"

namespace attnctl::analysis {
namespace {

/// Reassembles the rows of the panels that it receives.
class Rows final : public forward::Observer {
 public:
  void begin(const model::Model& /*model*/, const input::Batch& batch) override {
    keys = batch.sequences.front().keys();
    rows.clear();
  }
  void panel(const forward::AttentionPanel& panel) override {
    CHECK(panel.first_query == rows.size());
    for (std::size_t r = 0; r < panel.pattern.rows; ++r) {
      const auto row = panel.pattern.row(r);
      rows.emplace_back(row.begin(), row.end());
      masked.push_back(!panel.fully_masked.empty() && panel.fully_masked[r] != 0);
    }
  }
  std::size_t keys = 0;
  std::vector<std::vector<float>> rows;
  std::vector<bool> masked;
};

/// Seven tokens in four words. The rows sum to 1, except one fully masked row.
const input::WordUnits kUnits{{0, 1, 1, 1, 2, 3, 3}, 4};

OwnedMatrix<float> random_pattern(std::size_t masked_row) {
  std::mt19937 random(7);
  OwnedMatrix<float> pattern(7, 7);
  for (std::size_t r = 0; r < 7; ++r) {
    float sum = 0;
    for (float& value : pattern.view().row(r)) sum += value = static_cast<float>(random() % 1000 + 1);
    for (float& value : pattern.view().row(r)) value = r == masked_row ? 0 : value / sum;
  }
  return pattern;
}

/// Returns the pooled pattern, computed from the definition.
std::vector<std::vector<double>> pooled(const OwnedMatrix<float>& pattern, std::size_t masked_row,
                                        PoolFrom from) {
  std::vector<std::vector<double>> words(4, std::vector<double>(4, 0.0));
  for (std::size_t a = 0; a < 4; ++a) {
    std::vector<std::size_t> pieces;
    for (std::size_t i = 0; i < 7; ++i) {
      if (kUnits.unit_of_token[i] == a && i != masked_row) pieces.push_back(i);
    }
    if (from == PoolFrom::first && pieces.size() > 1) pieces.resize(1);
    for (const std::size_t i : pieces) {
      for (std::size_t j = 0; j < 7; ++j) {
        words[a][kUnits.unit_of_token[j]] +=
            static_cast<double>(pattern(i, j)) / static_cast<double>(pieces.size());
      }
    }
  }
  return words;
}

TEST_CASE("patterns over words do not depend on the panels") {
  const model::Model model = test::open_golden("gpt2");
  input::Batch tokens;
  tokens.sequences.resize(1);
  tokens.sequences[0].ids.assign(7, 1);
  input::Batch words;
  words.sequences.resize(1);
  words.sequences[0].units = 4;
  const forward::Selection selection{{{0, 1}}};
  const std::vector<input::WordUnits> units{kUnits};
  for (const std::size_t masked_row : {std::size_t{99}, std::size_t{0}, std::size_t{1}, std::size_t{6}}) {
    const OwnedMatrix<float> pattern = random_pattern(masked_row);
    for (const PoolFrom from : {PoolFrom::mean, PoolFrom::first}) {
      const auto want = pooled(pattern, masked_row, from);
      for (const std::size_t panel_rows : {1U, 2U, 3U, 7U}) {
        Rows rows;
        WordPooling pooling(selection, units, words, from, {&rows});
        pooling.begin(model, tokens);
        forward::AttentionPanel where;
        where.head = 0;  // not selected
        test::show(pooling, where, pattern.view(), panel_rows);
        CHECK(rows.rows.empty());
        where.head = 1;
        test::show(pooling, where, pattern.view(), panel_rows);
        CHECK(rows.keys == 4);
        REQUIRE(rows.rows.size() == 4);
        for (std::size_t a = 0; a < 4; ++a) {
          CHECK(rows.masked[a] == (a == 0 && masked_row == 0));
          for (std::size_t b = 0; b < 4; ++b) {
            CAPTURE(a);
            CAPTURE(b);
            CHECK(static_cast<double>(rows.rows[a][b]) == doctest::Approx(want[a][b]).epsilon(1e-6));
          }
        }
      }
    }
  }
}

TEST_CASE("a matrix over tokens as one over words") {
  const OwnedMatrix<float> pattern = random_pattern(99);
  OwnedMatrix<double> wide(7, 7);
  for (std::size_t i = 0; i < 49; ++i) wide.values()[i] = static_cast<double>(pattern.values()[i]);
  for (const PoolFrom from : {PoolFrom::mean, PoolFrom::first}) {
    const OwnedMatrix<double> words = pool_matrix(std::as_const(wide).view(), kUnits, from);
    const auto want = pooled(pattern, 99, from);
    for (std::size_t a = 0; a < 4; ++a) {
      double sum = 0;
      for (std::size_t b = 0; b < 4; ++b) {
        CHECK(words(a, b) == doctest::Approx(want[a][b]));
        sum += words(a, b);
      }
      CHECK(sum == doctest::Approx(1));
    }
  }
}

}  // namespace
}  // namespace attnctl::analysis
