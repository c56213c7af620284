#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/files/input_file.hpp"
#include "base/pool.hpp"
#include "base/progress.hpp"
#include "forward/run.hpp"
#include "input/sequences.hpp"
#include "model/model.hpp"
#include "study/ablation.hpp"
#include "study/corpus.hpp"
#include "study/measure.hpp"
#include "study/state/study_state.hpp"
#include "tokenizer/vocabulary.hpp"

namespace attnctl::study {

/// The settings that determine the results of a study. The number of shards is not among them.
struct StudySettings {
  std::vector<const MeasureRow*> measures;
  forward::Selection selection;
  CorpusOptions corpus;
  std::uint64_t seed = 0;
  bool fold_subtypes = false;
  std::size_t null_models = 0;
  std::size_t null_shuffles = 0;
  std::optional<std::string> frequencies;  // file of token frequencies; default: those in the corpus
  AblationSettings ablation;               // for measures with MeasureRow::on_request

  [[nodiscard]] bool needs_frequencies() const {
    return std::ranges::any_of(measures, &MeasureRow::needs_frequencies);
  }
  [[nodiscard]] bool removes_heads() const { return std::ranges::any_of(measures, &MeasureRow::on_request); }
};

/// The inputs of a study. All members are borrowed.
struct StudyInput {
  const StudySettings& settings;
  const model::Model& model;
  const tokenizer::Vocabulary& vocabulary;
  input::TextEncoder& encoder;
  /// Limit of the resident memory in bytes; 0: no limit. If the weights do not fit, run_study() keeps the
  /// weights of a few layers at a time. The results do not depend on it.
  std::uint64_t memory = 0;
  std::uint64_t used = 0;  // resident memory of the process when the study was opened
};

/// Returns the size of all corpus files in bytes, without standard input. Throws Error(environment)
/// if a size cannot be read.
[[nodiscard]] inline std::uint64_t corpus_bytes(const CorpusOptions& corpus) {
  std::uint64_t bytes = 0;
  for (const CorpusFile& file : corpus.files) bytes += file.path == "-" ? 0 : size_of_file(file.path);
  return bytes;
}

/// Throws Error(bad_input) if a corpus file does not have its CorpusFile::version any more.
inline void require_versions(const CorpusOptions& corpus) {
  for (const CorpusFile& file : corpus.files)
    if (file.version) require_version(file.path, *file.version);
}

/// Returns the identity of a study: its settings, and hashes of the configuration, the corpus files, the file
/// of token frequencies, and the name, type, shape and bytes of each tensor that the model uses. Standard
/// input is not hashed. File paths and the division of the tensors into files do not change the identity.
/// If `forget` is true, releases the memory of each tensor after it was hashed.
[[nodiscard]] StudyIdentity study_identity(const StudySettings& settings, const model::Model& model,
                                           Pool& pool, bool forget = false);
/// Returns the header of a study without identity, model and paths.
[[nodiscard]] StudyHeader plain_header(const StudySettings& settings, const model::Model& model);

struct StudyBeginning {
  StudyHeader header;
  std::optional<TokenFrequencies> frequencies;  // set if a measure needs them
  std::optional<AblationData> ablation;         // set if a measure removes heads
};
/// Creates the header, and hashes the weights. Without a limit of the memory, also loads them. In parallel,
/// reads token frequencies from their file or counts them in the corpus, if a measure needs them.
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
  std::span<const model::Model> null_models = {};  // the random models, [StudySettings::null_models]
  const TokenFrequencies* frequencies = nullptr;   // set if a measure needs them
  const AblationData* ablation = nullptr;          // set if a measure removes heads
  Shard shard = {};
  /// File to which the state is written every `checkpoint_seconds`, at the end and on an interrupt.
  std::optional<std::filesystem::path> checkpoint = {};
  double checkpoint_seconds = 60;  // shortest time between two checkpoints; 0: after every block
};

/// Computes all blocks of the shard that are not yet in the state. Throws Error(bad_input) if a corpus file
/// was changed; no checkpoint is written then. Each block is computed by one worker of the pool, so the
/// number of workers and the order of blocks do not change a bit of the result. On an interrupt, writes the
/// checkpoint if one is set, then throws Error(interrupted), which names it. Throws Error(limit) if a block
/// needs more memory than StudyInput::memory.
void run_study(const StudyRun& run, StudyState& state);

/// Computes some blocks and adds their results to the state. If `streamed` is true, computes each layer for
/// all of them before the next layer, then releases the weights of the layer, and returns the largest number
/// of bytes of the saved state of a block; otherwise returns 0. Call load_weights() first if it is false.
/// `adding` guards the state: threads that share a state must pass the same mutex.
std::uint64_t compute_blocks(const StudyRun& run, std::span<const CorpusBlock> blocks, bool streamed,
                             StudyState& state, std::mutex& adding);
/// Throws Error(usage) if StudyInput::memory is set, but the study needs all weights at once.
void require_streamable(const StudySettings& settings);
void load_weights(const StudyRun& run);

}  // namespace attnctl::study
