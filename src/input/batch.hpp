#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/matrix_view.hpp"
#include "tokenizer/tokenizer.hpp"

namespace attnctl {

/// A mask over scores: added to them before the softmax, -inf hides. [heads or 1, n, m], row-major.
struct ScoreMask {
  std::size_t heads = 1;  // 1: the same for all heads
  std::size_t queries = 0;
  std::size_t keys = 0;
  std::vector<float> added;
};

/// One input: ids, or embeddings in their place.
struct Sequence {
  std::string id;  // "0", or as the file names it; unique in a batch
  std::optional<std::string> text;
  std::optional<std::string> text_pair;      // the second text of a pair
  std::vector<std::string> tokens;           // [n], empty where no vocabulary is known
  std::vector<std::int64_t> ids;             // [n], empty with embeddings
  std::vector<std::int64_t> token_type_ids;  // [n], empty: all 0
  std::vector<std::uint8_t> special;         // [n], 1 where the token is special; empty: none is
  std::vector<std::uint8_t> separator;       // [n], 1 where it ends a sentence or parts two; empty: none does

  std::vector<TextRange> offsets;  // [n], code points of the token's own text; empty: the input is no text
  std::vector<std::optional<std::uint8_t>>
      text_index;  // [n], of a pair: which text; nullopt for added tokens
  /// [n], the word of each token, an index into word_texts; nullopt for special tokens that the tokenizer
  /// added, and for tokens of white space alone. The words of a text are what white space parts, those of a
  /// treebank its words; the second text's follow the first's. Empty where nothing says what the words are
  /// (ids, tokens): Vocabulary::words then tells them by the marks of the tokens.
  std::vector<std::optional<std::size_t>> words;
  std::vector<std::string> word_texts;  // a word may have no token, where the tokenizer drops its characters
  std::vector<TextRange> word_ranges;   // of each word in its text; empty where `offsets` is
  /// Further words of tokens that share characters with several ("cannot" in one token is of "can", and here
  /// of "not").
  struct SharedToken {
    std::size_t token = 0;
    std::size_t word = 0;
    friend bool operator==(const SharedToken&, const SharedToken&) = default;
  };
  std::vector<SharedToken> shared_tokens;
  std::size_t truncated = 0;  // tokens that --truncate left out

  std::size_t units =
      0;  // --by-word: n, how many words stand in the place of tokens, `tokens` being their texts

  OwnedMatrix<float> patches;           // [n - 1, pixels of one], of an image behind its class token
  OwnedMatrix<float> embeddings;        // [n, d], in place of token embeddings
  OwnedMatrix<float> key_embeddings;    // [m, kdim], cross-attention; empty: the queries' own
  OwnedMatrix<float> value_embeddings;  // [m, vdim]; empty: the keys'

  /// What the decoder is fed, of a model with an encoder and a decoder: tokens and ids, the text where it
  /// came from one. Null: there is none. Its id is the input's.
  std::shared_ptr<Sequence> target;

  std::vector<std::uint8_t> key_visible;  // [m], 1: this key may be attended to; empty: all
  std::optional<ScoreMask> mask;          // in place of the model's own causal mask
  std::optional<bool> causal;             // --mask causal, none: in place of what the model says

  [[nodiscard]] std::size_t queries() const {
    if (units > 0) return units;
    if (patches.rows() > 0) return patches.rows() + 1;
    return ids.empty() ? embeddings.rows() : ids.size();
  }
  [[nodiscard]] std::size_t keys() const {
    return key_embeddings.rows() > 0 ? key_embeddings.rows() : queries();
  }
};

/// Inputs of one run, in their order.
struct Batch {
  std::vector<Sequence> sequences;
};

}  // namespace attnctl
