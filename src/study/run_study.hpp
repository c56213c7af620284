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

/// A shard: the blocks whose number modulo `count` is `index`.
struct Shard {
  std::uint64_t index = 0;  // from 0
  std::uint64_t count = 1;

  [[nodiscard]] bool has(std::uint64_t block) const { return block % count == index; }
};

/// Settings for writing the state while a study runs.
struct CheckpointPlan {
  std::optional<std::filesystem::path> path;
  double seconds = 60;  // seconds between two checkpoints; 0: after every block
};

/// The inputs of a study. All members are borrowed.
struct StudyRun {
  const Model& model;
  const Vocabulary& vocabulary;
  TextEncoder& encoder;
  const Selection& selection;  // heads of StudyShape::heads
  const CorpusOptions& corpus;
  Shard shard;
  CheckpointPlan checkpoint;
  std::string kernel;  // name of the BLAS kernel
  Pool& pool;
  Progress& progress;
  std::span<const Model> null_models = {};        // StudyHeader::null_models models of the same shape
  const TokenFrequencies* frequencies = nullptr;  // of the corpus; set if a measure needs them
};

/// Runs all blocks of the shard that the state does not have.
/// Each block is computed by one worker of the pool, single-threaded, so the number of workers and the order
/// of blocks do not change a bit of the result. Memory does not grow with the corpus. On an interrupt, writes
/// the checkpoint, then rethrows Error(interrupted).
void run_study(const StudyRun& run, StudyState& state);

/// Computes one block and adds it to the state; changes the state only while it holds `adding`. Call
/// load_weights() first.
void compute_block(const StudyRun& run, const CorpusBlock& corpus, StudyState& state, std::mutex& adding);
/// Converts all weights that the passes need: of all models of a run, or of one model. Call this from one
/// thread.
void load_weights(const StudyRun& run);
void load_weights(const Model& model, const Selection& selection);

/// Reads a corpus to its end and returns how often each token occurs. Runs no forward pass. Throws the errors
/// of CorpusBlocks::next().
[[nodiscard]] TokenFrequencies count_tokens(CorpusBlocks& corpus, Progress& progress);

/// Returns a hash of the parameters that the model uses: name, type, shape and bytes of each tensor, in order
/// of name. The result does not depend on how the tensors are divided into files. Tensors that the model does
/// not use (poolers, buffers, copies) are left out.
[[nodiscard]] std::uint64_t weights_hash(const Model& model, Pool& pool);

/// Returns a hash of the bytes of a file.
[[nodiscard]] std::uint64_t file_hash(const std::filesystem::path& path, Pool& pool);

}  // namespace attnctl
