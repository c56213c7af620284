#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/matrix_view.hpp"
#include "tokenizer/tokenizer.hpp"

namespace attnctl::input {

/// Values [heads or 1, queries, keys], row-major, that are added to the attention scores before the softmax.
/// -inf hides a key.
struct ScoreMask {
  std::size_t heads = 1;  // 1: all heads use the same values
  std::size_t queries = 0;
  std::size_t keys = 0;
  std::vector<float> added;
};

/// One input of a model with its masks. The input is token ids, an image or embeddings. n is the number of
/// queries and m the number of keys.
struct Sequence {
  std::string id;  // id in the input file, or else the input's number; unique in the batch
  std::optional<std::string> text;
  std::optional<std::string> text_pair;      // second text, for a pair of texts
  std::vector<std::string> tokens;           // [n], token strings; empty without vocabulary or for embeddings
  std::vector<std::int64_t> ids;             // [n], token ids; empty for images, embeddings and words
  std::vector<std::int64_t> token_type_ids;  // [n], token types; empty: all 0
  std::vector<std::uint8_t> special;         // [n], 1: the token is special; empty: no token is special
  /// [n], 1: the token separates or ends texts (Vocabulary::is_separator); empty: no token does.
  std::vector<std::uint8_t> separator;

  /// [n], the range of each token in its text, in code points; {0, 0} for tokens that the tokenizer added.
  /// Empty if the input is not text.
  std::vector<tokenizer::TextRange> offsets;
  /// [n], the text of a pair that contains the token: 0 or 1. nullopt for tokens that the tokenizer added.
  /// Empty if the input is not a pair.
  std::vector<std::optional<std::uint8_t>> text_index;
  /// [n], the index in word_texts of each token's word; of a token that covers several words, the first word.
  /// nullopt for special tokens that the tokenizer added and for white space. The words are those of
  /// TextInput::words; without these, white space separates the words. The words of the second text follow
  /// the words of the first. Empty if the input is token ids or token strings: use Vocabulary::words.
  std::vector<std::optional<std::size_t>> words;
  std::vector<std::string> word_texts;  // some may have no tokens, because a tokenizer may drop characters
  /// Range of each word in its text, in code points; empty if `offsets` is empty.
  std::vector<tokenizer::TextRange> word_ranges;
  /// The second or a later word of a token that covers several words. If "cannot" is one token, `words` has
  /// "can" and a SharedToken has "not".
  struct SharedToken {
    std::size_t token = 0;
    std::size_t word = 0;
    friend bool operator==(const SharedToken&, const SharedToken&) = default;
  };
  std::vector<SharedToken> shared_tokens;
  std::size_t truncated = 0;  // number of tokens that --truncate removed

  /// With --by-word, the number of units (words.hpp); `tokens` then has the text of each unit. Otherwise 0.
  std::size_t units = 0;

  /// [n - 1, values of a patch], for an image; the first token is the class token and has no patch.
  OwnedMatrix<float> patches;
  OwnedMatrix<float> embeddings;  // [n, width of the token embeddings], used instead of `ids`
  /// [m, kdim], inputs of the keys in cross-attention. Empty: keys have the same inputs as queries.
  OwnedMatrix<float> key_embeddings;
  /// [m, vdim], inputs of the values in cross-attention. Empty: values have the same inputs as keys.
  OwnedMatrix<float> value_embeddings;

  /// The input of the decoder, for encoder-decoder models; null if there is none. finish_batch() gives it the
  /// same `id`.
  std::shared_ptr<Sequence> target;

  std::vector<std::uint8_t> key_visible;  // [m], 1: queries may attend to this key; empty: all 1
  std::optional<ScoreMask> mask;          // used instead of `causal` and the model's causal mask
  /// True for --mask causal, false for --mask none; nullopt: as in the model.
  std::optional<bool> causal;

  [[nodiscard]] std::size_t queries() const {
    if (units > 0) return units;
    if (patches.rows() > 0) return patches.rows() + 1;
    return ids.empty() ? embeddings.rows() : ids.size();
  }
  [[nodiscard]] std::size_t keys() const {
    return key_embeddings.rows() > 0 ? key_embeddings.rows() : queries();
  }
  /// Returns the sequence whose tokens the model predicts: the target, or this one if there is no target.
  [[nodiscard]] const Sequence& predicted() const { return target ? *target : *this; }
};

/// The inputs of one run, in the order of the input file or the command line.
struct Batch {
  std::vector<Sequence> sequences;

  /// Returns the largest number of keys of one attention, in the inputs and their targets.
  [[nodiscard]] std::size_t most_keys() const {
    std::size_t most = 0;
    for (const Sequence& sequence : sequences)
      most = std::max({most, sequence.keys(), sequence.target ? sequence.target->keys() : 0});
    return most;
  }
};

}  // namespace attnctl::input
