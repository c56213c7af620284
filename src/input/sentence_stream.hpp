#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "input/batch.hpp"
#include "input/conllu.hpp"
#include "input/sequences.hpp"
#include "input/text_input.hpp"
#include "tokenizer/vocabulary.hpp"

namespace attnctl {

/// One sentence of a corpus.
struct CorpusSentence {
  Sequence sequence;                                 // completed as by finish_batch
  std::string where;                                 // "FILE: line 12", for error texts
  std::shared_ptr<const ConlluSentence> annotation;  // null for plain text
};

/// Reads a corpus sentence by sentence in bounded memory: sentences of a .conllu file, lines of .txt or
/// .jsonl, items of .json (which is read completely, up to 1 GiB).
class SentenceStream {
 public:
  /// Opens a file; "-" is standard input. `encoder` and `vocabulary` must outlive the stream. Throws as
  /// TextBlocks.
  SentenceStream(const std::filesystem::path& path, InputFormat format, TextEncoder& encoder,
                 const Vocabulary& vocabulary);
  ~SentenceStream();
  SentenceStream(SentenceStream&&) noexcept;
  SentenceStream& operator=(SentenceStream&&) noexcept;

  /// Returns the next sentence; nullopt at the end of the file. Throws Error(bad_input) with the line of an
  /// invalid sentence; the next call continues after it.
  [[nodiscard]] std::optional<CorpusSentence> next();

  /// Returns the number of bytes of the file that were read.
  [[nodiscard]] std::uint64_t position() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace attnctl
