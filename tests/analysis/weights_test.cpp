#include "analysis/weights/weights.hpp"

#include <cmath>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "analysis/head_axes.hpp"
#include "support/golden.hpp"
#include "support/long_way.hpp"
#include "support/memory_checkpoint.hpp"
#include "support/panels.hpp"

namespace attnctl::analysis {
namespace {

using test::Golden;
using test::GoldenArray;

/// Checks |got - want| <= within. Fails for NaN.
void check_near(double got, double want, double within) {
  CHECK(std::abs(got - want) <= within);
}

void check_spectra(const CircuitAnalysis& analysis, const Golden& golden, const std::string& circuit,
                   const std::string& suffix) {
  const GoldenArray effective = golden.array(circuit + "_effective_rank" + suffix);
  const GoldenArray stable = golden.array(circuit + "_stable_rank" + suffix);
  const GoldenArray values = golden.array(circuit + "_singular_values" + suffix);
  const std::size_t kept = values.shape.back();
  REQUIRE(analysis.heads.size() == effective.values.size());
  for (std::size_t i = 0; i < analysis.heads.size(); ++i) {
    const HeadSpectrum& head = analysis.heads[i];
    CHECK(head.effective_rank.value() == doctest::Approx(effective.values[i]).epsilon(1e-5));
    CHECK(head.stable_rank.value() == doctest::Approx(stable.values[i]).epsilon(1e-5));
    REQUIRE(head.singular_values.size() >= kept);
    for (std::size_t r = 0; r < kept; ++r) {
      check_near(head.singular_values[r], values.values[i * kept + r], 1e-6 * values.values[i * kept]);
    }
  }
}

void check_similarity(const CircuitAnalysis& analysis, const GoldenArray& want) {
  std::size_t at = 0;
  for (const HeadMatrix& similarity : analysis.similarity) {
    for (const double value : similarity.values.values()) check_near(value, want.values.at(at++), 1e-5);
  }
  CHECK(at == want.values.size());
}

/// Compares all heads of one component with the golden arrays whose names end with `suffix`.
void check_golden(const model::Model& model, const Golden& golden, const forward::Selection& all,
                  const std::string& suffix) {
  CAPTURE(suffix);
  Pool pool(2);
  Warnings warnings;
  const WeightsAnalysis analysis = analyze_weights(model, all, {}, pool, warnings);
  check_spectra(analysis.qk, golden, "qk", suffix);
  check_similarity(analysis.qk, golden.array("qk_similarity" + suffix));
  CHECK(analysis.ov.has_value() == golden.has("ov_similarity" + suffix));
  if (analysis.ov) {
    check_spectra(*analysis.ov, golden, "ov", suffix);
    check_similarity(*analysis.ov, golden.array("ov_similarity" + suffix));
  }
  if (!golden.has("qk_similarity_all" + suffix)) return;
  WeightsOptions across;
  across.across_layers = true;
  const WeightsAnalysis joined = analyze_weights(model, all, across, pool, warnings);
  REQUIRE(joined.qk.similarity.size() == 1);
  CHECK_FALSE(joined.qk.similarity[0].layer.has_value());
  check_similarity(joined.qk, golden.array("qk_similarity_all" + suffix));
  if (joined.ov) check_similarity(*joined.ov, golden.array("ov_similarity_all" + suffix));
}

TEST_CASE("weights analyses equal the long way in NumPy float64") {
  const auto directories = test::golden_models();
  REQUIRE(directories.size() > 20);
  for (const auto& directory : directories) {
    CAPTURE(directory.string());
    Warnings warnings;
    const model::Model model = test::bind_model(directory, warnings);
    const Golden golden(directory);
    for (const auto& [component, heads] :
         split_by_component(forward::Selection::all(model.config()), model.config()))
      check_golden(model, golden, heads, test::component_suffix(component));
  }
}

using long_way::Dense;
using test::MemoryModel;

/// A float32 weight of a checkpoint.
struct Weight {
  std::size_t rows, cols;
  std::vector<float> values;
};
using Weights = std::map<std::string, Weight>;

Weight weight_of(const Dense& values) {
  Weight weight{values.rows(), values.cols(), {}};
  for (const double value : values.values()) weight.values.push_back(static_cast<float>(value));
  return weight;
}

Dense columns(const Weight& weight, std::size_t first, std::size_t count) {
  Dense part(weight.rows, count);
  for (std::size_t r = 0; r < weight.rows; ++r) {
    for (std::size_t c = 0; c < count; ++c) {
      part(r, c) = static_cast<double>(weight.values[r * weight.cols + first + c]);
    }
  }
  return part;
}

/// Returns the weights of a bare layer with 4 heads on 2 key/value heads: d 12, kdim 9, vdim 7, d_head 3,
/// d_value 5, d_out 8.
Weights odd_weights() {
  long_way::Normal normal(21);
  return {{"W_q", weight_of(normal.matrix(12, 12))},
          {"W_k", weight_of(normal.matrix(9, 6))},
          {"W_v", weight_of(normal.matrix(7, 10))},
          {"W_o", weight_of(normal.matrix(20, 8))}};
}

model::Model bind_odd(const Weights& weights, Warnings& warnings) {
  MemoryModel model;
  model.config = {{"model_type", "attention"}, {"heads", 4}, {"kv_heads", 2}};
  for (const auto& [name, weight] : weights) {
    model.tensors[name] = test::floats({weight.rows, weight.cols}, weight.values);
  }
  return model::Model::bind(model.source(), warnings);
}

WeightsAnalysis analyze(const model::Model& model, const WeightsOptions& options, Warnings& warnings) {
  Pool pool(2);
  return analyze_weights(model, forward::Selection::all(model.config()), options, pool, warnings);
}

TEST_CASE("keys and values of other widths than the model's") {
  const Weights weights = odd_weights();
  Warnings warnings;
  const model::Model model = bind_odd(weights, warnings);
  const WeightsAnalysis analysis = analyze(model, {.directions = 2}, warnings);
  std::vector<Dense> qk;
  for (std::size_t h = 0; h < 4; ++h) {
    qk.push_back(
        long_way::product_nt(columns(weights.at("W_q"), h * 3, 3), columns(weights.at("W_k"), h / 2 * 3, 3)));
    const auto want = long_way::singular_values(qk.back());
    const HeadSpectrum& head = analysis.qk.heads[h];
    REQUIRE(head.singular_values.size() == 3);
    CHECK(head.effective_rank.value() == doctest::Approx(long_way::effective_rank(want)).epsilon(1e-9));
    CHECK(head.numerical_rank == 3);
    REQUIRE(head.left.rows() == 2);
    CHECK(head.left.cols() == 12);
    CHECK(head.right.cols() == 9);
    CHECK(analysis.ov->heads[h].left.cols() == 7);
    CHECK(analysis.ov->heads[h].right.cols() == 8);
    CHECK(analysis.ov->heads[h].singular_values.size() == 5);
    // Checks QK v = s u for the stored directions.
    for (std::size_t t = 0; t < 2; ++t) {
      for (std::size_t r = 0; r < 12; ++r) {
        double product = 0;
        for (std::size_t c = 0; c < 9; ++c) product += qk[h](r, c) * double{head.right(t, c)};
        check_near(product, head.singular_values[t] * double{head.left(t, r)}, 1e-6);
      }
    }
  }
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j < 4; ++j) {
      check_near(analysis.qk.similarity[0].values(i, j), long_way::cosine(qk[i], qk[j]), 1e-12);
    }
  }
  CHECK(warnings.list().empty());
}

TEST_CASE("a circuit that is zero or not finite is undefined and counted, the others are not touched") {
  Weights weights = odd_weights();
  std::vector<float>& w_q = weights.at("W_q").values;
  for (std::size_t r = 0; r < 12; ++r) {
    for (std::size_t c = 3; c < 6; ++c) w_q[r * 12 + c] = 0;  // W_Q of head 1 is zero
  }
  w_q[5 * 12 + 7] = std::numeric_limits<float>::infinity();  // in head 2
  Warnings warnings;
  const model::Model model = bind_odd(weights, warnings);
  const WeightsAnalysis analysis = analyze(model, {.directions = 1}, warnings);
  for (const std::size_t h : {std::size_t{1}, std::size_t{2}}) {
    CHECK_FALSE(analysis.qk.heads[h].effective_rank.has_value());
    CHECK_FALSE(analysis.qk.heads[h].stable_rank.has_value());
    CHECK(analysis.qk.heads[h].left.rows() == 0);
    CHECK(std::isnan(analysis.qk.similarity[0].values(h, h)));
  }
  CHECK(analysis.qk.heads[1].numerical_rank == 0);
  CHECK_FALSE(analysis.qk.heads[2].numerical_rank.has_value());
  CHECK(analysis.qk.heads[0].effective_rank.has_value());
  CHECK(std::isfinite(analysis.qk.similarity[0].values(0, 3)));
  for (const HeadSpectrum& head : analysis.ov->heads) CHECK(head.effective_rank.has_value());
  const auto list = warnings.list();
  REQUIRE(list.size() == 2);
  CHECK(list[0].code == "non_finite_weight");  // warning of the model, which names the tensor
  CHECK(list[1].code == "undefined_circuit");
  CHECK(list[1].count == 2);
}

TEST_CASE("models without values or output projection have no OV circuit") {
  struct Row {
    std::vector<const char*> missing;
  };
  for (const Row& row : {Row{{"W_o"}}, Row{{"W_v", "W_o"}}}) {
    Weights weights = odd_weights();
    for (const char* const name : row.missing) weights.erase(name);
    Warnings warnings;
    const WeightsAnalysis analysis = analyze(bind_odd(weights, warnings), {}, warnings);
    CHECK(analysis.qk.heads.size() == 4);
    CHECK_FALSE(analysis.ov.has_value());
  }
}

TEST_CASE("a selection with different heads in each layer") {
  // 5 layers, 3 heads, weights of layers 0-2 and 3-4 shared
  const model::Model model = test::open_golden("albert");
  Warnings warnings;
  Pool pool(2);
  const forward::Selection some{{{0, 0}, {0, 2}, {1, 1}, {2, 0}, {2, 2}, {4, 0}}};
  const WeightsAnalysis whole = analyze(model, {}, warnings);
  const WeightsAnalysis part = analyze_weights(model, some, {}, pool, warnings);
  REQUIRE(part.qk.similarity.size() == 4);
  CHECK(part.qk.similarity[0].values(0, 1) == whole.qk.similarity[0].values(0, 2));
  CHECK(part.qk.similarity[2].layer == 2);
  CHECK(part.qk.similarity[2].values(0, 1) == whole.qk.similarity[2].values(0, 2));
  CHECK_FALSE(off_diagonal(part.qk.similarity[1].values.view()).mean.has_value());
  for (std::size_t i = 0; i < some.heads.size(); ++i) {
    CHECK(part.qk.heads[i].head == some.heads[i]);
    CHECK(part.qk.heads[i].effective_rank ==
          whole.qk.heads[some.heads[i].layer * 3 + some.heads[i].head].effective_rank);
  }
}

/// Returns the slice of a head, [dimension, width].
Dense by_rows(const CircuitFactor& factor, std::size_t head) {
  const Dense columns = factor.columns(head);
  Dense slice(factor.dimension(), factor.width());
  for (std::size_t r = 0; r < slice.rows(); ++r) {
    for (std::size_t c = 0; c < slice.cols(); ++c) slice(r, c) = columns(c, r);
  }
  return slice;
}

TEST_CASE("folding the norm multiplies the gain of the norm that the attention reads") {
  struct Row {
    const char* model;
    std::size_t layer;
    bool folds;
    const char* why;
  };
  for (const Row& row :
       {Row{"gpt2", 1, true, "pre-norm: the layer's own"}, Row{"llama", 0, true, "pre-norm, RMS"},
        Row{"bert", 0, true, "post-norm: the embeddings' norm"},
        Row{"bert", 1, true, "post-norm: the norm after the MLP of the layer below"},
        Row{"albert", 0, false, "a projection stands between"},
        Row{"albert", 1, true, "the shared layer's norm after the MLP"},
        Row{"attention", 0, false, "no norm"}}) {
    CAPTURE(row.model);
    CAPTURE(row.why);
    const model::Model model = test::open_golden(row.model);
    std::span<const float> gain;
    if (row.folds) {
      const bool pre = model.config().layers[row.layer].place == model::NormPlace::pre;
      gain = pre              ? model.layer(row.layer)->attention_norm.gain
             : row.layer == 0 ? model.embedding()->norm.gain
                              : model.layer(row.layer - 1)->mlp_norm.gain;
      REQUIRE(gain.size() == model.config().d_model);
    }
    Warnings warnings;
    const WeightsAnalysis folded = analyze(model, {.fold_norm = true}, warnings);
    const std::size_t heads = model.config().layers[0].attention.heads;
    const auto plain = circuit_factors(model, row.layer, Circuit::qk, false);
    for (std::size_t h = 0; h < heads; ++h) {
      Dense left = by_rows(plain->left, h);
      Dense right = by_rows(plain->right, h);
      for (std::size_t r = 0; r < gain.size(); ++r) {
        for (double& value : left.view().row(r)) value *= static_cast<double>(gain[r]);
        for (double& value : right.view().row(r)) value *= static_cast<double>(gain[r]);
      }
      const double want =
          long_way::effective_rank(long_way::singular_values(long_way::product_nt(left, right)));
      const double got = folded.qk.heads[row.layer * heads + h].effective_rank.value();
      CHECK(got == doctest::Approx(want).epsilon(1e-9));
    }
  }
}

}  // namespace
}  // namespace attnctl::analysis
