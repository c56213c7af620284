#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/pool.hpp"
#include "base/progress.hpp"
#include "forward/run.hpp"
#include "input/sequences.hpp"
#include "model/model.hpp"
#include "study/corpus/corpus_blocks.hpp"
#include "study/corpus/token_frequencies.hpp"
#include "study/measure.hpp"
#include "study/state/study_state.hpp"
#include "tokenizer/vocabulary.hpp"

namespace attnctl {

/// The settings that determine the numbers of a study, independent of how shards divide the work.
struct StudySettings {
  std::vector<const MeasureRow*> measures;
  Selection selection;
  CorpusOptions corpus;
  std::uint64_t seed = 0;
  bool fold_subtypes = false;
  std::size_t null_models = 0;
  std::size_t null_shuffles = 0;
  std::optional<std::string> frequencies;  // file of token frequencies; default: those of the corpus

  [[nodiscard]] bool needs_frequencies() const;
};

/// A study before its first block. All members are borrowed.
struct StudyInput {
  const StudySettings& settings;
  const Model& model;
  const Vocabulary& vocabulary;
  TextEncoder& encoder;
};

/// Returns the size of all corpus files in bytes. Standard input counts as 0.
[[nodiscard]] std::uint64_t corpus_bytes(const CorpusOptions& corpus);

/// Returns the header of a study without its identity, its model and its paths.
[[nodiscard]] StudyHeader plain_header(const StudySettings& settings, const Model& model);

/// The header and the token frequencies, computed before the first block.
struct StudyBeginning {
  StudyHeader header;
  std::optional<TokenFrequencies> frequencies;  // set if a measure needs them
};
/// Hashes and loads the weights on one worker while another reads the corpus or the file of frequencies.
[[nodiscard]] StudyBeginning begin_study(const StudyInput& input, Pool& pool, Progress& progress);

}  // namespace attnctl
