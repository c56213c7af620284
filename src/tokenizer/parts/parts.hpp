#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "tokenizer/parts/part_config.hpp"
#include "tokenizer/tokenizer.hpp"
#include "tokenizer/unicode/unicode.hpp"
#include "tokenizer/vocabulary.hpp"

// The parts of tokenizer.json other than its model. The factories throw Error(bad_input) if a part is
// damaged or not supported.
namespace attnctl {

/// A text on its way through the tokenizer: its current bytes, the pieces it is cut into, and the code points
/// of the original that each byte came from. Keeps its buffers from text to text.
class PieceText {
 public:
  /// Bytes [begin, end) of text().
  struct Piece {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    std::int32_t token = -1;  // id of an added token, which later steps keep; -1: text

    [[nodiscard]] bool is_text() const { return token < 0; }
    [[nodiscard]] std::size_t size() const { return end - begin; }
  };

  /// Receives the new content of a piece.
  class Output {
   public:
    explicit Output(PieceText& owner) : owner_(owner) {}
    /// Copies bytes [begin, end) of the old text with their origins.
    void copy(std::size_t begin, std::size_t end) {
      owner_.next_text_.append(owner_.text_, begin, end - begin);
      const auto first = owner_.origin_.begin();
      owner_.next_origin_.insert(owner_.next_origin_.end(), first + static_cast<std::ptrdiff_t>(begin),
                                 first + static_cast<std::ptrdiff_t>(end));
    }
    /// Copies bytes [begin, end) of the old text, each mapped by `map(byte)`.
    template <typename Map>
    void copy_mapped(std::size_t begin, std::size_t end, Map map) {
      const std::size_t size = owner_.next_text_.size();
      copy(begin, end);
      for (std::size_t i = size; i < owner_.next_text_.size(); ++i) {
        owner_.next_text_[i] = map(owner_.next_text_[i]);
      }
    }
    /// Appends UTF-8 with one origin. Throws Error(limit) if the text becomes far longer than the original.
    void put(std::string_view text, TextRange origin) {
      if (owner_.next_text_.size() + text.size() > owner_.limit_) owner_.refuse_growth();
      owner_.next_text_.append(text);
      owner_.next_origin_.insert(owner_.next_origin_.end(), text.size(), origin);
    }

   private:
    PieceText& owner_;
  };

  /// Receives the parts of a piece.
  class Cuts {
   public:
    Cuts(std::vector<Piece>& pieces, std::uint32_t base) : pieces_(pieces), base_(base) {}
    /// Adds bytes [begin, end) of the piece. Parts come in ascending order; empty parts and bytes between
    /// parts are dropped.
    void add(std::size_t begin, std::size_t end, std::int32_t token = -1) {
      if (begin == end) return;
      pieces_.push_back(
          {base_ + static_cast<std::uint32_t>(begin), base_ + static_cast<std::uint32_t>(end), token});
    }

   private:
    std::vector<Piece>& pieces_;
    std::uint32_t base_;
  };

  /// Starts a text of well-formed UTF-8 below 4 GiB: one piece, or none if it is empty.
  void assign(std::string_view original) {
    text_.assign(original);
    limit_ = std::min(kSmallestLimit + kLargestGrowth * original.size(), kLargestText);
    origin_.resize(original.size());
    pieces_.clear();
    std::uint32_t code_points = 0;
    for (std::size_t i = 0; i < original.size();) {
      const auto lead = static_cast<unsigned char>(original[i]);
      const std::size_t length = lead < 0x80 ? 1U : lead < 0xE0 ? 2U : lead < 0xF0 ? 3U : 4U;
      for (std::size_t k = 0; k < length; ++k) origin_[i + k] = {code_points, code_points + 1};
      ++code_points;
      i += length;
    }
    if (!original.empty()) pieces_.push_back({0, static_cast<std::uint32_t>(original.size())});
  }

  [[nodiscard]] std::string_view text() const { return text_; }
  [[nodiscard]] std::string_view text(const Piece& piece) const {
    return text().substr(piece.begin, piece.size());
  }
  [[nodiscard]] std::span<const TextRange> origin() const { return origin_; }  // [bytes of text()]
  [[nodiscard]] std::span<const Piece> pieces() const { return pieces_; }
  /// Returns the origin of bytes [begin, end) of text(), which are not empty.
  [[nodiscard]] TextRange origin(std::size_t begin, std::size_t end) const {
    return {origin_[begin].begin, origin_[end - 1].end};
  }
  /// Returns the empty range before a piece, the origin of text inserted there.
  [[nodiscard]] TextRange origin_before(const Piece& piece) const {
    const std::uint32_t begin = origin_[piece.begin].begin;
    return {begin, begin};
  }

  /// Replaces each text piece by the output of `write(piece, output)`. Drops pieces that become empty.
  template <typename Write>
  void rewrite(Write&& write) {
    next_text_.clear();
    next_origin_.clear();
    next_pieces_.clear();
    Output output(*this);
    for (const Piece& piece : pieces_) {
      const auto begin = static_cast<std::uint32_t>(next_text_.size());
      if (piece.is_text()) {
        write(piece, output);
      } else {
        output.copy(piece.begin, piece.end);
      }
      const auto end = static_cast<std::uint32_t>(next_text_.size());
      if (end > begin) next_pieces_.push_back({begin, end, piece.token});
    }
    text_.swap(next_text_);
    origin_.swap(next_origin_);
    pieces_.swap(next_pieces_);
  }

  /// Replaces each text piece by the parts that `cut(text of the piece, cuts)` adds.
  template <typename Cut>
  void cut(Cut&& cut) {
    next_pieces_.clear();
    for (const Piece& piece : pieces_) {
      if (!piece.is_text()) {
        next_pieces_.push_back(piece);
        continue;
      }
      Cuts cuts(next_pieces_, piece.begin);
      cut(text(piece), cuts);
    }
    pieces_.swap(next_pieces_);
  }

 private:
  // No useful tokenizer makes a text 64 times longer; steps that each double the text would fill the memory.
  static constexpr std::size_t kSmallestLimit = std::size_t{1} << 20;
  static constexpr std::size_t kLargestGrowth = 64;
  static constexpr std::size_t kLargestText = std::numeric_limits<std::uint32_t>::max();  // for 32-bit pieces

  [[noreturn]] void refuse_growth() const {
    fail(Status::limit,
         "text: the parts of the tokenizer make more than {} bytes of it; check tokenizer.json", limit_);
  }

  std::size_t limit_ = 0;  // largest size of the text in bytes
  std::string text_, next_text_;
  std::vector<TextRange> origin_, next_origin_;  // [bytes of the text]
  std::vector<Piece> pieces_, next_pieces_;
};

/// Finds the origins of changed characters, from left to right in one piece.
class OriginCursor {
 public:
  OriginCursor(const PieceText& text, const PieceText::Piece& piece)
      : text_(text), piece_(piece), at_(piece.begin) {}

  [[nodiscard]] std::size_t at() const { return at_; }  // byte of the text
  void move_to(std::size_t at) { at_ = at; }

  /// Returns the origin of the next ChangedCharacter and skips the characters that it replaces.
  TextRange take(int change) {
    if (change > 0) return at_ == piece_.begin ? text_.origin_before(piece_) : text_.origin()[at_ - 1];
    const TextRange origin = text_.origin()[at_ < piece_.end ? at_ : piece_.end - std::size_t{1}];
    for (int replaced = 1 - change; replaced > 0 && at_ < piece_.end; --replaced) {
      unicode::next(text_.text(), at_);
    }
    return origin;
  }

 private:
  const PieceText& text_;
  const PieceText::Piece& piece_;
  std::size_t at_;
};

/// A normalizer or pre-tokenizer: rewrites or cuts the text pieces. Safe to call from several threads.
using TextStep = std::function<void(PieceText&)>;

// The parts of tokenizer.json other than its model. The factories throw Error(bad_input) if a part is
// damaged or not supported.

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
