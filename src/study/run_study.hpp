#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/pool.hpp"
#include "base/progress.hpp"
#include "forward/run.hpp"
#include "input/sequences.hpp"
#include "model/model.hpp"
#include "study/corpus.hpp"
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

/// Returns the identity of a study. Hashes the configuration, the corpus files (independent of their paths),
/// and all parameters that the model uses: name, type, shape and bytes of each tensor, independent of how the
/// tensors are divided into files.
[[nodiscard]] StudyIdentity study_identity(const StudySettings& settings, const Model& model, Pool& pool);
/// Returns the header of a study without its identity, its model and its paths.
[[nodiscard]] StudyHeader plain_header(const StudySettings& settings, const Model& model);

/// The header and the token frequencies, computed before the first block.
struct StudyBeginning {
  StudyHeader header;
  std::optional<TokenFrequencies> frequencies;  // set if a measure needs them
};
/// Hashes and loads the weights on one worker while another reads the corpus or the file of frequencies.
[[nodiscard]] StudyBeginning begin_study(const StudyInput& input, Pool& pool, Progress& progress);

/// A shard: the blocks whose number modulo `count` is `index`.
struct Shard {
  std::uint64_t index = 0;  // from 0
  std::uint64_t count = 1;

  [[nodiscard]] bool has(std::uint64_t block) const { return block % count == index; }
};

/// A run over the blocks of a study. References and pointers are borrowed.
struct StudyRun {
  const StudyInput& input;
  Pool& pool;
  Progress& progress;
  std::span<const Model> null_models = {};        // StudySettings::null_models models of the same shape
  const TokenFrequencies* frequencies = nullptr;  // of the corpus; set if a measure needs them
  Shard shard = {};
  std::optional<std::filesystem::path> checkpoint = {};  // file for the state while the study runs
  double checkpoint_seconds = 60;  // seconds between two checkpoints; 0: after every block
};

/// Runs all blocks of the shard that the state does not have.
/// Each block is computed by one worker of the pool, single-threaded, so the number of workers and the order
/// of blocks do not change a bit of the result. Memory does not grow with the corpus. On an interrupt, writes
/// the checkpoint, then rethrows Error(interrupted).
void run_study(const StudyRun& run, StudyState& state);

/// Computes one block and adds it to the state; changes the state only while it holds `adding`. Call
/// load_weights() first.
void compute_block(const StudyRun& run, const CorpusBlock& corpus, StudyState& state, std::mutex& adding);
/// Converts all weights that the passes of a run need. Call this from one thread.
void load_weights(const StudyRun& run);

}  // namespace attnctl
