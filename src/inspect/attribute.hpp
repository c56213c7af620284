#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "forward/run.hpp"
#include "inspect/open_model.hpp"
#include "results/results.hpp"

namespace attnctl::inspect {

/// The attention score to decompose: its head, query and key.
struct ScoreChoice {
  model::HeadId head;
  std::size_t query = 0, key = 0;
};

struct AttributeRequest {
  input::Sequence input;
  std::optional<std::size_t> position =
      {};                                 // whose prediction is explained; default: mask token or last token
  std::vector<std::int64_t> tokens = {};  // whose logits are explained; default: the most probable token
  std::vector<ScoreChoice> scores = {};
  forward::Selection patterns = {};  // heads whose patterns are explained by integrated gradients
  std::size_t steps = 20;            // of the integral; from 1
  std::uint64_t memory = 0;          // limit of the resident memory in bytes; 0: no limit
};

/// The columns of the tables of an attribution.
[[nodiscard]] std::span<const Definition> attribution_definitions();

/// Writes logits and scores as exact sums over what wrote into the residual stream, and predictions as sums
/// over the weights of patterns. Throws the errors of causal::logit_parts, causal::score_parts and
/// causal::integrate_patterns, and Error(bad_input) for a position outside of the input, for a key that the
/// query does not see, or if the model has no output head, and Error(limit) if more memory is needed than the
/// request allows. The positions of a decoder are those of the
/// target.
[[nodiscard]] Results attribute(const AttributeRequest& request, OpenModel& open,
                                forward::RunContext& context);

/// Returns the position whose prediction the model makes, in the target if there is one: the mask token, or,
/// if the model predicts each next token, the last token of the text (see input::last_of_text). Throws
/// Error(bad_input) if there is none, or more than one mask token. `option` names the input.
[[nodiscard]] std::size_t predicting_position(const input::Sequence& sequence, const OpenModel& open,
                                              const std::string& option);

/// Returns the fields text, tokens and ids of an input and, if it has a target, target_text, target_tokens
/// and target_ids.
[[nodiscard]] Record input_record(const input::Sequence& sequence);
/// Returns lines of a subtitle: the text of an input after a label, and that of its target, if it has one.
[[nodiscard]] std::vector<std::string> input_lines(const std::string& label, const input::Sequence& sequence);

/// Returns "the cat (2 tokens)"; without a text, "ids (2 tokens)".
[[nodiscard]] std::string tokens_text(const input::Sequence& sequence);

/// Returns the text of a token: its string, or "#ID".
[[nodiscard]] std::string token_text(const tokenizer::Vocabulary& vocabulary, std::int64_t id);

/// Returns the most probable token at a position of the only sequence of a batch.
[[nodiscard]] std::int64_t best_token(const model::Model& model, const input::Batch& batch,
                                      std::size_t position, forward::RunContext& context);

}  // namespace attnctl::inspect
