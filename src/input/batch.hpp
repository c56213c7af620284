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

/// Values [heads or 1, n, m] that are added to the scores before the softmax; -inf hides a key. Row-major.
struct ScoreMask {
  std::size_t heads = 1;  // 1: the same for all heads
  std::size_t queries = 0;
  std::size_t keys = 0;
  std::vector<float> added;
};

/// One input: token ids, an image or embeddings, with its masks.
struct Sequence {
  std::string id;  // its number in the batch, or the id in the file; unique
  std::optional<std::string> text;
  std::optional<std::string> text_pair;      // the second text of a pair
  std::vector<std::string> tokens;           // [n], empty if no vocabulary is known
  std::vector<std::int64_t> ids;             // [n], empty with embeddings
  std::vector<std::int64_t> token_type_ids;  // [n], empty: all 0
  std::vector<std::uint8_t> special;         // [n], 1: the token is special; empty: none is
  std::vector<std::uint8_t> separator;       // [n], 1: it separates or ends sentences; empty: none does

  std::vector<TextRange> offsets;  // [n], in code points of the token's text; empty: not from text
  std::vector<std::optional<std::uint8_t>>
      text_index;  // [n], which text of a pair; nullopt for tokens that the tokenizer added
  /// [n], the word of each token as an index into word_texts; nullopt for added special tokens and for white
  /// space. White space separates the words of a text; a treebank has its own words. Words of the second text
  /// follow those of the first. Empty for ids and tokens: use Vocabulary::words.
  std::vector<std::optional<std::size_t>> words;
  std::vector<std::string> word_texts;  // words without tokens are possible: a tokenizer may drop characters
  std::vector<TextRange> word_ranges;   // of each word in its text; empty if `offsets` is
  /// A further word of a token that covers several words: for "cannot" in one token, `words` has "can" and
  /// this has "not".
  struct SharedToken {
    std::size_t token = 0;
    std::size_t word = 0;
    friend bool operator==(const SharedToken&, const SharedToken&) = default;
  };
  std::vector<SharedToken> shared_tokens;
  std::size_t truncated = 0;  // number of tokens that --truncate removed

  std::size_t units = 0;  // with --by-word: the number of words, whose texts replace `tokens`; else 0

  OwnedMatrix<float> patches;           // [n - 1, pixels of a patch], of an image; the class token has none
  OwnedMatrix<float> embeddings;        // [n, d], instead of ids
  OwnedMatrix<float> key_embeddings;    // [m, kdim], for cross-attention; empty: the queries' rows
  OwnedMatrix<float> value_embeddings;  // [m, vdim]; empty: the keys' rows

  /// The input of the decoder, for models with an encoder and a decoder; null if there is none. It has the
  /// same id.
  std::shared_ptr<Sequence> target;

  std::vector<std::uint8_t> key_visible;  // [m], 1: this key may be attended to; empty: all
  std::optional<ScoreMask> mask;          // replaces the model's causal mask
  std::optional<bool> causal;             // --mask causal or none; default: as the model

  [[nodiscard]] std::size_t queries() const {
    if (units > 0) return units;
    if (patches.rows() > 0) return patches.rows() + 1;
    return ids.empty() ? embeddings.rows() : ids.size();
  }
  [[nodiscard]] std::size_t keys() const {
    return key_embeddings.rows() > 0 ? key_embeddings.rows() : queries();
  }
};

/// The inputs of one run, in order.
struct Batch {
  std::vector<Sequence> sequences;
};

}  // namespace attnctl
