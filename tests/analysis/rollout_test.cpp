#include "analysis/mixing/rollout.hpp"

#include <cmath>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "base/pool.hpp"
#include "support/long_way.hpp"
#include "support/panels.hpp"

namespace attnctl {
namespace {

using long_way::Dense;

/// Returns random causal patterns [layers][heads] whose rows sum to 1. Row 2 of every head sees no key.
std::vector<std::vector<OwnedMatrix<float>>> random_patterns(std::size_t layers, std::size_t heads,
                                                             std::size_t n) {
  long_way::Normal normal(12);
  std::vector<std::vector<OwnedMatrix<float>>> patterns(layers);
  for (auto& layer : patterns) {
    for (std::size_t h = 0; h < heads; ++h) {
      OwnedMatrix<float> pattern(n, n);
      for (std::size_t i = 0; i < n; ++i) {
        if (i == 2) continue;
        double total = 0;
        std::vector<double> row(i + 1);
        for (double& weight : row) total += weight = std::exp(2 * normal());
        for (std::size_t j = 0; j <= i; ++j) pattern(i, j) = static_cast<float>(row[j] / total);
      }
      layer.push_back(std::move(pattern));
    }
  }
  return patterns;
}

/// Returns the rollout computed from its definition: the product of 0.5 A + 0.5 I of the layers, from the
/// left.
Dense roll_the_long_way(const std::vector<std::vector<OwnedMatrix<float>>>& patterns) {
  const std::size_t n = patterns[0][0].rows();
  Dense rolled(n, n);
  for (std::size_t i = 0; i < n; ++i) rolled(i, i) = 1;
  for (const auto& layer : patterns) {
    Dense next(n, n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        double mean = 0;
        for (const auto& head : layer)
          mean += static_cast<double>(head(i, j)) / static_cast<double>(layer.size());
        // A fully masked row becomes a row of the identity.
        const double residual = i == j ? (i == 2 ? 1 : 0.5) : 0;
        for (std::size_t c = 0; c < n; ++c) next(i, c) += (0.5 * mean + residual) * rolled(j, c);
      }
    }
    rolled = next;
  }
  return rolled;
}

Dense roll(const Model& model, const std::vector<std::vector<OwnedMatrix<float>>>& patterns,
           std::size_t threads) {
  Rollout rollout;
  Batch batch;
  batch.sequences.resize(1);
  batch.sequences[0].ids.assign(patterns[0][0].rows(), 1);
  rollout.begin(model, batch);
  Pool pool(threads);
  for (std::size_t layer = 0; layer < patterns.size(); ++layer) {
    pool.run(patterns[layer].size(), [&](std::size_t head, std::size_t) {
      AttentionPanel where;
      where.layer = layer;
      where.head = head;
      test::show(rollout, where, patterns[layer][head].view(), 50);
    });
  }
  return std::move(rollout.finish().at(0));
}

TEST_CASE("rollout equals its definition, to the bit on any number of threads") {
  const Model model = test::open_golden("llama");  // 2 layers of 6 heads
  for (const std::size_t n : {std::size_t{1}, std::size_t{2}, std::size_t{150}}) {
    const auto patterns = random_patterns(2, 6, n);
    const Dense want = roll_the_long_way(patterns);
    const Dense got = roll(model, patterns, 1);
    for (std::size_t i = 0; i < n; ++i) {
      double total = 0;
      for (std::size_t j = 0; j < n; ++j) {
        CHECK(std::abs(got(i, j) - want(i, j)) < 1e-6);
        total += got(i, j);
      }
      CHECK(std::abs(total - 1) < 1e-12);
    }
    const Dense threaded = roll(model, patterns, 3);
    CHECK(std::equal(got.values().begin(), got.values().end(), threaded.values().begin()));
  }
}

TEST_CASE("rollout refuses keys of another sequence") {
  const Model model = test::open_golden("llama");
  Batch batch;
  batch.sequences.resize(1);
  batch.sequences[0].embeddings = OwnedMatrix<float>(2, 24);
  batch.sequences[0].key_embeddings = OwnedMatrix<float>(3, 24);
  Rollout rollout;
  CHECK_THROWS_AS(rollout.begin(model, batch), Error);
}

}  // namespace
}  // namespace attnctl
