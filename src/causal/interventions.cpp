#include "causal/interventions.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "causal/footprint.hpp"
#include "causal/frozen_norm.hpp"
#include "forward/block.hpp"
#include "linalg/kernels/kernels.hpp"

namespace attnctl::causal {
namespace {

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

/// Returns the derivatives of x for y = x W, given d = d_y.
std::vector<double> back_times(std::span<const double> d, MatrixView<const double> weight) {
  std::vector<double> d_x(weight.rows, 0.0);
  for (std::size_t i = 0; i < d_x.size(); ++i)
    d_x[i] = std::inner_product(d.begin(), d.end(), weight.row(i).begin(), 0.0);
  return d_x;
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
  const model::Lease<model::HeadWeights> head = model.head(&pool, model::WeightForm::stored);
  const model::StoredMatrix matrix = head->decoder.last();
  std::vector<double> mean(matrix.in(), 0.0);
  std::vector<float> row(matrix.cols());
  for (std::size_t r = 0; r < matrix.rows(); ++r) {
    matrix.row(r, row);
    for (std::size_t c = 0; c < row.size(); ++c)
      mean[matrix.orientation == model::Orientation::out_in ? c : r] += double{row[c]};
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

OwnedMatrix<double> CausalPass::logit_derivatives(std::size_t sequence, Pool& pool) const {
  const model::Model& model = input_.model;
  const ScoredQueries& scored = input_.scored[sequence];
  const model::Lease<model::HeadWeights> head = model.head(&pool, model::WeightForm::stored);
  OwnedMatrix<double> projection;
  if (head->projection.present()) projection = head->projection.in_out_double();
  OwnedMatrix<double> derivatives(scored.queries.size(), model.config().d_model);
  for (std::size_t i = 0; i < scored.queries.size(); ++i) {
    const OwnedMatrix<double> target =
        head->decoder.outputs(static_cast<std::size_t>(scored.targets[i]), 1).in_out_double();  // [d, 1]
    std::vector<double> d(target.rows());
    for (std::size_t c = 0; c < d.size(); ++c)
      d[c] = double{model.config().head.multiplier} * (target(c, 0) - input_.mean_output[c]);
    if (head->projection.present()) d = back_times(d, projection.view());
    const auto stream = recorded_[sequence].final_stream.view().row(scored.queries[i]);
    const std::vector<double> unchanged(stream.begin(), stream.end());
    FrozenNorm(model.config().final_norm, model.final_norm(), unchanged).back(d);
    std::ranges::copy(d, derivatives.view().row(i).begin());
  }
  return derivatives;
}

void CausalPass::add_direct_effects(std::span<const Intervention> interventions, std::span<Effect> effects,
                                    forward::RunContext& context) const {
  const model::Model& model = input_.model;
  const model::ModelConfig& config = model.config();
  if (input_.mean_output.empty()) return;
  /// A replaced head of an intervention.
  struct PatchOf {
    std::size_t intervention = 0;
    const HeadPatch* patch = nullptr;
  };
  std::map<model::HeadId, std::map<std::size_t, std::vector<PatchOf>>> by_head;  // then by sequence
  std::map<std::size_t, OwnedMatrix<double>> derivatives;                        // by sequence
  for (std::size_t i = 0; i < interventions.size(); ++i) {
    const Intervention& one = interventions[i];
    if (input_.scored[one.sequence].queries.empty() || one.heads.empty() || !one.mlps.empty()) continue;
    effects[i].direct = 0;
    for (const HeadPatch& patch : one.heads) {
      if (!writes_to_logits(config, config.layers[patch.head.layer])) continue;
      by_head[patch.head][one.sequence].push_back({i, &patch});
      if (!derivatives.contains(one.sequence))
        derivatives.emplace(one.sequence, logit_derivatives(one.sequence, context.pool));
    }
  }
  for (auto head = by_head.begin(); head != by_head.end();) {
    const std::size_t index = head->first.layer;
    const model::LayerConfig& layer = config.layers[index];
    const std::size_t width = layer.attention.d_value;
    const model::Lease<model::AttentionWeights> weights =
        model.attention(index, &context.pool, model::WeightForm::stored);
    for (; head != by_head.end() && head->first.layer == index; ++head) {
      OwnedMatrix<double> output;
      if (weights->output.present()) output = weights->output.inputs_double(head->first.head * width, width);
      for (const auto& [sequence, patches] : head->second) {
        const std::vector<std::size_t>& queries = input_.scored[sequence].queries;
        const MatrixView<const float> old =
            recorded_[sequence].z[index].view().col_range(head->first.head * width, width);
        const double factor = double{layer.residual_multiplier} / static_cast<double>(queries.size());
        for (std::size_t q = 0; q < queries.size(); ++q) {
          if (!weights->output.present()) {
            for (const PatchOf& of : patches) effects[of.intervention].direct = kUndefined;
            continue;
          }
          const std::vector<double> slopes =
              back_times(derivatives.at(sequence).view().row(q), output.view());
          for (const PatchOf& of : patches) {
            const std::size_t position = queries[q];
            if (!of.patch->by.changes(position)) continue;
            const std::span<const float> row = of.patch->by.row(position);
            double change = 0;
            for (std::size_t c = 0; c < width; ++c)
              change += ((row.empty() ? 0.0 : double{row[c]}) - double{old(position, c)}) * slopes[c];
            effects[of.intervention].direct += factor * change;
          }
        }
      }
    }
    if (context.streamed_rows > 0) model.evict_layer(index);
  }
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
    const ScoredQueries& scored = input_.scored[interventions[i].sequence];
    if (!scored.queries.empty()) effects[i].loss = effects[i].divergence = effects[i].logit = 0;
    if (scored.answer) effects[i].logit_difference = 0;
  }
  add_direct_effects(interventions, effects, context);

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
      } while (last < all.size() && rows < kStreamedRows);
      run_together(layer, all.subspan(first, last - first));
    }
  }
  return effects;
}

}  // namespace attnctl::causal
