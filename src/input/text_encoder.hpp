#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "input/batch.hpp"
#include "input/text_input.hpp"
#include "tokenizer/tokenizer.hpp"

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

}  // namespace attnctl
