#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "input/batch.hpp"
#include "input/sentence_stream.hpp"
#include "input/text_encoder.hpp"
#include "input/text_input.hpp"
#include "model/model.hpp"
#include "study/corpus/token_frequencies.hpp"
#include "study/probe.hpp"
#include "tokenizer/vocabulary.hpp"

namespace attnctl {

/// A file of a corpus; "-" is standard input.
struct CorpusFile {
  std::filesystem::path path;
  InputFormat format = InputFormat::txt;
};

/// What blocks a corpus is cut into: these and the corpus alone decide.
struct CorpusOptions {
  std::vector<CorpusFile> files;
  std::size_t batch_tokens = 256;         // of a block, at most, unless one sentence has more
  std::optional<std::size_t> max_length;  // tokens of a sequence; nullopt: what the model takes
  std::optional<std::size_t> stride;      // longer sentences become windows that begin so far apart
  bool skip_bad = false;                  // else a bad sentence throws
  ProbePlan probe = {};                   // what follows the corpus in blocks of its own
};

struct CorpusCounts {
  std::uint64_t sentences = 0;
  std::uint64_t words = 0;  // of texts
  std::uint64_t tokens = 0;
  std::uint64_t skipped = 0;  // bad sentences

  CorpusCounts& operator+=(const CorpusCounts& other);
};

/// Consecutive sentences, the unit of work: computed whole by one worker.
struct CorpusBlock {
  std::uint64_t number = 0;  // from 0
  Batch batch;
  /// [batch.sequences], the annotation of a treebank's sentence, or of a text with mentions; else null.
  /// Windows of one sentence share it; their Sequence::words are of the whole sentence.
  std::vector<std::shared_ptr<const ConlluSentence>> annotations;
  CorpusCounts counts;
  std::vector<std::string> skipped;  // what was wrong with bad sentences, in their order
  std::vector<ProbeMarks> probes;    // [batch.sequences] of a block of the probe; empty elsewhere
};

/// Cuts a corpus into blocks, one at a time and in order; behind them come those of the probe, whose
/// sequences begin with the special tokens that the first sentence begins with. Sequences are complete (as
/// finish_batch leaves them) and fit the model; a sequence's id is where it stands, "FILE: line 12".
class CorpusBlocks {
 public:
  /// All arguments are borrowed.
  CorpusBlocks(const CorpusOptions& options, const Model& model, const Vocabulary& vocabulary,
               TextEncoder& encoder);

  /// The next block; nullopt at the end. Throws Error: environment where a file cannot be read, bad_input for
  /// a bad sentence (unless they are skipped) and for a corpus without any sentence.
  [[nodiscard]] std::optional<CorpusBlock> next();

  /// Bytes read so far, of all files.
  [[nodiscard]] std::uint64_t position() const;
  /// A hash of all tokens so far; at the end that of the corpus as the tokenizer sees it.
  [[nodiscard]] std::uint64_t tokens_hash() const { return tokens_hash_; }
  /// Those of the sentences so far; tokens of several windows count once.
  [[nodiscard]] const TokenFrequencies& frequencies() const { return frequencies_; }

 private:
  [[nodiscard]] std::optional<CorpusSentence> next_sentence();
  void check(const CorpusSentence& sentence) const;
  void add(CorpusSentence sentence, CorpusBlock& block);
  [[nodiscard]] std::optional<CorpusBlock> next_of_corpus();
  [[nodiscard]] std::optional<CorpusBlock> next_of_probe();

  const CorpusOptions& options_;
  const Model& model_;
  const Vocabulary& vocabulary_;
  TextEncoder& encoder_;
  std::size_t limit_ = 0;  // tokens of a sequence
  std::optional<SentenceStream> stream_;
  std::size_t next_file_ = 0;
  std::uint64_t finished_bytes_ = 0;  // of the files before
  std::optional<CorpusSentence> pending_;
  std::uint64_t number_ = 0;
  std::uint64_t tokens_hash_ = 0;
  TokenFrequencies frequencies_;
  bool any_ = false;
  std::vector<std::int64_t> prefix_;                 // special tokens that the first sentence begins with
  std::optional<std::vector<ProbeSequence>> probe_;  // made when the corpus has ended
  std::size_t next_probe_ = 0;
};

/// A sequence of ids cut to windows of at most `most` tokens that begin `stride` tokens of the text apart;
/// what the tokenizer added at either end stands in every window. Throws Error(bad_input) where that leaves
/// no room, and for a pair of texts.
[[nodiscard]] std::vector<Sequence> windows_of(const Sequence& sequence, std::size_t most,
                                               std::size_t stride);

}  // namespace attnctl
