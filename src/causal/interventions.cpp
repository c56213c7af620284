#include "causal/interventions.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.hpp"
#include "causal/frozen_norm.hpp"
#include "forward/block.hpp"
#include "linalg/kernels/kernels.hpp"

namespace attnctl::causal {
namespace {

/// Largest number of rows of the passes that are computed together.
constexpr std::size_t kMostRows = 4096;

/// Writes the rows of a substitute over rows [first, first + to.rows) of a sequence.
void substitute(const Substitute& by, std::size_t first, MatrixView<float> to) {
  for (std::size_t r = 0; r < to.rows; ++r) {
    const std::size_t position = first + r;
    if (!by.changes(position)) continue;
    const std::span<const float> row = by.row(position);
    if (row.empty()) {
      std::ranges::fill(to.row(r), 0.0F);
    } else {
      std::ranges::copy(row, to.row(r).begin());
    }
  }
}

/// Changes the values of each sequence of a batch as its intervention says.
class PatchEditor final : public forward::Editor {
 public:
  PatchEditor(const model::ModelConfig& config, std::span<const Intervention* const> interventions)
      : config_(config), interventions_(interventions) {}

  void heads(std::size_t sequence, std::size_t layer, MatrixView<float> z) override {
    const std::size_t width = config_.layers[layer].attention.d_value;
    for (const HeadPatch& patch : interventions_[sequence]->heads) {
      if (patch.head.layer == layer) substitute(patch.by, 0, z.col_range(patch.head.head * width, width));
    }
  }
  void mlp(std::size_t sequence, std::size_t layer, std::size_t first_query,
           MatrixView<float> term) override {
    for (const MlpPatch& patch : interventions_[sequence]->mlps) {
      if (patch.layer == layer) substitute(patch.by, first_query, term);
    }
  }

 private:
  const model::ModelConfig& config_;
  std::span<const Intervention* const> interventions_;  // [sequences]
};

/// Calls `take` with each row of logits that a pass computes.
template <typename Take>
class LogitObserver final : public forward::Observer {
 public:
  explicit LogitObserver(Take take) : take_(std::move(take)) {}
  [[nodiscard]] forward::Needs needs() const override { return {.patterns = false, .logits = true}; }
  void panel(const forward::AttentionPanel& /*panel*/) override {}
  void logits(std::size_t sequence, std::size_t first_query, MatrixView<const float> values) override {
    for (std::size_t r = 0; r < values.rows; ++r) take_(sequence, first_query + r, values.row(r));
  }

 private:
  Take take_;
};

/// Returns the scored queries and the one that predicts the answer, ascending.
std::vector<std::size_t> wanted_queries(const ScoredQueries& scored) {
  std::vector<std::size_t> queries = scored.queries;
  if (scored.answer) queries.push_back(*scored.answer);
  std::ranges::sort(queries);
  queries.erase(std::unique(queries.begin(), queries.end()), queries.end());
  return queries;
}

std::size_t index_in(const std::vector<std::size_t>& ascending, std::size_t value) {
  return static_cast<std::size_t>(std::ranges::lower_bound(ascending, value) - ascending.begin());
}

double log_sum(const linalg::ExpSum& sum) {
  return double{sum.largest} + std::log(sum.sum);
}

double mean_of(std::span<const float> row) {
  return linalg::kernels().sum(row) / static_cast<double>(row.size());
}

double logit_difference(std::span<const float> logits, const AnswerTokens& answer) {
  return double{logits[static_cast<std::size_t>(answer.right)]} -
         double{logits[static_cast<std::size_t>(answer.wrong)]};
}

/// Returns a copy without token strings, texts and words, which passes do not use.
input::Sequence plain_copy(const input::Sequence& sequence) {
  input::Sequence copy;
  copy.id = sequence.id;
  copy.ids = sequence.ids;
  copy.token_type_ids = sequence.token_type_ids;
  copy.patches = sequence.patches;
  copy.embeddings = sequence.embeddings;
  copy.key_embeddings = sequence.key_embeddings;
  copy.value_embeddings = sequence.value_embeddings;
  copy.target = sequence.target;
  copy.key_visible = sequence.key_visible;
  copy.mask = sequence.mask;
  copy.causal = sequence.causal;
  return copy;
}

/// Returns true if the layer writes into the residual stream from which the logits are computed. The layers
/// of an encoder do not.
bool writes_to_logits(const model::ModelConfig& config, const model::LayerConfig& layer) {
  return forward::needs_target(layer.component) == forward::needs_target(config.layers.back().component);
}

/// Returns y = x W for a row of a direct path, in float64.
std::vector<double> times(std::span<const double> x, const OwnedMatrix<double>& weight) {
  std::vector<double> y(weight.cols(), 0.0);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::span<const double> row = weight.view().row(i);
    for (std::size_t j = 0; j < y.size(); ++j) y[j] += x[i] * row[j];
  }
  return y;
}

}  // namespace

std::size_t Intervention::first_layer(std::size_t layers) const {
  for (const HeadPatch& patch : heads) layers = std::min(layers, patch.head.layer);
  for (const MlpPatch& patch : mlps) layers = std::min(layers, patch.layer);
  return layers;
}

bool has_direct_path(const model::ModelConfig& config) {
  const auto passes = [&](const model::LayerConfig& layer) {
    return !writes_to_logits(config, layer) || layer.place == model::NormPlace::none ||
           layer.place == model::NormPlace::pre;
  };
  return config.head.present && !config.head.transform && config.head.soft_cap == 0 &&
         std::ranges::all_of(config.layers, passes);
}

std::vector<double> mean_output_row(const model::Model& model, Pool& pool) {
  if (!has_direct_path(model.config())) return {};
  const model::Lease<model::HeadWeights> head = model.head(&pool);
  const model::StoredMatrix matrix = head->decoder.last();
  const MatrixView<const float> values = matrix.values;
  std::vector<double> mean(matrix.in(), 0.0);
  for (std::size_t r = 0; r < values.rows; ++r) {
    if (matrix.orientation == model::Orientation::out_in) {
      for (std::size_t c = 0; c < values.cols; ++c) mean[c] += double{values(r, c)};
    } else {
      for (std::size_t c = 0; c < values.cols; ++c) mean[r] += double{values(r, c)};
    }
  }
  for (double& value : mean) value /= static_cast<double>(matrix.out());
  return mean;
}

CausalPass::CausalPass(const Input& input, forward::RunContext& context) : input_(input) {
  const model::ModelConfig& config = input.model.config();
  if (!config.head.present)
    fail(Status::bad_input,
         "{}: the checkpoint has no output head, so the model makes no predictions whose change could be "
         "measured; give a model with an output head",
         escaped(input.model.name()));
  std::vector<std::vector<std::size_t>> queries;
  for (const ScoredQueries& scored : input.scored) {
    queries.push_back(wanted_queries(scored));
    BaseLogits& base = base_.emplace_back();
    base.queries = queries.back();
    base.logits = OwnedMatrix<float>(base.queries.size(), config.output_embedding().vocabulary);
    base.log_sums.resize(base.queries.size());
    base.means.resize(base.queries.size());
  }
  Recorder recorder(input.mlps);
  LogitObserver logits([&](std::size_t sequence, std::size_t query, std::span<const float> row) {
    BaseLogits& base = base_[sequence];
    std::ranges::copy(row, base.logits.view().row(index_in(base.queries, query)).begin());
  });
  forward::Observer* const observers[] = {&recorder, &logits};
  forward::run_forward(input.model, input.batch, forward::Selection::all(config), observers, context,
                       {.editor = &recorder, .logit_queries = queries});
  recorded_ = std::move(recorder.sequences());

  for (std::size_t s = 0; s < base_.size(); ++s) {
    BaseLogits& base = base_[s];
    base.probabilities = OwnedMatrix<float>(base.logits.rows(), base.logits.cols());
    for (std::size_t q = 0; q < base.queries.size(); ++q) {
      const std::span<const float> row = std::as_const(base.logits).view().row(q);
      base.log_sums[q] = log_sum(linalg::kernels().exp_sum(row));
      base.means[q] = mean_of(row);
      linalg::kernels().softmax(row, base.probabilities.view().row(q));
    }
    const ScoredQueries& scored = input.scored[s];
    Prediction& prediction = predictions_.emplace_back();
    if (!scored.queries.empty()) prediction.loss = 0;
    for (std::size_t i = 0; i < scored.queries.size(); ++i) {
      const std::size_t q = index_in(base.queries, scored.queries[i]);
      prediction.loss +=
          (base.log_sums[q] - double{base.logits(q, static_cast<std::size_t>(scored.targets[i]))}) /
          static_cast<double>(scored.queries.size());
    }
    if (scored.answer)
      prediction.logit_difference = logit_difference(
          std::as_const(base.logits).view().row(index_in(base.queries, *scored.answer)), *input.answer);
    plain_.push_back(plain_copy(input.batch.sequences[s]));
  }
}

double CausalPass::direct_effect(const Intervention& intervention, Pool& pool) const {
  const model::Model& model = input_.model;
  const ScoredQueries& scored = input_.scored[intervention.sequence];
  if (input_.mean_output.empty() || scored.queries.empty() || !intervention.mlps.empty()) return kUndefined;
  const RecordedSequence& recorded = recorded_[intervention.sequence];
  std::vector<std::vector<double>> changes(scored.queries.size());  // of the final residual stream
  for (const HeadPatch& patch : intervention.heads) {
    const model::LayerConfig& layer = model.config().layers[patch.head.layer];
    for (std::vector<double>& change : changes) change.resize(model.config().d_model, 0.0);
    if (!writes_to_logits(model.config(), layer)) continue;
    const std::size_t width = layer.attention.d_value;
    const model::Lease<model::LayerWeights> weights = model.layer(patch.head.layer, &pool);
    if (!weights->output.present()) return kUndefined;
    const OwnedMatrix<double> output = weights->output.inputs(patch.head.head * width, width).in_out_double();
    const MatrixView<const float> old =
        recorded.z[patch.head.layer].view().col_range(patch.head.head * width, width);
    for (std::size_t i = 0; i < scored.queries.size(); ++i) {
      const std::size_t position = scored.queries[i];
      OwnedMatrix<float> now = copy_of(old.row_range(position, 1));
      substitute(patch.by, position, now.view());
      std::vector<double> difference(width);
      for (std::size_t c = 0; c < width; ++c) difference[c] = double{now(0, c)} - double{old(position, c)};
      const std::vector<double> written = times(difference, output);
      for (std::size_t c = 0; c < written.size(); ++c)
        changes[i][c] += double{layer.residual_multiplier} * written[c];
    }
  }
  const model::Lease<model::HeadWeights> head = model.head(&pool);
  const double multiplier = double{model.config().head.multiplier};
  double sum = 0;
  for (std::size_t i = 0; i < scored.queries.size(); ++i) {
    if (changes[i].empty()) return kUndefined;
    const auto stream = recorded.final_stream.view().row(scored.queries[i]);
    const std::vector<double> unchanged(stream.begin(), stream.end());
    FrozenNorm(model.config().final_norm, model.final_norm(), unchanged).apply(changes[i]);
    if (head->projection.present()) changes[i] = times(changes[i], head->projection.in_out_double());
    const OwnedMatrix<double> row =
        head->decoder.outputs(static_cast<std::size_t>(scored.targets[i]), 1).in_out_double();  // [d, 1]
    for (std::size_t c = 0; c < changes[i].size(); ++c)
      sum += multiplier * changes[i][c] * (row(c, 0) - input_.mean_output[c]);
  }
  return sum / static_cast<double>(scored.queries.size());
}

std::vector<Effect> CausalPass::run(std::span<const Intervention> interventions,
                                    forward::RunContext& context) const {
  const model::ModelConfig& config = input_.model.config();
  const std::size_t layers = config.layers.size();
  std::vector<Effect> effects(interventions.size());
  std::vector<std::vector<std::size_t>> by_layer(layers);  // indices of interventions
  for (std::size_t i = 0; i < interventions.size(); ++i) {
    const std::size_t layer = interventions[i].first_layer(layers);
    if (layer < layers) by_layer[layer].push_back(i);
    effects[i].direct = direct_effect(interventions[i], context.pool);
    const ScoredQueries& scored = input_.scored[interventions[i].sequence];
    if (!scored.queries.empty()) effects[i].loss = effects[i].divergence = effects[i].logit = 0;
    if (scored.answer) effects[i].logit_difference = 0;
  }

  const auto run_together = [&](std::size_t layer, std::span<const std::size_t> indices) {
    input::Batch batch;
    std::vector<const Intervention*> wanted;
    std::vector<forward::SequenceStart> start;
    std::vector<std::vector<std::size_t>> queries;
    for (const std::size_t i : indices) {
      const Intervention& one = interventions[i];
      const RecordedSequence& recorded = recorded_[one.sequence];
      batch.sequences.push_back(plain_[one.sequence]);
      wanted.push_back(&one);
      start.push_back({recorded.streams[layer].view(), recorded.z[layer].view(), recorded.memory.view()});
      queries.push_back(base_[one.sequence].queries);
    }
    PatchEditor editor(config, wanted);
    LogitObserver observer([&](std::size_t copy, std::size_t query, std::span<const float> logits) {
      const std::size_t sequence = wanted[copy]->sequence;
      const ScoredQueries& scored = input_.scored[sequence];
      const BaseLogits& base = base_[sequence];
      Effect& effect = effects[indices[copy]];
      const std::size_t q = index_in(base.queries, query);
      const std::span<const float> old = base.logits.view().row(q);
      if (scored.answer == query)
        effect.logit_difference =
            logit_difference(logits, *input_.answer) - logit_difference(old, *input_.answer);
      const std::size_t scored_at = index_in(scored.queries, query);
      if (scored_at == scored.queries.size() || scored.queries[scored_at] != query) return;
      const auto target = static_cast<std::size_t>(scored.targets[scored_at]);
      const auto count = static_cast<double>(scored.queries.size());
      const double log_sums = log_sum(linalg::kernels().exp_sum(logits)) - base.log_sums[q];
      const double logit = double{logits[target]} - double{old[target]};
      effect.loss += (log_sums - logit) / count;
      effect.logit += (logit - mean_of(logits) + base.means[q]) / count;
      effect.divergence +=
          std::max(0.0, linalg::kernels().weighted_difference(base.probabilities.view().row(q), old, logits) +
                            log_sums) /
          count;
    });
    forward::Observer* const observers[] = {&observer};
    forward::run_forward(input_.model, batch, {}, observers, context,
                         {.editor = &editor, .layer = layer, .start = start, .logit_queries = queries});
  };

  for (std::size_t layer = 0; layer < layers; ++layer) {
    const std::span<const std::size_t> all = by_layer[layer];
    for (std::size_t first = 0, last = 0; first < all.size(); first = last) {
      std::size_t rows = 0;
      do {
        const RecordedSequence& next = recorded_[interventions[all[last++]].sequence];
        rows += std::max(next.streams.front().rows(), next.final_stream.rows());
      } while (last < all.size() && rows < kMostRows);
      run_together(layer, all.subspan(first, last - first));
    }
  }
  return effects;
}

}  // namespace attnctl::causal
