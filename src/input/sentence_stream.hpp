#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "input/batch.hpp"
#include "input/conllu.hpp"
#include "input/text_blocks.hpp"
#include "input/text_input.hpp"
#include "input/text_sequence.hpp"
#include "tokenizer/vocabulary.hpp"

namespace attnctl {

/// One sentence of a corpus.
struct CorpusSentence {
  Sequence sequence;  // tokenized; special and separator flags as finish_batch gives them
  std::string where;  // "FILE: line 12", for messages
  std::shared_ptr<const ConlluSentence> annotation;  // of a treebank, or a text with mentions; else null
};

/// The sentences of a file one after the other, in bounded memory: of a .conllu a sentence, of a .txt or
/// .jsonl a line, of a .json (which is read whole, at most 1 GiB) an item.
class SentenceStream {
 public:
  /// "-" is standard input. `encoder` and `vocabulary` are borrowed. Throws Error as TextBlocks.
  SentenceStream(const std::filesystem::path& path, InputFormat format, TextEncoder& encoder,
                 const Vocabulary& vocabulary);
  ~SentenceStream();
  SentenceStream(SentenceStream&&) noexcept;
  SentenceStream& operator=(SentenceStream&&) noexcept;

  /// The next sentence; nullopt at the end of the file. Throws Error(bad_input) for a bad one, which names
  /// its line, and may then be called again: the bad one is left out.
  [[nodiscard]] std::optional<CorpusSentence> next();

  /// Bytes of the file that were taken so far.
  [[nodiscard]] std::uint64_t position() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace attnctl
