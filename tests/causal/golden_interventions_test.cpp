#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "causal/interventions.hpp"
#include "causal/patching.hpp"
#include "causal/recording.hpp"
#include "reference/reference.hpp"
#include "support/intervention_golden.hpp"

namespace attnctl::test {
namespace {

namespace fs = std::filesystem;
using causal::Effect;
using causal::Intervention;

/// A golden of interventions with what its passes need.
struct Case : InterventionGolden {
  Pool pool{1};
  Warnings warnings;

  using InterventionGolden::InterventionGolden;
  [[nodiscard]] forward::RunContext context() { return {.pool = pool, .warnings = warnings}; }
};

/// What one value of a golden array changes: a head (all positions or one), or an MLP.
struct Change {
  std::size_t layer = 0, head = 0;
  std::optional<std::size_t> position;
  bool mlp = false;
};

/// Returns the changes of an array in its order: of all heads, of each position of all heads, or of MLPs.
std::vector<Change> changes_of(const model::ModelConfig& config, model::Component component,
                               const std::string& kind, std::size_t positions) {
  std::vector<Change> changes;
  for (std::size_t layer = 0; layer < config.layers.size(); ++layer) {
    if (config.layers[layer].component != component) continue;
    if (kind == "mlp") {
      if (config.layers[layer].mlp.width > 0) changes.push_back({layer, 0, {}, true});
      continue;
    }
    for (std::size_t head = 0; head < config.layers[layer].attention.heads; ++head) {
      if (kind != "zero_position") changes.push_back({layer, head, {}, false});
      for (std::size_t p = 0; kind == "zero_position" && p < positions; ++p)
        changes.push_back({layer, head, p, false});
    }
  }
  return changes;
}

/// Returns the means over positions of z, for each layer [1, heads * v].
std::vector<OwnedMatrix<float>> mean_rows(const causal::RecordedSequence& recorded) {
  std::vector<OwnedMatrix<float>> means;
  for (const OwnedMatrix<float>& z : recorded.z) {
    OwnedMatrix<float>& mean = means.emplace_back(1, z.cols());
    for (std::size_t c = 0; c < z.cols(); ++c) {
      double sum = 0;
      for (std::size_t r = 0; r < z.rows(); ++r) sum += double{z(r, c)};
      mean(0, c) = static_cast<float>(sum / static_cast<double>(z.rows()));
    }
  }
  return means;
}

const std::vector<std::string> kKinds = {"zero",  "mean",          "resample", "pattern",
                                         "value", "zero_position", "mlp"};

/// The recorded values of the run of the other ids, and the patterns and values of both runs.
struct OtherRun {
  std::vector<causal::RecordedSequence> recorded;
  std::vector<std::vector<causal::HeadParts>> parts, clean_parts;  // [layers][heads]
};

double largest_of(const std::vector<double>& values) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

/// `noise` is allowed even if `bound` times the largest wanted value is smaller.
void check_close(const std::vector<double>& got, const std::vector<double>& want, double bound,
                 double noise = 0) {
  REQUIRE(got.size() == want.size());
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!(std::abs(got[i] - want[i]) <= worst)) worst = std::abs(got[i] - want[i]);
  }
  CHECK(worst <= std::max(noise, bound * largest_of(want)));
}

/// Checks the arrays of one stack and kind in float32.
void check_float32(Case& one, const causal::CausalPass& pass, const OtherRun& other,
                   model::Component component, const std::string& kind) {
  const std::string suffix = component_suffix(component);
  const std::string loss = kind + "_loss" + suffix, divergence = kind + "_kl" + suffix;
  if (!one.golden.has(loss)) return;
  CAPTURE(loss);
  const GoldenArray want = one.golden.array(loss);
  const model::ModelConfig& config = one.model.config();
  const std::size_t positions = kind == "zero_position" ? want.shape.back() : 0;
  const std::vector<OwnedMatrix<float>> means = mean_rows(pass.recorded().front());
  std::vector<Intervention> interventions;
  std::vector<OwnedMatrix<float>> mixed;  // z from the pattern of one run and the values of the other
  mixed.reserve(config.layers.size() * 64);
  for (const Change& change : changes_of(config, component, kind, positions)) {
    Intervention& made = interventions.emplace_back();
    if (change.mlp) {
      made.mlps.push_back({change.layer, {}});
      continue;
    }
    MatrixView<const float> rows;
    if (kind == "mean") rows = means[change.layer].view();
    if (kind == "resample") rows = other.recorded.front().z[change.layer].view();
    const std::size_t width = config.layers[change.layer].attention.d_value;
    if (kind == "pattern" || kind == "value") {
      const causal::HeadParts& own = other.clean_parts[change.layer][change.head];
      const causal::HeadParts& donor = other.parts[change.layer][change.head];
      mixed.push_back(causal::weighted_values((kind == "pattern" ? donor : own).pattern.view(),
                                              (kind == "value" ? donor : own).values.view()));
      REQUIRE(mixed.size() <= mixed.capacity());
      made.heads.push_back({{change.layer, change.head}, {mixed.back().view(), std::nullopt}});
      continue;
    }
    if (rows.rows > 0) rows = rows.col_range(change.head * width, width);
    made.heads.push_back({{change.layer, change.head}, {rows, change.position}});
  }
  forward::RunContext context = one.context();
  std::vector<double> losses, divergences;
  for (const Effect& effect : pass.run(interventions, context)) {
    losses.push_back(effect.loss);
    divergences.push_back(effect.divergence);
  }
  // The noise of PyTorch's own float32; at least half a unit in the last place of logits of about 1.
  const auto noise = [&](const std::string& array) {
    return std::max(3e-8, one.golden.array("bound_" + array).values[0]);
  };
  check_close(losses, want.values, 1e-4, noise(loss));
  if (one.golden.has(divergence))
    check_close(divergences, one.golden.array(divergence).values, 1e-4, noise(divergence));
}

/// Returns loss and divergence of changed logits, in float64.
std::pair<double, double> scores_of(const causal::ScoredQueries& scored, const OwnedMatrix<double>& logits,
                                    const OwnedMatrix<double>& old) {
  const auto log_sum = [](std::span<const double> row) {
    const double top = *std::ranges::max_element(row);
    double sum = 0;
    for (const double value : row) sum += std::exp(value - top);
    return top + std::log(sum);
  };
  double loss = 0, divergence = 0;
  for (std::size_t i = 0; i < scored.queries.size(); ++i) {
    const std::size_t q = scored.queries[i];
    const double now = log_sum(logits.view().row(q)), before = log_sum(old.view().row(q));
    const auto target = static_cast<std::size_t>(scored.targets[i]);
    loss += (now - logits(q, target)) - (before - old(q, target));
    for (std::size_t t = 0; t < logits.cols(); ++t) {
      const double p = old(q, t) - before;
      divergence += std::exp(p) * (p - (logits(q, t) - now));
    }
  }
  const auto count = static_cast<double>(scored.queries.size());
  return {loss / count, divergence / count};
}

/// Checks the arrays of one stack and kind in float64.
void check_float64(Case& one, model::Component component, const std::string& kind) {
  const std::string suffix = component_suffix(component);
  const std::string loss = kind + "_loss" + suffix;
  if (!one.golden.has(loss)) return;
  CAPTURE(loss);
  const model::ModelConfig& config = one.model.config();
  const std::size_t last = config.layers.size() - 1;
  const input::Batch clean = batch_of(one.golden), other = batch_of(one.golden, "other_");
  const reference::ReferencePass base =
      reference::run_reference(one.model, clean.sequences[0], last, true, one.pool);
  const reference::ReferencePass donor =
      reference::run_reference(one.model, other.sequences[0], last, false, one.pool);
  std::vector<double> losses, divergences;
  for (const Change& change : changes_of(config, component, kind, 0)) {
    const std::size_t width = config.layers[change.layer].attention.d_value;
    reference::ReferenceEdits edits;
    if (change.mlp) {
      edits.mlp = [&](std::size_t layer, MatrixView<double> term) {
        for (std::size_t r = 0; layer == change.layer && r < term.rows; ++r)
          std::ranges::fill(term.row(r), 0.0);
      };
    } else {
      edits.heads = [&](std::size_t layer, MatrixView<double> all) {
        if (layer != change.layer) return;
        const MatrixView<double> z = all.col_range(change.head * width, width);
        const reference::ReferenceLayer &own = base.layers[layer], &given = donor.layers[layer];
        const std::size_t kv_head = config.layers[layer].attention.kv_head(change.head);
        const OwnedMatrix<double>& pattern = (kind == "pattern" ? given : own).pattern[change.head];
        const MatrixView<const double> values =
            (kind == "value" ? given : own).values.view().col_range(kv_head * width, width);
        for (std::size_t c = 0; c < width; ++c) {
          double mean = 0;
          for (std::size_t r = 0; r < z.rows; ++r) mean += z(r, c) / static_cast<double>(z.rows);
          for (std::size_t r = 0; r < z.rows; ++r) {
            double weighted = 0;  // from the pattern of one run and the values of the other
            for (std::size_t key = 0; key < values.rows; ++key) weighted += pattern(r, key) * values(key, c);
            z(r, c) = kind == "mean"       ? mean
                      : kind == "resample" ? given.z[change.head](r, c)
                      : kind == "zero"     ? 0
                                           : weighted;
          }
        }
      };
    }
    const reference::ReferencePass changed =
        reference::run_reference(one.model, clean.sequences[0], last, true, one.pool, edits);
    const auto [change_of_loss, divergence] = scores_of(one.scored, changed.logits, base.logits);
    losses.push_back(change_of_loss);
    divergences.push_back(divergence);
  }
  // Positions in scores are float32 numbers of two libraries (cosines, logarithms), which differ in the last
  // bit.
  const double bound = config.position_in_scores() ? 1e-6 : 1e-9;
  check_close(losses, one.golden.array(loss).values, bound);
  check_close(divergences, one.golden.array(kind + "_kl" + suffix).values, bound);
}

}  // namespace

TEST_CASE("removing and replacing heads and MLPs changes loss and predictions as in PyTorch") {
  std::size_t cases = 0;
  for (const fs::path& file : goldens_of_models("interventions")) {
    Warnings warnings;
    Case one(file, warnings);
    CAPTURE(one.name);
    forward::RunContext context = one.context();
    const input::Batch batch = batch_of(one.golden);
    const std::vector<causal::ScoredQueries> scored = {one.scored};
    const causal::CausalPass pass({.model = one.model, .batch = batch, .scored = scored}, context);
    CHECK(std::abs(pass.predictions()[0].loss - one.golden.array("loss").values[0]) <= 2e-5);
    const OtherRun other = {causal::record(one.model, batch_of(one.golden, "other_"), false, context),
                            causal::record_parts(one.model, batch_of(one.golden, "other_"), context),
                            causal::record_parts(one.model, batch, context)};
    for (const model::Component component : components_of(one.model.config())) {
      for (const std::string& kind : kKinds) check_float32(one, pass, other, component, kind);
    }
    ++cases;
  }
  CHECK(cases >= 81);
}

TEST_CASE("removing and replacing heads and MLPs in the float64 pass gives the numbers of PyTorch") {
  for (const fs::path& file : goldens_of_models("interventions")) {
    if (file.stem() == "stories15M") continue;  // takes 20 seconds
    Warnings warnings;
    Case one(file, warnings);
    CAPTURE(one.name);
    for (const model::Component component : components_of(one.model.config())) {
      for (const char* const kind : {"zero", "mean", "resample", "pattern", "value", "mlp"})
        check_float64(one, component, kind);
    }
  }
}

}  // namespace attnctl::test
