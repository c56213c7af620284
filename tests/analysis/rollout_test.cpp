#include "analysis/mixing/rollout.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "base/pool.hpp"
#include "forward/run.hpp"
#include "support/golden.hpp"
#include "support/long_way.hpp"
#include "support/panels.hpp"

namespace attnctl::analysis {
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

Dense roll(const model::Model& model, const std::vector<std::vector<OwnedMatrix<float>>>& patterns,
           std::size_t threads) {
  Rollout rollout;
  input::Batch batch;
  batch.sequences.resize(1);
  batch.sequences[0].ids.assign(patterns[0][0].rows(), 1);
  rollout.begin(model, batch);
  Pool pool(threads);
  for (std::size_t layer = 0; layer < patterns.size(); ++layer) {
    pool.run(patterns[layer].size(), [&](std::size_t head, std::size_t) {
      forward::AttentionPanel where;
      where.layer = layer;
      where.head = head;
      test::show(rollout, where, patterns[layer][head].view(), 50);
    });
  }
  return std::move(rollout.finish().at(0));
}

TEST_CASE("rollout equals its definition, to the bit on any number of threads") {
  const model::Model model = test::open_golden("llama");  // 2 layers of 6 heads
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
  const model::Model model = test::open_golden("llama");
  input::Batch batch;
  batch.sequences.resize(1);
  batch.sequences[0].embeddings = OwnedMatrix<float>(2, 24);
  batch.sequences[0].key_embeddings = OwnedMatrix<float>(3, 24);
  Rollout rollout;
  CHECK_THROWS_AS(rollout.begin(model, batch), Error);
}

using Layers = std::vector<OwnedMatrix<double>>;

std::vector<std::size_t> all_of(std::size_t n) {
  std::vector<std::size_t> all(n);
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

Layers layers_of(const test::GoldenArray& array) {
  const std::size_t n = array.shape.at(1);
  Layers layers;
  for (std::size_t l = 0; l < array.shape[0]; ++l) {
    OwnedMatrix<double>& layer = layers.emplace_back(n, n);
    std::copy_n(array.values.begin() + static_cast<std::ptrdiff_t>(l * n * n), n * n, layer.values().begin());
  }
  return layers;
}

TEST_CASE("maximum flows are those of networkx, exactly") {
  const test::Golden golden(ATTNCTL_SOURCE_DIR "/tests/golden/mixing/flows");
  for (const std::string name : {"one", "dense", "causal", "sparse", "uneven", "wide"}) {
    CAPTURE(name);
    const Layers layers = layers_of(golden.array(name + "_layers"));
    Pool pool(3);
    const std::size_t n = layers[0].rows();
    const OwnedMatrix<double> got = layered_flows(layers, all_of(n), pool);
    const std::vector<double> want = golden.array(name + "_flows").values;
    CHECK(std::ranges::equal(got.values(), want));
    CHECK(std::ranges::any_of(want, [](double value) { return value > 0; }));
    const std::vector<std::size_t> last = {n - 1};
    const OwnedMatrix<double> one = layered_flows(layers, last, pool);
    CHECK(std::ranges::equal(one.values(), got.view().row(n - 1)));
  }
}

/// A greedy first path must be undone to reach the maximum flow.
TEST_CASE("a flow is rerouted where the first way was the wrong one") {
  Layers layers(3, OwnedMatrix<double>(2, 2));
  layers[2](0, 0) = 1;  // from node 0 to both nodes below
  layers[2](0, 1) = 1;
  layers[1](0, 0) = 1;  // node 0 leads to both nodes, node 1 only to node 0
  layers[1](0, 1) = 1;
  layers[1](1, 0) = 1;
  layers[0](0, 0) = 1;
  layers[0](1, 0) = 1;
  Pool pool(1);
  const OwnedMatrix<double> flows = layered_flows(layers, std::vector<std::size_t>{0, 1}, pool);
  CHECK(flows(0, 0) == 2);
  CHECK(flows(0, 1) == 0);
  CHECK(flows(1, 0) == 0);
}

/// Returns the largest capacity of a single path from each node above to each node below.
OwnedMatrix<double> widest_paths(const Layers& layers) {
  const std::size_t n = layers[0].rows();
  OwnedMatrix<double> widest = layers[0];
  for (std::size_t l = 1; l < layers.size(); ++l) {
    OwnedMatrix<double> next(n, n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t k = 0; k < n; ++k) {
        for (std::size_t j = 0; j < n; ++j)
          next(i, j) = std::max(next(i, j), std::min(layers[l](i, k), widest(k, j)));
      }
    }
    widest = next;
  }
  return widest;
}

TEST_CASE("a flow takes no more than its ends let through, and no less than its widest path") {
  long_way::Normal normal(3);
  Layers layers;
  for (int l = 0; l < 4; ++l) {
    OwnedMatrix<double>& layer = layers.emplace_back(30, 30);
    for (double& value : layer.values()) value = std::exp(normal());
    for (std::size_t i = 0; i < 30; ++i) {
      const auto row = layer.view().row(i);
      const double total = std::accumulate(row.begin(), row.end(), 0.0);
      for (double& value : row) value /= total;
    }
  }
  Pool pool(2);
  const OwnedMatrix<double> flows = layered_flows(layers, all_of(30), pool);
  const OwnedMatrix<double> widest = widest_paths(layers);
  for (std::size_t i = 0; i < 30; ++i) {
    for (std::size_t j = 0; j < 30; ++j) {
      double into = 0;
      for (std::size_t k = 0; k < 30; ++k) into += layers[0](k, j);
      CHECK(flows(i, j) <= std::min(1.0, into) + 1e-12);
      CHECK(flows(i, j) >= widest(i, j) - 1e-12);
    }
  }
  layers[1](2, 3) = std::numeric_limits<double>::quiet_NaN();
  CHECK(std::isnan(layered_flows(layers, all_of(30), pool)(0, 0)));
}

TEST_CASE("rollout of every fusion and residual, and flow, of trained models") {
  for (const std::string name : {"tiny-bert", "tiny-llama", "gpt2", "llama"}) {
    CAPTURE(name);
    const test::Golden golden(ATTNCTL_SOURCE_DIR "/tests/golden/mixing/" + name);
    const std::string folder = name.starts_with("tiny") ? "/data/" : "/tests/golden/";
    Warnings warnings;
    const model::Model model = test::bind_model(ATTNCTL_SOURCE_DIR + folder + name, warnings);
    Rollout mean;
    Rollout max({HeadFusion::max, 0.5});
    Rollout min({HeadFusion::min, 0.5});
    Rollout tenth({HeadFusion::mean, 0.1});
    Rollout none({HeadFusion::max, 0.0});
    AttentionFlow flow;
    input::Batch batch;
    batch.sequences.resize(1);
    batch.sequences[0].ids = golden.integers("ids");
    Pool pool(2);
    forward::RunContext context{.pool = pool, .warnings = warnings, .panel_rows = 4};
    forward::run_forward(model, batch, forward::Selection::all(model.config()),
                         std::vector<forward::Observer*>{&mean, &max, &min, &tenth, &none, &flow}, context);
    const std::vector<std::vector<std::size_t>> from = {all_of(batch.sequences[0].ids.size())};
    const auto check = [&](const OwnedMatrix<double>& got, const std::string& what) {
      const std::vector<double> want = golden.array(what).values;
      REQUIRE(got.values().size() == want.size());
      for (std::size_t i = 0; i < want.size(); ++i) {
        CHECK_MESSAGE(std::abs(got.values()[i] - want[i]) < 2e-6, what, " ", i);
      }
    };
    check(mean.finish().at(0), "rollout_mean");
    check(max.finish().at(0), "rollout_max");
    check(min.finish().at(0), "rollout_min");
    check(tenth.finish().at(0), "rollout_mean_tenth");
    check(none.finish().at(0), "rollout_max_none");
    check(mean.take_last_layer().at(0), "last_layer");
    check(flow.finish(from, pool).at(0), "flow");
  }
}

}  // namespace
}  // namespace attnctl::analysis
