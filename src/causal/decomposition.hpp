#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/matrix_view.hpp"
#include "causal/recording.hpp"
#include "forward/run.hpp"
#include "model/model.hpp"

// Exact sums: a logit, and the score of a query and a key, as sums over what wrote into the residual stream.
namespace attnctl::causal {

/// A part of the residual stream: the embedding, what a head or an MLP wrote, or what biases and norms added.
struct Writer {
  enum class Origin { embedding, head, attention_bias, mlp, norm_bias };
  Origin kind = Origin::embedding;
  std::size_t layer = 0;  // of all kinds but the embedding
  std::size_t head = 0;   // of a head
};

/// The logits of some tokens at one position, as sums over writers, with the scale of the final norm, the
/// activation of the head and the soft cap frozen at the values that they have.
struct LogitParts {
  std::vector<Writer> writers;
  OwnedMatrix<double> parts;     // [writers, tokens]
  std::vector<double> constant;  // [tokens], from the biases of the final norm and of the output head
};
/// `recorded` has the values of a float32 or a float64 pass, with the MLPs.
template <typename Value>
[[nodiscard]] LogitParts logit_parts(const model::Model& model, const RecordedValues<Value>& recorded,
                                     std::size_t position, std::span<const std::int64_t> tokens,
                                     forward::RunContext& context);

/// The score of a query and a key of one head, before positions and masks are added: scale q k^T as a sum
/// over pairs of writers. In cross-attention, the key writers are those of the encoder. The last row and
/// column belong to the biases of the norm and of the projections.
struct ScoreParts {
  std::vector<Writer> query_writers, key_writers;
  OwnedMatrix<double> parts;  // [query writers + 1, key writers + 1]
};
/// Throws Error(bad_input) for linear attention and clamped projections, whose scores are not such sums.
template <typename Value>
[[nodiscard]] ScoreParts score_parts(const model::Model& model, const RecordedValues<Value>& recorded,
                                     model::HeadId head, std::size_t query, std::size_t key,
                                     forward::RunContext& context);

/// Returns "embedding", "2.1", "mlp 2", "bias 2" and the like.
[[nodiscard]] std::string name_of(const Writer& writer, const model::ModelConfig& config);

}  // namespace attnctl::causal
