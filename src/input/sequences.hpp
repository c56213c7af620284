#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/dtype.hpp"
#include "base/error.hpp"
#include "input/batch.hpp"
#include "input/conllu.hpp"
#include "input/json_inputs.hpp"
#include "input/text_input.hpp"
#include "tokenizer/tokenizer.hpp"
#include "tokenizer/vocabulary.hpp"

namespace attnctl::input {

/// Shortens an encoding that has more than `most` tokens to `most` tokens. Returns the number of removed
/// tokens. Keeps the tokens that the tokenizer added. Shortens the longer text of a pair first, like
/// "longest_first" of Hugging Face. Throws Error(bad_input) if no token of the text would be left.
std::size_t truncate(tokenizer::Encoding& encoding, std::size_t most);

/// Returns the sequence of an encoded text or pair. finish_batch() adds token strings and `separator`.
[[nodiscard]] Sequence make_text_sequence(TextInput input, const tokenizer::Encoding& encoding);

/// Counts for warnings about texts.
struct TextChecks {
  std::uint64_t tokens = 0;   // without those that the tokenizer adds
  std::uint64_t unknown = 0;  // see Vocabulary::is_unknown()
  std::uint64_t conllu = 0;   // texts that are the first row of a sentence in CoNLL-U

  void add(std::string_view text, const tokenizer::Encoding& encoding,
           const tokenizer::Vocabulary& vocabulary);
  void add(const TextChecks& other);
  void warn(Warnings& warnings) const;
};

/// Encodes texts with a model's tokenizer. The first text opens the tokenizer.
class TextEncoder {
 public:
  /// `origin` is empty if the model has no tokenizer. `model` is the model's name for errors. `start_token`
  /// is the token that the decoder of an encoder-decoder model reads first.
  TextEncoder(tokenizer::TokenizerOrigin origin, std::string model,
              std::optional<std::int64_t> start_token = std::nullopt)
      : origin_(std::move(origin)), model_(std::move(model)), start_token_(start_token) {}

  /// Returns the sequence of a text. Throws Error(bad_input) if the model has no tokenizer or its tokenizer
  /// is not supported, and the errors of Tokenizer::encode() and truncate().
  [[nodiscard]] Sequence encode(TextInput input);
  /// Returns the sequence that a decoder reads for the text of a target: its start token, then the tokens of
  /// the text. Throws the errors of encode(), and Error(bad_input) if there is no start token.
  [[nodiscard]] Sequence encode_target(std::string text);

  [[nodiscard]] bool has_tokenizer() const { return !origin_.empty(); }
  /// Returns an encoder with the same tokenizer that another thread may use at the same time.
  [[nodiscard]] TextEncoder separate() const {
    TextEncoder copy = *this;
    if (tokenizer_) copy.state_ = tokenizer_->make_state();
    copy.checks = {};
    return copy;
  }

  std::optional<std::size_t> most;  // if set, encode() shortens texts of more tokens to this number
  TextChecks checks;                // counts of all texts that were encoded so far

 private:
  tokenizer::TokenizerOrigin origin_;
  std::string model_;
  std::optional<std::int64_t> start_token_;
  std::optional<tokenizer::Tokenizer> tokenizer_;
  tokenizer::Tokenizer::StatePtr state_;
  tokenizer::Encoding encoding_;
};

/// Parses a list of token ids such as "101,7592,102". Throws Error(bad_input) if an item is not a
/// non-negative integer. `option` names the option in the message.
[[nodiscard]] std::vector<std::int64_t> parse_ids(std::string_view list, std::string_view option = "--ids");

/// Inserts the special token `id` before the tokens of the sequence of a text. Must be called before
/// finish_batch().
void put_first(std::int64_t id, Sequence& sequence);

/// Returns the position of the last token of a sequence that is not a token that the tokenizer appended to
/// the text; 0 if the text has no token. The prediction at this position is that of the token after the text.
[[nodiscard]] std::size_t last_of_text(const Sequence& sequence);

/// Appends the sequences of a file's content to the batch. Returns the number of blank lines in the format
/// txt, otherwise 0. The formats are those of read_text_inputs(), but a JSON object has one of the keys
/// "text", "tokens" and "ids". Objects with "tokens" or "ids" may have "id", "token_type_ids" and "mask" (1:
/// queries may attend to the token). Every object may have a target, see JsonInput::target_text(). Throws
/// Error(bad_input) if the content is invalid.
std::uint64_t read_sequences(const TextBlock& file, InputFormat format,
                             const tokenizer::Vocabulary& vocabulary, TextEncoder& encoder, Batch& batch);

/// Shortens sequences of more than `most` token ids to `most` ids (--truncate). Does not shorten embeddings
/// and images. For texts, use TextEncoder::most.
void truncate_ids(Batch& batch, std::size_t most);

/// Completes the sequences of a batch: sets the `id` (see InputIds) and, if the sequence has token ids, the
/// token strings and the flags `special` and `separator`, also of the target. Throws Error(bad_input) if an
/// id occurs twice or a sequence is empty.
void finish_batch(Batch& batch, const tokenizer::Vocabulary& vocabulary);

/// Assigns an id to each input and detects repeated ids. The default id is the number of the input. Stores
/// hashes instead of ids, and stores nothing until an input has its own id.
class InputIds {
 public:
  /// Returns the id of the next input: `own`, or the input's number if `own` is empty. Throws
  /// Error(bad_input) if the id was used before.
  [[nodiscard]] std::string next(std::string_view own);

 private:
  std::uint64_t count_ = 0;
  std::uint64_t numbered_ = 0;  // number of inputs before the first input with its own id
  /// Two hashes of each id after the first `numbered_` ids; ids with equal hashes count as equal.
  std::set<std::pair<std::uint64_t, std::uint64_t>> seen_;
};

/// Returns the sequence of an image. `pixels` is [channels, height, width]. The first token is the class
/// token "[CLS]". One token "patch R,C" per patch follows, where R is the row and C the column. A row of
/// Sequence::patches has channels * patch height * patch width values.
[[nodiscard]] Sequence make_pixel_sequence(std::span<const float> pixels, const PatchGrid& grid);

struct CorpusSentence {
  Sequence sequence;  // complete, as after finish_batch(); `id` is "0" if the sentence has no id
  std::string where;  // position such as "FILE: line 12", for errors
  /// Annotation of a CoNLL-U sentence or of a JSON object with "mentions"; otherwise null.
  std::shared_ptr<const ConlluSentence> annotation;
};

/// Reads a corpus sentence by sentence. A sentence is a sentence of a .conllu file, a line of a .txt or
/// .jsonl file, or an item of a .json file. Skips blank lines. Memory use does not grow with the file, except
/// that a .json file (at most 1 GiB) is read completely.
class SentenceStream {
 public:
  /// Opens a file; "-" is standard input. `encoder` and `vocabulary` must outlive the stream. Throws
  /// Error(environment) if the file cannot be read, and Error(bad_input) if a .json file is not valid JSON or
  /// is larger than 1 GiB.
  SentenceStream(const std::filesystem::path& path, InputFormat format, TextEncoder& encoder,
                 const tokenizer::Vocabulary& vocabulary);
  /// Returns the next sentence; nullopt at the end of the file. Throws Error(bad_input) with its position if
  /// the sentence is invalid; the next call continues after this sentence. Also throws the errors of
  /// TextBlocks::next(), after which the stream must not be used.
  [[nodiscard]] std::optional<CorpusSentence> next();

  /// Returns the approximate number of bytes of the file up to the end of the last returned sentence. At the
  /// end, it is the length of the file; for a .json file on standard input, it is always 0.
  [[nodiscard]] std::uint64_t position() const {
    return blocks_ ? blocks_->stream().position(block_.place.offset)
                   : bytes_ * item_ / std::max<std::size_t>(items_, 1);
  }
  /// Returns whether next() may be called again after it threw.
  [[nodiscard]] bool usable() const { return usable_; }

 private:
  [[nodiscard]] std::optional<std::string> take_lines(TextPlace& place);
  [[nodiscard]] std::optional<CorpusSentence> next_lines();
  [[nodiscard]] std::optional<CorpusSentence> next_item();
  void read_object(const JsonInput& input, CorpusSentence& sentence) const;

  InputFormat format_;
  TextEncoder* encoder_;
  const tokenizer::Vocabulary* vocabulary_;
  std::optional<TextBlocks> blocks_;                // nullopt for a .json file
  std::optional<nlohmann::ordered_json> document_;  // content of a .json file; otherwise nullopt
  TextBlock block_;                                 // the part of the current block that was not used yet
  bool usable_ = true;                              // false at the end or after an error of `blocks_`
  std::size_t item_ = 0;                            // index of the next item of `document_`
  std::size_t items_ = 0;                           // number of items of `document_`
  std::uint64_t bytes_ = 0;                         // length of a .json file
};

}  // namespace attnctl::input
