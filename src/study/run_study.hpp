#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "base/pool.hpp"
#include "base/progress.hpp"
#include "study/corpus/corpus_blocks.hpp"
#include "study/state/study_state.hpp"

namespace attnctl {

/// Blocks whose number leaves this remainder.
struct Shard {
  std::uint64_t index = 0;  // from 0
  std::uint64_t count = 1;

  [[nodiscard]] bool has(std::uint64_t block) const { return block % count == index; }
};

/// Where the state goes while a study runs.
struct CheckpointPlan {
  std::optional<std::filesystem::path> path;
  double seconds = 60;  // between two; 0: after every block
};

/// What a study runs on. Everything is borrowed.
struct StudyRun {
  const Model& model;
  const Vocabulary& vocabulary;
  TextEncoder& encoder;
  const Selection& selection;  // of StudyShape::heads
  const CorpusOptions& corpus;
  Shard shard;
  CheckpointPlan checkpoint;
  std::string kernel;  // of BLAS
  Pool& pool;
  Progress& progress;
  std::span<const Model> null_models = {};        // as many as StudyHeader says, of the same shape
  const TokenFrequencies* frequencies = nullptr;  // of the corpus, where a measure needs them
};

/// Runs all blocks of the shard that the state does not have. Each is computed whole by one worker of the
/// pool, single-threaded, so that neither their number nor their order changes a bit; memory does not grow
/// with the corpus. On an interrupt the checkpoint is written before Error(interrupted) goes on.
void run_study(const StudyRun& run, StudyState& state);

/// What run_study does with each block: computes it and adds it to the state, which is changed under
/// `adding`. The weights have been loaded.
void compute_block(const StudyRun& run, const CorpusBlock& corpus, StudyState& state, std::mutex& adding);
/// Converts all weights that passes need, which is for one thread: of all models of a run, or of one.
void load_weights(const StudyRun& run);
void load_weights(const Model& model, const Selection& selection);

/// How often each token comes in a corpus, of all of its blocks: a pass that reads and does not compute.
/// Everything is borrowed. Throws Error as CorpusBlocks.
struct CountRun {
  const Model& model;
  const Vocabulary& vocabulary;
  TextEncoder& encoder;
  const CorpusOptions& corpus;
  Progress& progress;
};
[[nodiscard]] TokenFrequencies count_tokens(const CountRun& run);

/// A hash of what the model computes with: name, type, shape and bytes of every tensor that is bound, by
/// name, whatever the files are. Others (poolers, buffers, copies) are left out.
[[nodiscard]] std::uint64_t weights_hash(const Model& model, Pool& pool);

/// A hash of a file's bytes.
[[nodiscard]] std::uint64_t file_hash(const std::filesystem::path& path, Pool& pool);

}  // namespace attnctl
