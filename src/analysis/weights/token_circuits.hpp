#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/weights/circuit.hpp"
#include "base/numbers.hpp"
#include "base/pool.hpp"
#include "forward/run.hpp"
#include "model/model.hpp"

// The circuits of heads between tokens: which logits a head raises for the token that it attends to (W_E OV
// W_U), and which token matches which (W_E QK W_E^T), where W_E is the token embedding and W_U computes the
// logits.
namespace attnctl::analysis {

/// Returns why logits cannot be computed from the token embedding and the output head alone. Empty if they
/// can.
[[nodiscard]] std::string missing_vocabulary_part(const model::Model& model);

/// Returns the number of tokens that have both an embedding and a logit; of those with an embedding if logits
/// cannot be computed from it.
[[nodiscard]] std::size_t compared_tokens(const model::Model& model);

/// An element of a circuit between tokens.
struct TokenPair {
  std::int64_t from = 0;  // OV: the token that is attended to; QK: the token of the query
  std::int64_t to = 0;    // OV: the token whose logit is raised; QK: the token of the key
  float value = 0;
};

/// Tokens that follow each other, such as the names of the days.
using TokenList = std::vector<std::int64_t>;

struct TokenCircuitOptions {
  bool fold_norm = false;  // see circuit_factors
  std::size_t pairs = 5;   // number of pairs of each circuit
  /// Number of logits of a row: a token is copied (suppressed) if its own logit is among the highest
  /// (lowest).
  std::size_t top = 5;
  std::vector<bool> left_out = {};          // [tokens or fewer]: tokens that no result has
  std::vector<TokenList> successions = {};  // see TokenCircuits::successor; ids below compared_tokens()
};

/// Both circuits of one head. Shares are nullopt if the head has no OV circuit of the width of the model.
struct TokenCircuits {
  std::size_t tokens = 0;            // number of tokens that are compared
  std::optional<double> copied;      // share of the tokens whose own logit is among the `top` highest
  std::optional<double> suppressed;  // share of the tokens whose own logit is among the `top` lowest
  /// Share of the pairs of neighbours in `successions` whose second token has the highest logit, of all
  /// tokens of its list but the first token of the pair.
  std::optional<double> successor;
  std::vector<TokenPair> promoted;  // the largest elements of W_E OV W_U, in descending order
  std::vector<TokenPair> matched;   // the largest elements of W_E QK W_E^T, in descending order
};

/// Returns the circuits of the heads (in ascending order), in float32. Takes for each head the time of two
/// products [tokens, d_head] [d_head, tokens]. Norms, positions and biases are left
/// out; see circuit_factors for `fold_norm`. The circuits read and write only the dimensions of the token
/// embedding. Elements that are not finite are left out. Throws Error(bad_input) if the model has no token
/// embedding.
[[nodiscard]] std::vector<TokenCircuits> analyze_token_circuits(const model::Model& model,
                                                                std::span<const model::HeadId> heads,
                                                                const TokenCircuitOptions& options,
                                                                Pool& pool);

/// Returns the score of even chances for `successor`: the mean of 1 / (tokens of the list - 1) over all
/// pairs.
[[nodiscard]] std::optional<double> successor_null(std::span<const TokenList> successions);

/// Returns the memory of analyze_token_circuits() for heads of this width with this number of threads,
/// without the weights.
[[nodiscard]] std::uint64_t token_circuit_bytes(std::uint64_t tokens, std::uint64_t width,
                                                std::uint64_t threads);

/// The pattern of a head if all tokens are the same.
struct PositionPattern {
  double previous = kUndefined;  // mean weight on the previous token, from the second token on
  double even = kUndefined;      // the same for even weights over the visible keys
};

/// Returns the patterns of heads for a text of 32 tokens (fewer if the model has fewer positions). Each token
/// has the mean embedding of the vocabulary, so tokens differ only in their positions. Every layer gets the
/// input of the first layer, so the result depends only on the embeddings and the weights of the head's own
/// layer. Undefined for the decoder of an encoder-decoder model, and if the model has no token embedding.
[[nodiscard]] std::vector<PositionPattern> position_patterns(const model::Model& model,
                                                             std::span<const model::HeadId> heads,
                                                             forward::RunContext context);

}  // namespace attnctl::analysis
