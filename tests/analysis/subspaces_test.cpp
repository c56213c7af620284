#include "analysis/similarity/subspaces.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "analysis/weights/composition.hpp"
#include "analysis/weights/weights.hpp"
#include "support/golden.hpp"
#include "support/long_way.hpp"
#include "support/memory_checkpoint.hpp"

namespace attnctl::analysis {
namespace {

using test::Golden;
using test::GoldenArray;
using test::MemoryModel;

const std::filesystem::path kSource = ATTNCTL_SOURCE_DIR;
const std::filesystem::path kGoldens = kSource / "tests/golden/subspaces";

struct Case {
  const char* name;
  std::filesystem::path model;
};
const Case kCases[] = {{"tiny-llama", kSource / "data/tiny-llama"},
                       {"tiny-bert", kSource / "data/tiny-bert"},
                       {"llama", kSource / "tests/golden/llama"},  // 6 heads on 2 key/value heads
                       {"albert", kSource / "tests/golden/albert"},
                       {"gpt2", kSource / "tests/golden/gpt2"}};

/// Checks |got - want| <= within. NaN must match NaN.
void check_near(double got, double want, double within) {
  if (std::isnan(want)) {
    CHECK(std::isnan(got));
  } else {
    CHECK(std::abs(got - want) <= within);
  }
}

void check_matrix(const OwnedMatrix<double>& got, const GoldenArray& want, double within) {
  REQUIRE(got.values().size() == want.values.size());
  for (std::size_t i = 0; i < want.values.size(); ++i) check_near(got.values()[i], want.values[i], within);
}

void check_projection(const ProjectionAnalysis& across, const ProjectionAnalysis& within,
                      const Golden& golden) {
  const std::string name(name_of(across.projection));
  CAPTURE(name);
  const GoldenArray ranks = golden.array(name + "_effective_rank");
  REQUIRE(across.heads.size() == ranks.values.size());
  for (std::size_t i = 0; i < across.heads.size(); ++i) {
    check_near(across.heads[i].effective_rank.value(), ranks.values[i], 1e-6);
  }
  const GoldenArray kernel = golden.array(name + "_kernel");
  REQUIRE(across.angles.size() == 1);
  CHECK_FALSE(across.angles[0].layer.has_value());
  check_matrix(across.angles[0].values, kernel, 1e-6);
  // The first layer's block of the kernel matrix, and its angles.
  const SubspaceAngles& first = within.angles.at(0);
  const std::size_t heads = first.heads.size();
  CHECK(first.layer == 0);
  for (std::size_t a = 0; a < heads; ++a) {
    for (std::size_t b = 0; b < heads; ++b) {
      check_near(first.values(a, b), kernel.values[a * kernel.shape[1] + b], 1e-6);
    }
  }
  const GoldenArray cosines = golden.array(name + "_cosines");
  REQUIRE(first.cosines.size() == cosines.values.size());
  for (std::size_t i = 0; i < cosines.values.size(); ++i) {
    check_near(first.cosines[i], cosines.values[i], 1e-6);
  }
}

TEST_CASE("effective ranks, kernels and principal angles of projections equal those of SciPy") {
  for (const Case& each : kCases) {
    CAPTURE(each.name);
    Warnings warnings;
    Pool pool(2);
    const model::Model model = test::bind_model(each.model, warnings);
    const forward::Selection all = forward::Selection::all(model.config());
    const auto across = analyze_subspaces(model, all, {.across_layers = true}, pool, warnings);
    const auto within = analyze_subspaces(model, all, {}, pool, warnings);
    const Golden golden(kGoldens / each.name);
    REQUIRE(across.size() == 4);
    REQUIRE(within.size() == 4);
    for (std::size_t i = 0; i < 4; ++i) check_projection(across[i], within[i], golden);
    CHECK(within[0].angles.size() == model.config().layers.size());
    CHECK(warnings.list().empty());
  }
}

TEST_CASE("compositions equal those of formed matrices") {
  for (const Case& each : kCases) {
    CAPTURE(each.name);
    Warnings warnings;
    Pool pool(2);
    const model::Model model = test::bind_model(each.model, warnings);
    const auto found =
        analyze_composition(model, forward::Selection::all(model.config()), {.draws = 4}, pool);
    const Golden golden(kGoldens / each.name);
    REQUIRE(found.size() == 3);
    for (const Composition& composition : found) {
      CAPTURE(name_of(composition.kind));
      const GoldenArray want = golden.array(std::string(name_of(composition.kind)) + "_composition");
      check_matrix(composition.scores, want, 1e-6);
      double sum = 0;
      double pairs = 0;
      for (std::size_t i = 0; i < want.values.size(); ++i) {
        if (std::isnan(want.values[i])) continue;
        check_near(composition.scores.values()[i] - composition.excess.values()[i], composition.null.mean,
                   1e-12);
        sum += want.values[i];
        ++pairs;
      }
      check_near(composition.mean.value(), sum / pairs, 1e-6);
    }
  }
}

TEST_CASE("OV copying equals that of the eigenvalues of the whole matrix") {
  for (const Case& each : kCases) {
    CAPTURE(each.name);
    Warnings warnings;
    Pool pool(2);
    const model::Model model = test::bind_model(each.model, warnings);
    const auto scores = ov_copying(model, forward::Selection::all(model.config()), false, pool, warnings);
    const GoldenArray want = Golden(kGoldens / each.name).array("ov_copying");
    REQUIRE(scores.size() == want.values.size());
    for (std::size_t i = 0; i < scores.size(); ++i) check_near(scores[i].value(), want.values[i], 1e-5);
  }
}

TEST_CASE("the textbook's own code gives the same similarity and effective ranks") {
  for (const char* name : {"textbook-random", "textbook-specialised"}) {
    CAPTURE(name);
    Warnings warnings;
    Pool pool(2);
    const model::Model model = test::bind_model(kGoldens / name, warnings);
    const auto analysis = analyze_weights(model, forward::Selection::all(model.config()), {}, pool, warnings);
    const Golden golden(kGoldens / name);
    check_matrix(analysis.qk.similarity.at(0).values, golden.array("similarity"), 1e-6);
    const GoldenArray ranks = golden.array("effective_ranks");
    for (std::size_t i = 0; i < ranks.values.size(); ++i) {
      check_near(analysis.qk.heads.at(i).effective_rank.value(), ranks.values[i], 1e-5);
    }
  }
}

std::vector<float> normal_values(std::size_t count, std::uint64_t seed) {
  const long_way::Dense drawn = long_way::Normal(seed).matrix(1, count);
  return {drawn.values().begin(), drawn.values().end()};
}

/// Returns a model of bare attention layers with normal weights.
MemoryModel random_model(std::size_t d, std::size_t heads, std::size_t layers) {
  MemoryModel model;
  model.config = {{"model_type", "attention"}, {"heads", heads}, {"layers", layers}};
  std::uint64_t seed = 1;
  for (std::size_t layer = 0; layer < layers; ++layer) {
    for (const char* name : {"W_q", "W_k", "W_v", "W_o"}) {
      const std::string prefix = layers > 1 ? "layers." + std::to_string(layer) + "." : "";
      model.tensors[prefix + name] = test::floats({d, d}, normal_values(d * d, seed++));
    }
  }
  return model;
}

TEST_CASE("random weights show the nulls that are stated") {
  const model::Model model = random_model(96, 24, 2).bound();
  const forward::Selection all = forward::Selection::all(model.config());
  Warnings warnings;
  Pool pool(2);
  const auto spaces = analyze_subspaces(model, all, {.across_layers = true}, pool, warnings);
  const SubspaceAngles& angles = spaces.at(0).angles.at(0);
  const RandomNull null = angles.null;
  CHECK(null.mean == doctest::Approx(4.0 / 96));
  double squares = 0;
  double pairs = 0;
  for (std::size_t a = 0; a < angles.heads.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      squares += std::pow(angles.values(a, b) - null.mean, 2);
      ++pairs;
    }
  }
  CHECK(off_diagonal(angles.values.view()).mean.value() == doctest::Approx(null.mean).epsilon(0.03));
  CHECK(std::sqrt(squares / pairs) == doctest::Approx(null.deviation).epsilon(0.1));

  for (const Composition& composition : analyze_composition(model, all, {}, pool)) {
    // The expected squared score of independent normal weights is 1/d.
    CHECK(composition.null.mean == doctest::Approx(1 / std::sqrt(96.0)).epsilon(0.03));
    CHECK(composition.mean.value() == doctest::Approx(composition.null.mean).epsilon(0.03));
  }
}

TEST_CASE("the null of a projection kernel") {
  // Measured on 20,000 pairs of random subspaces of 64 of 768 dimensions: (5.333 +- 0.108) / 64.
  const RandomNull null = projection_kernel_null(768, 64, 64);
  CHECK(null.mean == doctest::Approx(5.3333 / 64).epsilon(1e-4));
  CHECK(null.deviation == doctest::Approx(0.108 / 64).epsilon(5e-3));
  CHECK(projection_kernel_null(5, 5, 5).mean == 1);
  CHECK(projection_kernel_null(5, 5, 5).deviation == 0);
}

TEST_CASE("a later head that reads exactly what an earlier one writes composes most, others not at all") {
  MemoryModel model = random_model(8, 2, 2);
  // Head 0.0 writes dimensions 0..3. In layer 1, W_q of head 0 reads these dimensions and W_q of head 1
  // reads the others.
  std::vector<float> w_o(64, 0);
  std::vector<float> w_q(64, 0);
  for (std::size_t i = 0; i < 4; ++i) {
    w_o[i * 8 + i] = 1;
    w_q[i * 8 + i] = 1;
    w_q[(i + 4) * 8 + i + 4] = 1;
  }
  model.tensors["layers.0.W_o"] = test::floats({8, 8}, w_o);
  model.tensors["layers.1.W_q"] = test::floats({8, 8}, w_q);
  const model::Model bound = model.bound();
  Pool pool(1);
  const forward::Selection all = forward::Selection::all(bound.config());
  const auto found = analyze_composition(bound, all, {.draws = 2}, pool);
  CHECK(found[0].scores(0, 2) > 0.3);
  CHECK(found[0].scores(0, 3) == 0);
  CHECK(std::isnan(found[0].scores(1, 2)));  // the output of head 0.1 is zero
  CHECK(std::isnan(found[0].scores(0, 1)));  // same layer
  CHECK(std::isnan(found[0].scores(2, 0)));  // row in a later layer than the column
}

TEST_CASE("projections that are zero or not finite are undefined and counted") {
  MemoryModel model = random_model(12, 3, 1);
  std::vector<float> w_q = normal_values(144, 5);
  for (std::size_t r = 0; r < 12; ++r) {
    for (std::size_t c = 4; c < 8; ++c) w_q[r * 12 + c] = 0;
    w_q[r * 12 + 11] = w_q[r * 12 + 10];  // head 2 has rank 3
  }
  std::vector<float> w_k = normal_values(144, 6);
  w_k[0] = std::numeric_limits<float>::infinity();
  model.tensors["W_q"] = test::floats({12, 12}, w_q);
  model.tensors["W_k"] = test::floats({12, 12}, w_k);
  const model::Model bound = model.bound();
  Warnings warnings;
  Pool pool(2);
  const auto found = analyze_subspaces(bound, forward::Selection::all(bound.config()), {}, pool, warnings);
  const SubspaceAngles& queries = found.at(0).angles.at(0);
  CHECK_FALSE(found[0].heads[1].effective_rank.has_value());
  CHECK(found[0].heads[2].rank == 3);
  CHECK(std::isnan(queries.values(0, 1)));
  CHECK(std::isnan(queries.values(1, 1)));
  CHECK(queries.values(2, 2) == 1);
  CHECK(std::isnan(queries.cosines_of(0, 2)[3]));
  CHECK(queries.cosines_of(0, 2)[2] > 0);
  CHECK(queries.null.mean == doctest::Approx(std::sqrt(12.0) / 12));
  CHECK_FALSE(found.at(1).heads[0].effective_rank.has_value());
  REQUIRE(warnings.list().size() == 1);
  CHECK(warnings.list()[0].code == "undefined_projection");
  CHECK(warnings.list()[0].count == 2);
}

TEST_CASE("a model that cannot copy gets a warning and no copying score") {
  const model::Model bound = random_model(8, 2, 1).bound();
  Warnings warnings;
  Pool pool(1);
  const auto scores = ov_copying(bound, forward::Selection::all(bound.config()), false, pool, warnings);
  CHECK(scores == std::vector<std::optional<double>>(2));
  REQUIRE(warnings.list().size() == 1);
  CHECK(warnings.list()[0].code == "no_copying");
}

TEST_CASE("a head that copies has score 1, one that forbids -1") {
  MemoryModel model = MemoryModel::golden("gpt2");  // d 15, 3 heads of 5, tied
  const auto name = [&](const char* end) {
    for (const auto& [key, tensor] : model.tensors) {
      if (key.ends_with(end)) return key;
    }
    return std::string();
  };
  std::vector<float> attention(15 * 45, 0);
  std::vector<float> projection(15 * 15, 0);
  for (std::size_t i = 0; i < 15; ++i) {
    attention[i * 45 + 30 + i] = 1;  // W_V: the identity
    projection[i * 15 + i] = i < 5 ? 1.0F : -1.0F;
  }
  model.tensors[name("h.0.attn.c_attn.weight")] = test::floats({15, 45}, attention);
  model.tensors[name("h.0.attn.c_proj.weight")] = test::floats({15, 15}, projection);
  const model::Model bound = model.bound();
  Warnings warnings;
  Pool pool(1);
  const auto scores = ov_copying(bound, forward::Selection{{{0, 0}, {0, 1}, {0, 2}}}, false, pool, warnings);
  CHECK(scores[0].value() == doctest::Approx(1));
  CHECK(scores[1].value() == doctest::Approx(-1));
  CHECK(scores[2].value() == doctest::Approx(-1));
}

TEST_CASE("the copying score of weights that are not finite is undefined") {
  MemoryModel model = MemoryModel::golden("gpt2");
  for (auto& [name, tensor] : model.tensors) {
    if (name.ends_with("h.0.attn.c_attn.weight"))
      tensor = test::floats({15, 45}, std::vector<float>(15 * 45, std::numeric_limits<float>::infinity()));
  }
  const model::Model bound = model.bound();
  Warnings warnings;
  Pool pool(1);
  const auto scores = ov_copying(bound, forward::Selection{{{0, 0}, {1, 0}}}, false, pool, warnings);
  CHECK_FALSE(scores[0].has_value());
  CHECK(scores[1].has_value());
  REQUIRE(warnings.list().size() == 1);
  CHECK(warnings.list()[0].code == "undefined_copying");
}

}  // namespace
}  // namespace attnctl::analysis
