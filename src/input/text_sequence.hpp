#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "input/batch.hpp"
#include "input/text_input.hpp"
#include "tokenizer/tokenizer.hpp"

namespace attnctl {

/// Cuts an encoding to `most` tokens and returns how many it loses. What the tokenizer added stays; of a pair
/// the longer text loses first, as Hugging Face's "longest_first" has it. Throws Error(bad_input) where
/// `most` has no room for what the tokenizer adds.
std::size_t truncate(Encoding& encoding, std::size_t most);

/// The sequence of a text: ids, types, offsets, and the word of every token. Tokens are named by
/// finish_batch.
[[nodiscard]] Sequence make_text_sequence(TextInput input, const Encoding& encoding);

/// Makes sequences of texts with a model's own tokenizer, which is opened when the first text comes.
class TextEncoder {
 public:
  /// `origin`: empty where the model has no tokenizer; `model` is for errors.
  TextEncoder(TokenizerOrigin origin, std::string model);

  /// From now on texts are cut to so many tokens (--truncate).
  void truncate_to(std::size_t most) { most_ = most; }

  /// Throws Error(bad_input): no tokenizer, or one with unsupported parts.
  [[nodiscard]] Sequence encode(TextInput input);

  /// Null where no text has come.
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
