#include "causal/patching.hpp"

#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "causal/interventions.hpp"
#include "reference/layers.hpp"
#include "reference/reference.hpp"
#include "support/intervention_golden.hpp"

namespace attnctl::test {
namespace {

using causal::HeadInput;
using linalg::Matrix;

/// Returns the z of a head of layer 1, in float64, if one of its inputs reads `stream` and the others
/// `plain`.
OwnedMatrix<double> brute_force_z(const model::Model& model, const input::Sequence& sequence,
                                  const Matrix& plain, const Matrix& stream, std::size_t head,
                                  HeadInput input, Pool& pool) {
  const model::LayerConfig& layer = model.config().layers[1];
  const model::Lease<model::LayerWeights> weights = model.layer(1);
  const auto normed = [&](const Matrix& x) {
    return layer.place == model::NormPlace::pre
               ? reference::apply(layer.attention_norm(), weights->attention_norm, x)
               : x;
  };
  const Matrix queries = normed(input == HeadInput::query ? stream : plain);
  const Matrix keys = normed(input == HeadInput::key ? stream : plain);
  const Matrix values = normed(input == HeadInput::value ? stream : plain);
  return reference::attend(layer.attention, *weights, {sequence, queries, keys, values}, pool).z[head];
}

/// Returns the mean loss over all queries that predict the next token.
double loss_of(const OwnedMatrix<double>& logits, const std::vector<std::int64_t>& ids) {
  double loss = 0;
  for (std::size_t q = 0; q + 1 < ids.size(); ++q) {
    double sum = 0;
    for (const double value : logits.view().row(q)) sum += std::exp(value);
    loss += std::log(sum) - logits(q, static_cast<std::size_t>(ids[q + 1]));
  }
  return loss / static_cast<double>(ids.size() - 1);
}

TEST_CASE("path patching gives the numbers of a float64 computation for all pairs of heads of two layers") {
  for (const std::string name :
       {"gpt2", "llama", "gpt_neox", "falcon-alibi", "qwen3", "gpt_oss", "gptj", "opt"}) {
    CAPTURE(name);
    Warnings warnings;
    const InterventionGolden one(ATTNCTL_SOURCE_DIR "/tests/golden/interventions/" + name + ".npz", warnings);
    const model::Model& model = one.model;
    const model::ModelConfig& config = model.config();
    REQUIRE(config.layers.size() == 2);
    REQUIRE(causal::has_additive_stream(config));
    Pool pool(2);
    forward::RunContext context{.pool = pool, .warnings = warnings};
    const input::Batch clean = batch_of(one.golden), other = batch_of(one.golden, "other_");
    const std::vector<std::int64_t>& ids = clean.sequences[0].ids;
    const std::vector<causal::ScoredQueries> scored = {one.scored};  // all queries but the last one
    const causal::CausalPass pass({.model = model, .batch = clean, .scored = scored}, context);
    const auto donor = causal::record(model, other, false, context);
    const double base =
        loss_of(reference::run_reference(model, clean.sequences[0], 1, true, pool).logits, ids);
    const Matrix plain = linalg::to_matrix([&] {
      OwnedMatrix<double> wide(ids.size(), config.d_model);
      for (std::size_t i = 0; i < wide.values().size(); ++i)
        wide.values()[i] = double{pass.recorded()[0].streams[1].values()[i]};
      return wide;
    }()
                                               .view());

    double largest = 0, worst = 0;
    const std::size_t width = config.layers[0].attention.d_value,
                      to_width = config.layers[1].attention.d_value;
    const model::Lease<model::LayerWeights> writer = model.layer(0);
    for (std::size_t from = 0; from < config.layers[0].attention.heads; ++from) {
      const auto z_of = [&](const causal::RecordedSequence& run) {
        return run.z[0].view().col_range(from * width, width);
      };
      const OwnedMatrix<double> output = writer->output.inputs(from * width, width).in_out_double();
      Matrix stream = plain;
      for (std::size_t r = 0; r < ids.size(); ++r) {
        for (std::size_t c = 0; c < width; ++c) {
          const double change = double{z_of(donor[0])(r, c)} - double{z_of(pass.recorded()[0])(r, c)};
          for (std::size_t d = 0; d < config.d_model; ++d)
            stream(r, d) += double{config.layers[0].residual_multiplier} * change * output(c, d);
        }
      }
      for (std::size_t to = 0; to < config.layers[1].attention.heads; ++to) {
        for (const HeadInput input : {HeadInput::query, HeadInput::key, HeadInput::value}) {
          const OwnedMatrix<double> wanted_z =
              brute_force_z(model, clean.sequences[0], plain, stream, to, input, pool);
          const reference::ReferenceEdits edits = {
              .heads =
                  [&](std::size_t layer, MatrixView<double> all) {
                    for (std::size_t r = 0; layer == 1 && r < all.rows; ++r)
                      std::ranges::copy(wanted_z.view().row(r), all.row(r).subspan(to * to_width).begin());
                  },
              .mlp = {}};
          const double want =
              loss_of(reference::run_reference(model, clean.sequences[0], 1, true, pool, edits).logits, ids) -
              base;
          const OwnedMatrix<float> z = causal::z_after_path(model, clean, pass.recorded()[0], {0, from},
                                                            z_of(donor[0]), {1, to}, input, context);
          const std::vector<causal::Intervention> patch = {{0, {{{1, to}, {z.view(), std::nullopt}}}, {}}};
          const double got = pass.run(patch, context)[0].loss;
          largest = std::max(largest, std::abs(want));
          if (!(std::abs(got - want) <= worst)) worst = std::abs(got - want);
        }
      }
    }
    CHECK(largest > 1e-4);
    CHECK(worst <= std::max(1e-4 * largest, 2e-7));
  }
}

TEST_CASE("weighted values leave out keys of weight 0, whose values may be NaN") {
  OwnedMatrix<float> pattern(1, 2), values(2, 1);
  pattern(0, 0) = 1;
  values(0, 0) = 3;
  values(1, 0) = std::nanf("");
  CHECK(causal::weighted_values(pattern.view(), values.view())(0, 0) == 3);
}

}  // namespace
}  // namespace attnctl::test
