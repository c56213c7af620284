#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/dtype.hpp"
#include "input/batch.hpp"
#include "input/conllu.hpp"
#include "input/text_input.hpp"
#include "tokenizer/tokenizer.hpp"
#include "tokenizer/vocabulary.hpp"

namespace attnctl {

/// Cuts an encoding to `most` tokens and returns the number of removed tokens. Keeps the tokens that the
/// tokenizer added. Of a pair it shortens the longer text first, like "longest_first" of Hugging Face. Throws
/// Error(bad_input) if `most` leaves no room for text.
std::size_t truncate(Encoding& encoding, std::size_t most);

/// Returns the sequence of a text with ids, types, offsets and words. finish_batch adds the tokens.
[[nodiscard]] Sequence make_text_sequence(TextInput input, const Encoding& encoding);

/// Tokenizes texts with a model's tokenizer, which it opens for the first text.
class TextEncoder {
 public:
  /// `origin` is empty if the model has no tokenizer; `model` is its name in errors.
  TextEncoder(TokenizerOrigin origin, std::string model);

  /// Cuts all later texts to `most` tokens (--truncate).
  void truncate_to(std::size_t most) { most_ = most; }

  /// Throws Error(bad_input) if the tokenizer is missing or has unsupported parts.
  [[nodiscard]] Sequence encode(TextInput input);

  /// Returns null before the first text.
  [[nodiscard]] const Tokenizer* tokenizer() const { return tokenizer_ ? &*tokenizer_ : nullptr; }

 private:
  void open();

  TokenizerOrigin origin_;
  std::string model_;
  std::optional<std::size_t> most_;
  std::optional<Tokenizer> tokenizer_;
  Tokenizer::StatePtr state_;
  Encoding encoding_;
};

/// Parses "101,7592,102". Throws Error(bad_input), with the name `option`, for anything but integers from 0.
[[nodiscard]] std::vector<std::int64_t> parse_ids(std::string_view list, std::string_view option = "--ids");

/// Inserts a special token before the tokens of a sequence.
void put_first(std::int64_t id, Sequence& sequence);

/// The vocabulary for tokens and the tokenizer for text.
struct InputReaders {
  const Vocabulary& vocabulary;
  TextEncoder& encoder;
};

/// Appends the sequences of a file to the batch; returns the number of skipped blank lines. The formats are
/// those of read_text_inputs. JSON objects have "text", "tokens" or "ids", the last two with optional
/// "token_type_ids" and "mask" (1: the key is visible), all with an optional "id". Throws Error(bad_input)
/// with the file `name` and the line or JSON pointer.
std::uint64_t read_sequences(std::string_view text, InputFormat format, const std::string& name,
                             const InputReaders& readers, Batch& batch);

/// Cuts sequences of ids to `most` tokens (--truncate). TextEncoder cuts texts.
void truncate_ids(Batch& batch, std::size_t most);

/// Completes a batch: sets ids (InputIds), tokens, special and separator flags. Throws Error(bad_input) for a
/// repeated id or an empty sequence.
void finish_batch(Batch& batch, const Vocabulary& vocabulary);

/// Assigns ids to inputs (their numbers by default) and detects repeated ids. Stores hashes instead of
/// ids, and nothing before the first explicit id.
class InputIds {
 public:
  /// Returns the id of the next input: `own`, or its number if that is empty. Throws Error(bad_input) if the
  /// id was used before.
  [[nodiscard]] std::string next(std::string_view own);

 private:
  using Key = std::pair<std::uint64_t, std::uint64_t>;  // two hashes of an id; equal keys mean equal ids
  struct KeyHash {
    std::size_t operator()(const Key& key) const { return static_cast<std::size_t>(key.first); }
  };

  std::uint64_t count_ = 0;
  std::uint64_t numbered_ = 0;  // number of inputs before the first explicit id
  std::unordered_set<Key, KeyHash> seen_;
};

/// Returns the sequence of an image: a class token "[CLS]", then the patches "patch R,C" [patches, channels *
/// height * width of a patch]. `pixels` is [channels, height, width].
[[nodiscard]] Sequence make_pixel_sequence(std::span<const float> pixels, const PatchGrid& grid);

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
