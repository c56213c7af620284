#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attnctl/input.hpp"
#include "attnctl/model.hpp"
#include "attnctl/results.hpp"
#include "attnctl/run.hpp"

namespace attn {

/// The sentences of a study: either files or inputs.
struct Corpus {
  /// Paths of files that `attnctl study --input` reads: .txt, .jsonl, .json, .conllu and .conll, each also
  /// with .gz or .zst. The extension tells the format.
  std::vector<std::string> files = {};
  std::vector<Input> inputs = {};
};

/// Options of study(). Their meaning and defaults are those of `attnctl study` (docs/study.md).
struct StudyOptions {
  std::vector<std::string> measures = {};  // names of measures; empty: all that fit the corpus
  bool causal = false;                     // also compute the measures roles and ablation
  /// Largest number of tokens in a sentence; nullopt: the number of positions of the model.
  std::optional<std::size_t> max_length = {};
  /// Split longer sentences into windows that begin this number of tokens apart; nullopt: a longer sentence
  /// is an error.
  std::optional<std::size_t> stride = {};
  std::optional<std::size_t> batch_tokens = {};  // largest number of tokens in a block of sentences
  bool skip_bad = false;                         // skip sentences that are invalid or too long
  std::uint64_t seed = 0;                        // of the random numbers that some measures use
  bool fold_subtypes = false;                    // nsubj:pass counts as nsubj
  std::size_t null_models = 0;                   // random models with which roles are compared
  std::size_t null_shuffles = 0;                 // copies of each sentence with its tokens in random order
  std::string frequencies = {};                  // file of token frequencies; empty: those of the corpus
  std::string state = {};  // file to which the state is written, for `attnctl merge`; empty: none
  /// File to which the state is written each minute and after a stop. If it exists, the study continues from
  /// it. Empty: none.
  std::string checkpoint = {};
  RunOptions run = {};
};

/// Measures every selected head over a corpus. Returns the tables that `attnctl study` writes as CSV, and no
/// tensors. The number of threads does not change the results. The measure ablation removes single heads, as
/// `attnctl ablate` does by default. Throws Error(usage) for an unknown measure or head, for one that the
/// corpus or the model does not support, and if the corpus has neither files nor inputs, or both;
/// Error(environment) if a file cannot be read or written; Error(bad_input) for an invalid sentence; and
/// Error(interrupted) after a stop.
[[nodiscard]] Results study(const Model& model, const Corpus& corpus, const StudyOptions& options = {});

}  // namespace attn
