#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/parts/part_config.hpp"
#include "tokenizer/parts/piece_text.hpp"
#include "tokenizer/tokenizer.hpp"
#include "tokenizer/vocabulary.hpp"

// The parts of tokenizer.json other than its model. The factories throw Error(bad_input) if a part is
// damaged or not supported.
namespace attnctl {

// Normalizers (normalizers.cpp).
[[nodiscard]] TextStep make_normalizer(const PartConfig& config);

/// A precompiled charsmap of SentencePiece: a map from strings to replacements. Layout (little-endian): the
/// size of a trie in bytes (32 bits), the units of the trie (32 bits each), then the replacements, each with
/// a final NUL. Bits of a unit: 0-7 label, 8 has a leaf, 9 offset in units of 256, 10-30 offset to its
/// children. Bits 0-30 of a leaf: begin of its replacement.
class Charsmap {
 public:
  /// Reads a string of base64, or bytes. Throws Error(bad_input) at `where`.
  explicit Charsmap(const PartConfig& where);

  /// Returns the replacement of the shortest prefix of `text` that is in the map; nullopt if there is none.
  /// Throws Error(bad_input) if an offset is outside of the file.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view text) const;

 private:
  [[nodiscard]] std::uint32_t unit(std::size_t at) const;
  [[noreturn]] void damaged() const;

  std::string place_;  // file and pointer, for errors
  std::vector<std::uint32_t> units_;
  std::string replacements_;
};

// Added tokens (added_tokens.cpp).

/// A member of /added_tokens in tokenizer.json.
struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  bool special = false;
  bool normalized = false;
  bool lstrip = false;
  bool rstrip = false;
  bool single_word = false;
};

/// Steps that cut out added tokens, leftmost-longest.
struct AddedTokens {
  /// `normalizer` may be empty; it normalizes the content of `normalized` tokens.
  AddedTokens(const std::vector<AddedToken>& tokens, const TextStep& normalizer);

  TextStep cut_raw;         // the tokens that are not normalized; for the raw text
  TextStep cut_normalized;  // the normalized tokens; for the normalized text
};

/// Reads /added_tokens. Throws Error(bad_input).
[[nodiscard]] std::vector<AddedToken> read_added_tokens(const PartConfig& document);

// Pre-tokenizers (pre_tokenizers.cpp).
[[nodiscard]] TextStep make_pre_tokenizer(const PartConfig& config);

/// Returns a step that runs the parts under a key in order.
[[nodiscard]] TextStep in_sequence(const PartConfig& config, std::string_view key,
                                   TextStep (*make)(const PartConfig& config));

/// Returns the string under a key, which must be one code point. Throws Error(bad_input).
[[nodiscard]] std::string read_character(const PartConfig& config, std::string_view key);

// Post-processors (post_processors.cpp).

/// Number of characters at the ends of a token that are white space, or represent a space in byte-level
/// vocabularies.
struct EdgeSpace {
  std::uint32_t leading = 0;
  std::uint32_t trailing = 0;
};
[[nodiscard]] EdgeSpace edge_space(std::string_view token);

/// The tokens of a text on their way through the post-processors.
struct TokenizedText {
  /// A token whose string is its text instead of the vocabulary's: an added token that was found, with white
  /// space around it, or the token of TokenModel::verbatim().
  struct Found {
    std::size_t token = 0;  // index in the encoding
    EdgeSpace space;
  };

  Encoding encoding;
  std::vector<Found> found;  // in ascending order
};

/// Adds special tokens. Takes one text, or two for a pair, and may leave any number; the caller joins them.
using PostProcessor = std::function<void(std::vector<TokenizedText>&)>;
/// `vocabulary` must outlive the post-processor.
[[nodiscard]] PostProcessor make_post_processor(const PartConfig& config, const Vocabulary& vocabulary);

// Decoders (decoders.cpp).

/// Returns the text of a token in the middle of a text, both as UTF-8. Bytes that are not a whole character
/// become <0xE2>.
using Decoder = std::function<std::string(std::string_view)>;
[[nodiscard]] Decoder make_decoder(const PartConfig& config);

/// Byte-level vocabularies write each byte of a text as one visible character: printable characters of
/// Latin-1 as themselves, the other bytes in order as U+0100 and following (a space is U+0120).
namespace byte_level {

/// The character of each byte.
inline constexpr std::array<char32_t, 256> kCharacters = [] {
  std::array<char32_t, 256> table{};
  char32_t next = 0x100;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    table[byte] = printable ? byte : next++;
  }
  return table;
}();

/// The character of a space.
inline constexpr char32_t kSpace = kCharacters[0x20];

/// Replaces each byte of the text pieces by its character.
void write(PieceText& text);

}  // namespace byte_level
}  // namespace attnctl
