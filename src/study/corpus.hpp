#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/error.hpp"
#include "base/files/input_file.hpp"
#include "base/numbers.hpp"
#include "input/batch.hpp"
#include "input/sequences.hpp"
#include "input/text_input.hpp"
#include "model/model.hpp"
#include "tokenizer/vocabulary.hpp"

// The corpus of a study: token frequencies, blocks, probe sequences, and shuffled tokens and weights.
namespace attnctl::study {

/// Shuffles `count` elements (Fisher and Yates). Calls swap(i, j) to exchange the elements i and j.
template <typename Swap>
void shuffle(std::size_t count, Random& random, const Swap& swap) {
  for (std::size_t left = count; left > 1; --left) swap(left - 1, random.next() % left);
}

/// Returns, in ascending order, the positions of the tokens that are neither special nor hidden.
[[nodiscard]] std::vector<std::size_t> ordinary_tokens(const input::Sequence& sequence);

/// The number of occurrences of each ordinary token in a corpus, by id. A token is ordinary if it is neither
/// special nor hidden from attention.
class TokenFrequencies {
 public:
  /// Counts the ordinary tokens of a sequence. The ids must be valid ids of the model.
  void add(const input::Sequence& sequence);
  void set(std::int64_t id, std::uint64_t count) {
    const auto index = static_cast<std::size_t>(id);
    if (index >= counts_.size()) counts_.resize(index + 1);
    counts_[index] = count;
  }
  [[nodiscard]] std::uint64_t of(std::int64_t id) const {
    const auto index = static_cast<std::size_t>(id);
    return index < counts_.size() ? counts_[index] : 0;
  }

 private:
  std::vector<std::uint64_t> counts_;  // by id
};

/// Returns, in ascending order, the positions of the ordinary tokens of a sequence that have the lowest count
/// in `frequencies`.
[[nodiscard]] std::vector<std::size_t> rarest_tokens(const input::Sequence& sequence,
                                                     const TokenFrequencies& frequencies);

/// Reads lines TOKEN<TAB>COUNT. The first line may be a header, "token<TAB>count" or "id<TAB>count". With the
/// header "id<TAB>count", each line has an id from 0 to `ids` - 1 instead of a token. A token without a line
/// has the count 0. Throws Error(environment) if the file cannot be read, and Error(bad_input) if it has no
/// counts or is longer than 1 GiB, or, with the line number, if a line is malformed or names an unknown or
/// repeated token.
[[nodiscard]] TokenFrequencies read_frequencies(const std::filesystem::path& path,
                                                const tokenizer::Vocabulary& vocabulary, std::size_t ids);

/// Settings of the standard induction probe (Olsson et al. 2022). A probe sequence has two equal copies of
/// random tokens. Its control has the same second copy, but other tokens in the first copy.
struct ProbePlan {
  std::size_t sequences = 0;  // number of sequences with two copies; each has one control; 0: no probe
  std::uint64_t seed = 0;
};

/// Positions of the copies in a probe sequence. The first copy is tokens [first, first + length); the second
/// copy follows it and ends the sequence.
struct ProbeMarks {
  std::size_t first = 0;
  std::size_t length = 0;
  bool repeated = false;  // true: the two copies are equal; false: a control
};

struct ProbeSequence {
  input::Sequence sequence;
  ProbeMarks marks;
};

/// Returns the probe sequences of a plan, each followed by its control. The result depends only on the
/// arguments. Every sequence begins with `prefix`, for example BOS or [CLS], and has at most `limit` tokens.
/// `ids` is the size of the model's vocabulary. The tokens of a copy are distinct, and neither special nor in
/// the prefix. A copy has 32 tokens; fewer if two copies do not fit, or if the vocabulary has fewer than 4 *
/// 32 such tokens. Returns no sequences if a copy would have fewer than four tokens.
[[nodiscard]] std::vector<ProbeSequence> probe_sequences(const ProbePlan& plan,
                                                         const std::vector<std::int64_t>& prefix,
                                                         std::size_t ids, std::size_t limit,
                                                         const tokenizer::Vocabulary& vocabulary);

/// A file of a corpus; "-" is standard input.
struct CorpusFile {
  std::filesystem::path path;
  input::InputFormat format = input::InputFormat::txt;
  std::optional<FileVersion> version = {};  // the file must keep this version while it is read
};

/// Largest number of tokens in a probe block if CorpusOptions::batch_tokens is smaller, unless one sequence
/// is longer.
inline constexpr std::size_t kFewestProbeTokens = 256;

struct CorpusOptions {
  std::vector<CorpusFile> files;
  /// Largest number of tokens per block, where a target counts instead of its input if it is longer. A block
  /// can have more if it consists of one longer sentence, if sentences are cut into windows, or if it is a
  /// probe block.
  std::size_t batch_tokens = 256;
  /// Largest number of tokens of a sequence; nullopt, or a number above the model's limit: that limit.
  std::optional<std::size_t> max_length;
  /// Cut longer sentences into windows that start `stride` tokens apart; nullopt: longer sentences are bad.
  /// Must not be larger than the number of text tokens in a window.
  std::optional<std::size_t> stride;
  bool skip_bad = false;  // skip sentences that are invalid or too long, instead of throwing
  bool targets = false;   // a sentence without a target is bad
  ProbePlan probe = {};   // the probe; its blocks follow the blocks of the corpus
};

struct CorpusCounts {
  std::uint64_t sentences = 0;
  std::uint64_t windows = 0;  // a sentence that is not cut is one window
  std::uint64_t words = 0;    // words of the texts
  std::uint64_t tokens = 0;   // tokens of the windows
  std::uint64_t skipped = 0;  // bad sentences that were skipped

  auto parts() { return std::tie(sentences, windows, words, tokens, skipped); }
  /// Returns "4 sentences, 96 tokens", or "4 sentences (9 windows), 96 tokens" if sentences are cut.
  [[nodiscard]] std::string text() const;
};

/// A block of consecutive sentences of the corpus, or of probe sequences.
struct CorpusBlock {
  std::uint64_t number = 0;  // from 0
  input::Batch batch;
  /// [batch.sequences], annotation from a treebank or a text with mentions; null if there is none. The
  /// windows of a sentence share its annotation; their Sequence::words refer to the words of the whole
  /// sentence.
  std::vector<std::shared_ptr<const input::ConlluSentence>> annotations;
  CorpusCounts counts;
  std::vector<std::string> skipped;  // errors of the bad sentences, in order
  std::vector<ProbeMarks> probes;    // [batch.sequences] in a probe block; empty in other blocks
};

/// Divides a corpus into blocks, one at a time and in order. The probe blocks follow the blocks of the
/// corpus. The probe sequences begin with the same special tokens as the first valid sentence of the corpus.
/// Every sequence has been completed by finish_batch() and is not too long for the model. The id of a
/// sequence is its source, for example "FILE: line 12", "FILE: line 12 window 0", "probe 3" or "control 3".
class CorpusBlocks {
 public:
  /// All arguments are borrowed.
  CorpusBlocks(const CorpusOptions& options, const model::Model& model,
               const tokenizer::Vocabulary& vocabulary, input::TextEncoder& encoder)
      : options_(options), model_(model), vocabulary_(vocabulary), encoder_(encoder) {}

  /// Returns the next block, or nullopt at the end. Throws Error(environment) if a file cannot be read.
  /// Throws Error(bad_input) for a bad sentence (unless `skip_bad` is set), for a damaged file or too long a
  /// line, and for a corpus without good sentences. A sentence is bad if it is invalid or too long.
  [[nodiscard]] std::optional<CorpusBlock> next() {
    std::optional<CorpusBlock> block = probe_ ? std::nullopt : next_of_corpus();
    if (!block) block = next_of_probe();
    if (block) block->number = number_++;
    return block;
  }

  /// Returns the number of bytes of the files up to the last sentence that was read.
  [[nodiscard]] std::uint64_t bytes() const { return finished_bytes_ + (stream_ ? stream_->position() : 0); }
  /// Returns a hash of all tokens of the corpus so far, without the probe.
  [[nodiscard]] std::uint64_t tokens_hash() const { return tokens_hash_; }
  /// The token frequencies so far. An occurrence that is in several overlapping windows counts once.
  [[nodiscard]] const TokenFrequencies& frequencies() const { return frequencies_; }

 private:
  /// A sentence that is valid for the model, and its windows. If it is not too long, it is its only window.
  struct CheckedSentence {
    input::CorpusSentence sentence;
    std::vector<input::Sequence> windows;
  };
  [[nodiscard]] std::optional<CheckedSentence> next_sentence();
  void add(CheckedSentence checked, CorpusBlock& block);
  [[nodiscard]] std::optional<CorpusBlock> next_of_corpus();
  [[nodiscard]] std::optional<CorpusBlock> next_of_probe();

  const CorpusOptions& options_;
  const model::Model& model_;
  const tokenizer::Vocabulary& vocabulary_;
  input::TextEncoder& encoder_;
  static constexpr std::size_t kUnbounded = std::numeric_limits<std::size_t>::max();
  // largest number of tokens of a sequence
  std::size_t limit_ =
      std::min(options_.max_length.value_or(kUnbounded), model_.config().max_positions.value_or(kUnbounded));
  std::optional<input::SentenceStream> stream_;
  std::size_t next_file_ = 0;
  std::uint64_t finished_bytes_ = 0;        // bytes of the files before the open one
  std::optional<CheckedSentence> pending_;  // the first sentence of the next block
  std::uint64_t number_ = 0;
  std::uint64_t tokens_hash_ = 0;
  TokenFrequencies frequencies_;
  bool any_ = false;                                 // true after the first good sentence
  std::vector<std::int64_t> prefix_;                 // special tokens at the start of the first good sentence
  std::optional<std::vector<ProbeSequence>> probe_;  // created at the end of the corpus
  std::size_t next_probe_ = 0;
};

/// Returns the batch of a block with the ids of the ordinary tokens of each sequence in random order. The
/// order depends only on the seed, the repetition, the number of the block and the index of the sequence.
[[nodiscard]] input::Batch shuffled_tokens(const CorpusBlock& block, std::uint64_t seed,
                                           std::uint64_t repetition);

/// Returns `count` random models: copies in which the values of each floating-point matrix are shuffled
/// within the matrix. Vectors (gains and biases) stay unchanged. The models have the seeds `seed`, `seed` +
/// 1, and so on. `model` and `warnings` must outlive the result.
[[nodiscard]] std::vector<model::Model> random_twins(const model::Model& model, std::size_t count,
                                                     std::uint64_t seed, Warnings& warnings);

}  // namespace attnctl::study
