#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "causal/gradient.hpp"
#include "causal/integrated.hpp"
#include "causal/interventions.hpp"
#include "causal/recording.hpp"
#include "support/intervention_golden.hpp"

// Compares with tests/golden/pattern_gradients, which PyTorch computed in float64.
namespace attnctl::causal {
namespace {

namespace fs = std::filesystem;
using test::batch_of;
using test::Golden;

const std::string kPatternGoldens = ATTNCTL_SOURCE_DIR "/tests/golden/pattern_gradients/";

/// Checks that the largest difference is at most 1e-4 of the largest wanted number.
void check_all(const std::vector<double>& got, const std::vector<double>& want) {
  REQUIRE(got.size() == want.size());
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!(std::abs(got[i] - want[i]) <= worst)) worst = std::abs(got[i] - want[i]);
    largest = std::max(largest, std::abs(want[i]));
  }
  REQUIRE(largest > 0);
  CHECK(worst <= 1e-4 * largest);
}

}  // namespace

TEST_CASE("the integrated gradients of patterns are those of PyTorch") {
  std::size_t cases = 0;
  for (const fs::path& file : test::goldens_of_models("pattern_gradients")) {
    const std::string name = file.stem().string();
    CAPTURE(name);
    Warnings warnings;
    const Golden golden(file);
    const model::Model model = test::bind_model(test::model_folder(name), warnings);
    const input::Batch batch = batch_of(golden);
    Pool pool(2);
    forward::RunContext context{.pool = pool, .warnings = warnings};
    const std::vector<ScoredQueries> scored = {
        {.queries = {static_cast<std::size_t>(golden.integers("query").front())},
         .targets = golden.integers("target")}};
    const CausalPass pass({.model = model, .batch = batch, .scored = scored}, context);
    CHECK(-pass.predictions()[0].loss ==
          doctest::Approx(golden.array("log_probability").values[0]).epsilon(1e-4));

    const auto steps = static_cast<std::size_t>(golden.integers("steps").front());
    std::vector<double> parts;
    for (const PatternParts& head : integrate_patterns(
             model, batch, pass, scored[0], forward::Selection::all(model.config()), steps, context))
      parts.insert(parts.end(), head.parts.values().begin(), head.parts.values().end());
    check_all(parts, golden.array("integrated").values);

    std::vector<Intervention> removals(model.config().layers.size());
    for (std::size_t layer = 0; layer < removals.size(); ++layer)
      for (std::size_t head = 0; head < model.config().layers[layer].attention.heads; ++head)
        removals[layer].heads.push_back({{layer, head}, {}});
    std::vector<double> without;
    for (const Effect& effect : pass.run(removals, context))
      without.push_back(-pass.predictions()[0].loss - effect.loss);
    check_all(without, golden.array("without").values);
    ++cases;
  }
  CHECK(cases >= 16);
}

TEST_CASE("the parts of the patterns of a layer add up to what its patterns change") {
  Warnings warnings;
  const Golden golden(kPatternGoldens + "tiny-llama.npz");
  const model::Model model = test::bind_model(test::model_folder("tiny-llama"), warnings);
  const input::Batch batch = batch_of(golden);
  Pool pool(1);
  forward::RunContext context{.pool = pool, .warnings = warnings};
  const std::vector<ScoredQueries> scored = {
      {.queries = {static_cast<std::size_t>(golden.integers("query").front())},
       .targets = golden.integers("target")}};
  const CausalPass pass({.model = model, .batch = batch, .scored = scored}, context);
  const double changed = golden.array("log_probability").values[0] - golden.array("without").values.back();
  double last_error = 1;
  for (const std::size_t steps : {4U, 32U, 256U}) {
    const forward::Selection last{{{3, 0}, {3, 1}, {3, 2}, {3, 3}}};
    double sum = 0;
    for (const PatternParts& head : integrate_patterns(model, batch, pass, scored[0], last, steps, context))
      for (const float part : head.parts.values()) sum += double{part};
    const double error = std::abs(sum - changed);
    CHECK(error < last_error / 4);
    last_error = std::max(error, 1e-5);
  }
}

TEST_CASE("estimates from gradients that pass around one layer are those of PyTorch") {
  for (const fs::path& file : test::goldens_of_models("pattern_gradients")) {
    const std::string name = file.stem().string();
    CAPTURE(name);
    Warnings warnings;
    const Golden golden(file);
    if (!golden.has("dropped")) continue;  // an encoder-decoder model
    const model::Model model = test::bind_model(test::model_folder(name), warnings);
    const input::Batch batch = batch_of(golden);
    Pool pool(2);
    forward::RunContext context{.pool = pool, .warnings = warnings};
    const std::vector<RecordedSequence> clean = record(model, batch, false, context),
                                        other = record(model, batch_of(golden, "other_"), false, context);
    std::vector<ScoredQueries> scored(1);
    for (const std::int64_t query : golden.integers("queries"))
      scored[0].queries.push_back(static_cast<std::size_t>(query));
    scored[0].targets = golden.integers("targets");
    const std::size_t layers = model.config().layers.size();
    const auto estimates = [&](const HeadGradients& gradients, std::vector<double>& to) {
      for (std::size_t layer = 0; layer < layers; ++layer) {
        const std::size_t width = model.config().layers[layer].attention.d_value;
        for (std::size_t head = 0; head < model.config().layers[layer].attention.heads; ++head) {
          const Intervention replaced{
              0, {{{layer, head}, {other[0].z[layer].view().col_range(head * width, width)}}}, {}};
          to.push_back(estimate(model.config(), replaced, clean[0], gradients).change);
        }
      }
    };
    std::vector<HeadGradients> without(layers);  // by dropped layer
    for (HeadGradients& one : without) one.d_z.resize(layers);
    const auto take = [&](std::size_t of, std::size_t layer, std::size_t sequence,
                          MatrixView<const float> d_z) {
      CHECK(sequence == 0);
      CHECK(of > layer);
      without[of].d_z[layer] = copy_of(d_z);
    };
    const HeadGradients whole =
        loss_gradients(model, batch, scored, clean, context, {.without_layer = take}).front();
    std::vector<double> plain, dropped;
    estimates(whole, plain);
    for (std::size_t of = 0; of < layers; ++of) {
      without[of].d_z[of] = OwnedMatrix<float>(whole.d_z[of].rows(), whole.d_z[of].cols());
      for (std::size_t layer = of + 1; layer < layers; ++layer) without[of].d_z[layer] = whole.d_z[layer];
      estimates(without[of], dropped);
    }
    check_all(plain, golden.array("estimate").values);
    check_all(dropped, golden.array("dropped").values);
  }
}

}  // namespace attnctl::causal
