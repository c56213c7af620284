#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/matrix_view.hpp"
#include "base/numbers.hpp"
#include "causal/recording.hpp"
#include "forward/run.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"

// Passes in which the outputs of heads or MLPs are replaced, and what this does to the predictions.
namespace attnctl::causal {

/// Rows that replace the z of a head, or what an MLP adds.
struct Substitute {
  MatrixView<const float> rows;  // [rows, width]; position p gets row min(p, rows - 1); no data: zeros
  std::optional<std::size_t> position = std::nullopt;  // the only position that changes; nullopt: all

  [[nodiscard]] bool changes(std::size_t at) const { return !position || *position == at; }
  /// Returns the row for a position; empty: zeros.
  [[nodiscard]] std::span<const float> row(std::size_t at) const {
    return rows.rows == 0 ? std::span<const float>() : rows.row(std::min(at, rows.rows - 1));
  }
};

struct HeadPatch {
  model::HeadId head;
  Substitute by;  // width: v
};

struct MlpPatch {
  std::size_t layer = 0;
  Substitute by;  // width: d_model
};

/// A pass of one sequence in which these heads and MLPs are replaced. All layers after the first replaced
/// value are computed again.
struct Intervention {
  std::size_t sequence = 0;  // index in the batch
  std::vector<HeadPatch> heads;
  std::vector<MlpPatch> mlps;

  /// Returns the first layer that changes; the number of layers if there is none.
  [[nodiscard]] std::size_t first_layer(std::size_t layers) const;
};

/// The queries of a sequence (of its target in encoder-decoder models) whose predictions are scored.
struct ScoredQueries {
  std::vector<std::size_t> queries;        // ascending
  std::vector<std::int64_t> targets;       // [queries], the right tokens
  std::optional<std::size_t> answer = {};  // the query that predicts the answer; nullopt: none
};

/// Two tokens whose logits are compared.
struct AnswerTokens {
  std::int64_t right = 0, wrong = 0;
};

/// The predictions of a sequence in the unchanged pass.
struct Prediction {
  double loss = kUndefined;              // mean over the scored queries of -ln p(target); kUndefined: none
  double logit_difference = kUndefined;  // logit of the right answer minus that of the wrong one
};

/// What an intervention changes: the value with it minus the value without it. The first four are means over
/// the scored queries.
struct Effect {
  double loss = kUndefined;
  double divergence =
      kUndefined;             // Kullback-Leibler divergence of the predictions from the unchanged ones, nats
  double logit = kUndefined;  // logit of the target minus the mean of all logits
  /// The part of `logit` that the replaced heads cause directly: through the residual stream, the final norm
  /// with its unchanged scale and the output matrix, but not through later layers. kUndefined if the model is
  /// not linear there: see has_direct_path().
  double direct = kUndefined;
  double logit_difference = kUndefined;
};

/// Returns true if the output of each head reaches the logits unchanged, except for the final norm: all
/// layers (of the decoder, if there is one) have pre-norms or none, and the output head is one matrix without
/// a soft cap. Heads of an encoder reach the logits only through layers of the decoder: their direct effect
/// is 0.
[[nodiscard]] bool has_direct_path(const model::ModelConfig& config);

/// Returns the mean over the vocabulary of the rows of the output matrix [d]; empty without a direct path.
[[nodiscard]] std::vector<double> mean_output_row(const model::Model& model, Pool& pool);

/// A batch with its unchanged pass, from which passes with interventions begin.
class CausalPass {
 public:
  /// All members are borrowed.
  struct Input {
    const model::Model& model;
    const input::Batch& batch;
    std::span<const ScoredQueries> scored;     // [sequences]
    std::optional<AnswerTokens> answer = {};   // needed if a sequence has ScoredQueries::answer
    bool mlps = false;                         // record what the MLPs add
    std::span<const double> mean_output = {};  // mean_output_row(); empty: Effect::direct is not computed
  };

  /// Runs the unchanged pass. Throws the errors of run_forward, and Error(bad_input) if the model has no
  /// output head.
  CausalPass(const Input& input, forward::RunContext& context);

  [[nodiscard]] const std::vector<RecordedSequence>& recorded() const { return recorded_; }
  [[nodiscard]] const std::vector<Prediction>& predictions() const { return predictions_; }

  /// Returns the effect of each intervention. Interventions that begin in the same layer are computed as
  /// sequences of one pass.
  [[nodiscard]] std::vector<Effect> run(std::span<const Intervention> interventions,
                                        forward::RunContext& context) const;

 private:
  /// The unchanged logits of the queries of a sequence that are scored or predict the answer.
  struct BaseLogits {
    std::vector<std::size_t> queries;  // ascending
    OwnedMatrix<float> logits;         // [queries, vocabulary]
    OwnedMatrix<float> probabilities;  // [queries, vocabulary]
    std::vector<double> log_sums;      // [queries], ln sum e^logit
    std::vector<double> means;         // [queries], mean of the logits
  };

  /// Sets Effect::direct of each intervention.
  void add_direct_effects(std::span<const Intervention> interventions, std::span<Effect> effects,
                          forward::RunContext& context) const;
  /// Returns, for each scored query of a sequence, the derivatives [queries, d_model] of Effect::logit with
  /// respect to the input of the final norm, with the scale of this norm frozen.
  [[nodiscard]] OwnedMatrix<double> logit_derivatives(std::size_t sequence, Pool& pool) const;

  Input input_;
  std::vector<RecordedSequence> recorded_;
  std::vector<BaseLogits> base_;
  std::vector<Prediction> predictions_;
  std::vector<input::Sequence> plain_;  // the sequences without what only results show
};

}  // namespace attnctl::causal
