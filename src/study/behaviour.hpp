#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "analysis/similarity/head_match.hpp"
#include "base/error.hpp"
#include "base/pool.hpp"
#include "base/progress.hpp"
#include "forward/run.hpp"
#include "input/sequences.hpp"
#include "model/model.hpp"
#include "results/results.hpp"
#include "study/corpus.hpp"
#include "tokenizer/vocabulary.hpp"

// What the heads of two models of the same shape and tokenizer do on the same sentences.
namespace attnctl::study {

/// All members are borrowed.
struct BehaviourInput {
  const CorpusOptions& corpus;
  const forward::Selection& selection;
  const model::Model& a;
  const model::Model& b;
  const tokenizer::Vocabulary& vocabulary_a;
  const tokenizer::Vocabulary& vocabulary_b;
  input::TextEncoder& encoder;  // of a
  /// Heads of b to compare with the selected heads; empty: the heads of the same names, which b must have.
  std::span<const model::HeadId> partners = {};
};

/// The columns of the tables of compare_behaviour().
[[nodiscard]] std::span<const Definition> behaviour_definitions();

/// Returns why patterns cannot be compared row by row, such as "the tokenizers differ: ..."; nullopt if they
/// can.
[[nodiscard]] std::optional<std::string> behaviour_difference(const BehaviourInput& input);

/// Matches the selected heads of a with heads of b by 1 - D / ln 2, where D is the mean Jensen-Shannon
/// divergence of their pattern rows (of long blocks, a sample of rows). Heads of different components do not
/// match. b must have at least as many heads as are selected of a. Throws the errors of CorpusBlocks and
/// run_forward. behaviour_difference() must be nullopt.
[[nodiscard]] analysis::HeadMatch match_behaviour(const BehaviourInput& input,
                                                  const forward::Selection& heads_b, std::uint64_t seed,
                                                  Pool& pool, Progress& progress, Warnings& warnings);

/// Runs both models over the corpus and compares each selected head with its partner: the Jensen-Shannon
/// divergence of its pattern rows; the CKA of its outputs; the difference of each metric, with intervals over
/// sentences; and the predictions, if both models have an output head. Beside each number is the one that
/// rounding to float32 alone causes in model a. Text shows the `top` largest changes. Throws as
/// match_behaviour().
[[nodiscard]] Results compare_behaviour(const BehaviourInput& input, std::optional<std::size_t> top,
                                        Pool& pool, Progress& progress, Warnings& warnings);

}  // namespace attnctl::study
