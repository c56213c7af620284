#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

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
};

/// The columns of the tables of compare_behaviour().
[[nodiscard]] std::span<const Definition> behaviour_definitions();

/// Returns why heads cannot be compared row by row, such as "the second model has no head 3.1" or "the
/// tokenizers differ: ..."; nullopt if they can.
[[nodiscard]] std::optional<std::string> behaviour_difference(const BehaviourInput& input);

/// Runs both models over the corpus and compares each selected head with the head of the same name: the
/// Jensen-Shannon divergence of its pattern rows, the CKA of its outputs, and the difference of each metric,
/// with intervals over sentences; and the predictions, if both models have an output head. Text shows the
/// `top` largest changes. Throws the errors of CorpusBlocks and run_forward. behaviour_difference() must be
/// nullopt.
[[nodiscard]] Results compare_behaviour(const BehaviourInput& input, std::optional<std::size_t> top,
                                        Pool& pool, Progress& progress, Warnings& warnings);

}  // namespace attnctl::study
