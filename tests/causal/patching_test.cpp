#include "causal/patching.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "causal/interventions.hpp"
#include "forward/block.hpp"
#include "reference/layers.hpp"
#include "reference/reference.hpp"
#include "support/intervention_golden.hpp"

namespace attnctl::test {
namespace {

using causal::HeadInput;
using linalg::Matrix;

Matrix widened(const OwnedMatrix<float>& values) {
  Matrix wide = Matrix::from_shape({values.rows(), values.cols()});
  std::ranges::copy(values.values(), wide.begin());
  return wide;
}

/// Returns the z of a head, in float64, if one of its inputs reads the residual stream with the term
/// `written` and the others read it without this term.
OwnedMatrix<double> brute_force_z(const model::Model& model, const input::Sequence& sequence,
                                  const causal::RecordedSequence& recorded, const Matrix& written,
                                  model::HeadId head, HeadInput input, Pool& pool) {
  const model::LayerConfig& layer = model.config().layers[head.layer];
  const model::Lease<model::LayerWeights> weights = model.layer(head.layer);
  const bool cross = layer.component == model::Component::cross;
  const auto read = [&](HeadInput one) {
    const bool encoder = cross && one != HeadInput::query;
    Matrix stream = widened(encoder ? recorded.encoder_stream : recorded.streams[head.layer]);
    if (one == input) stream += written;
    if (encoder) return reference::apply(model.config().decoder->encoder_norm, model.encoder_norm(), stream);
    return layer.place == model::NormPlace::pre
               ? reference::apply(layer.attention_norm(), weights->attention_norm, stream)
               : stream;
  };
  const Matrix queries = read(HeadInput::query), keys = read(HeadInput::key), values = read(HeadInput::value);
  const input::Sequence& keys_of = forward::sides_of(layer.component, sequence).keys_of;
  return reference::attend(layer.attention, *weights, {keys_of, queries, keys, values}, pool).z[head.head];
}

/// Returns the mean loss over the scored queries.
double loss_of(const OwnedMatrix<double>& logits, const causal::ScoredQueries& scored) {
  double loss = 0;
  for (std::size_t i = 0; i < scored.queries.size(); ++i) {
    double sum = 0;
    for (const double value : logits.view().row(scored.queries[i])) sum += std::exp(value);
    loss += std::log(sum) - logits(scored.queries[i], static_cast<std::size_t>(scored.targets[i]));
  }
  return loss / static_cast<double>(scored.queries.size());
}

/// Returns all pairs of heads between which there is a path.
std::vector<std::pair<model::HeadId, model::HeadId>> paths_of(const model::ModelConfig& config) {
  std::vector<std::pair<model::HeadId, model::HeadId>> paths;
  const std::vector<model::HeadId> heads = forward::Selection::all(config).heads;
  for (const model::HeadId from : heads) {
    for (const model::HeadId to : heads)
      if (!causal::path_inputs(config, from, to).empty()) paths.emplace_back(from, to);
  }
  return paths;
}

/// Compares path patching for all pairs of heads with a float64 computation.
void check_paths(const model::Model& model, const input::Batch& clean, const input::Batch& other,
                 const causal::ScoredQueries& scored) {
  const model::ModelConfig& config = model.config();
  REQUIRE(causal::has_additive_stream(config));
  Pool pool(2);
  Warnings warnings;
  forward::RunContext context{.pool = pool, .warnings = warnings};
  const input::Sequence& sequence = clean.sequences[0];
  const std::size_t last = config.layers.size() - 1;
  const std::vector<causal::ScoredQueries> all_scored = {scored};
  const causal::CausalPass pass({.model = model, .batch = clean, .scored = all_scored}, context);
  const causal::RecordedSequence& recorded = pass.recorded()[0];
  const auto donor = causal::record(model, other, false, context);
  const double base = loss_of(reference::run_reference(model, sequence, last, true, pool).logits, scored);

  double largest = 0, worst = 0;
  for (const auto& [from, to] : paths_of(config)) {
    const model::LayerConfig& writer = config.layers[from.layer];
    const std::size_t width = writer.attention.d_value, to_width = config.layers[to.layer].attention.d_value;
    const auto z_of = [&, layer = from.layer, head = from.head](const causal::RecordedSequence& run) {
      return run.z[layer].view().col_range(head * width, width);
    };
    const MatrixView<const float> donor_z = z_of(donor[0]), own_z = z_of(recorded);
    const OwnedMatrix<double> output =
        model.layer(from.layer)->output.inputs_double(from.head * width, width);
    Matrix written = xt::zeros<double>({own_z.rows, config.d_model});
    for (std::size_t r = 0; r < own_z.rows; ++r) {
      for (std::size_t c = 0; c < width; ++c) {
        const double change = double{donor_z(r, c)} - double{own_z(r, c)};
        for (std::size_t d = 0; d < config.d_model; ++d)
          written(r, d) += double{writer.residual_multiplier} * change * output(c, d);
      }
    }
    for (const HeadInput input : causal::path_inputs(config, from, to)) {
      const OwnedMatrix<double> wanted_z = brute_force_z(model, sequence, recorded, written, to, input, pool);
      const reference::ReferenceEdits edits = {
          .heads =
              [&, at = to](std::size_t layer, MatrixView<double> all) {
                for (std::size_t r = 0; layer == at.layer && r < all.rows; ++r)
                  std::ranges::copy(wanted_z.view().row(r), all.row(r).subspan(at.head * to_width).begin());
              },
          .mlp = {}};
      const double want =
          loss_of(reference::run_reference(model, sequence, last, true, pool, edits).logits, scored) - base;
      const OwnedMatrix<float> z =
          causal::z_after_path(model, clean, recorded, from, donor_z, to, input, context);
      const std::vector<causal::Intervention> patch = {{0, {{to, {z.view(), std::nullopt}}}, {}}};
      const double got = pass.run(patch, context)[0].loss;
      largest = std::max(largest, std::abs(want));
      if (!(std::abs(got - want) <= worst)) worst = std::abs(got - want);
    }
  }
  CHECK(largest > 1e-4);
  CHECK(worst <= std::max(1e-4 * largest, 2e-7));
}

TEST_CASE("path patching gives the numbers of a float64 computation for all pairs of heads") {
  for (const std::string name : {"gpt2", "llama", "gpt_neox", "falcon-alibi", "qwen3", "gpt_oss", "gptj",
                                 "opt", "t5", "t5-gated", "pegasus", "mbart"}) {
    CAPTURE(name);
    Warnings warnings;
    const InterventionGolden one(ATTNCTL_SOURCE_DIR "/tests/golden/interventions/" + name + ".npz", warnings);
    check_paths(one.model, batch_of(one.golden), batch_of(one.golden, "other_"), one.scored);
  }
}

TEST_CASE("path patching gives the numbers of a float64 computation between two layers of a decoder") {
  Warnings warnings;
  const model::Model model = bind_model(ATTNCTL_SOURCE_DIR "/tests/golden/t5-old", warnings);
  const auto batch = [](std::vector<std::int64_t> ids) {
    input::Batch made;
    made.sequences.emplace_back().ids = std::move(ids);
    made.sequences[0].target = std::make_shared<input::Sequence>();
    made.sequences[0].target->ids = {2, 7, 9};
    return made;
  };
  check_paths(model, batch({5, 9, 12, 7, 3}), batch({5, 9, 13, 7, 3}), {{0, 1, 2}, {7, 9, 3}});
}

TEST_CASE("paths end at the inputs that read what a head writes") {
  Warnings warnings;
  const model::ModelConfig config = bind_model(ATTNCTL_SOURCE_DIR "/tests/golden/t5-old", warnings).config();
  std::vector<std::size_t> encoder, self, cross;  // layers
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    const model::Component of = config.layers[i].component;
    (of == model::Component::cross ? cross : of == model::Component::decoder ? self : encoder).push_back(i);
  }
  const auto inputs = [&](std::size_t from, std::size_t to) {
    return causal::path_inputs(config, {from, 0}, {to, 1});
  };
  using Inputs = std::vector<HeadInput>;
  const Inputs all = {HeadInput::query, HeadInput::key, HeadInput::value};
  CHECK(inputs(encoder[0], encoder[1]) == all);
  CHECK(inputs(encoder[1], encoder[0]).empty());
  CHECK(inputs(encoder[0], encoder[0]).empty());
  CHECK(inputs(encoder[0], self[1]).empty());
  CHECK(inputs(encoder[0], cross[1]) == Inputs{HeadInput::key, HeadInput::value});
  CHECK(inputs(self[0], cross[0]) == Inputs{HeadInput::query});
  CHECK(inputs(cross[0], self[1]) == all);
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
