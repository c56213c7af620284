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

// The parts of a tokenizer (normalizer, pre-tokenizer, ...) that tokenizer.json describes, except the model.
// The make_* functions throw Error(bad_input) if a part is invalid or not supported.
namespace attnctl::tokenizer {

/// A text that the tokenizer is processing. Holds the current bytes of the text, the pieces that the text is
/// cut into, and the origin of each byte: the range of code points in the original text that the byte was
/// made from. Keeps its buffers for the next text.
class PieceText {
 public:
  /// A piece of the text: bytes [begin, end) of text().
  struct Piece {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    std::int32_t token = -1;  // id of an added token, whose piece later steps do not change; -1: other text

    [[nodiscard]] bool is_text() const { return token < 0; }
  };

  /// Receives the new content of a piece from the callback of rewrite().
  struct Output {
    PieceText& owner;

    /// Copies bytes [begin, end) of the old text with their origins.
    void copy(std::size_t begin, std::size_t end) {
      owner.next_text_.append(owner.text_, begin, end - begin);
      const auto first = owner.origin_.begin();
      owner.next_origin_.insert(owner.next_origin_.end(), first + static_cast<std::ptrdiff_t>(begin),
                                first + static_cast<std::ptrdiff_t>(end));
    }
    /// Copies bytes like copy(), but replaces each byte by map(byte).
    template <typename Map>
    void copy_mapped(std::size_t begin, std::size_t end, Map map) {
      const std::size_t size = owner.next_text_.size();
      copy(begin, end);
      for (std::size_t i = size; i < owner.next_text_.size(); ++i) {
        owner.next_text_[i] = map(owner.next_text_[i]);
      }
    }
    /// Appends UTF-8; all bytes have the origin `origin`. Throws Error(limit) if the new text exceeds limit_.
    void put(std::string_view text, TextRange origin) {
      if (owner.next_text_.size() + text.size() > owner.limit_) owner.refuse_growth();
      owner.next_text_.append(text);
      owner.next_origin_.insert(owner.next_origin_.end(), text.size(), origin);
    }
  };

  /// Receives the parts of a piece from the callback of cut().
  struct Cuts {
    std::vector<Piece>& pieces;
    std::uint32_t base;  // begin of the piece

    /// Adds the part [begin, end) of the piece, in bytes from the beginning of the piece. Parts must be added
    /// in ascending order. Empty parts, and bytes that are in no part, are dropped.
    void add(std::size_t begin, std::size_t end, std::int32_t token = -1) {
      if (begin == end) return;
      pieces.push_back(
          {base + static_cast<std::uint32_t>(begin), base + static_cast<std::uint32_t>(end), token});
    }
  };

  /// Starts a new text, well-formed UTF-8 of less than 4 GiB: one piece, or no piece if it is empty.
  void assign(std::string_view original) {
    text_.assign(original);
    limit_ = largest_size(original.size());
    work_ = 0;
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
    return text().substr(piece.begin, piece.end - piece.begin);
  }
  [[nodiscard]] std::span<const Piece> pieces() const { return pieces_; }
  [[nodiscard]] std::span<const TextRange> origin() const { return origin_; }  // [bytes of text()]
  /// Returns the origin of bytes [begin, end) of text(). The range must not be empty.
  [[nodiscard]] TextRange origin(std::size_t begin, std::size_t end) const {
    return {origin_[begin].begin, origin_[end - 1].end};
  }
  /// Returns the origin for text that is inserted before a piece, an empty range.
  [[nodiscard]] TextRange origin_before(const Piece& piece) const {
    const std::uint32_t begin = origin_[piece.begin].begin;
    return {begin, begin};
  }

  /// Replaces the content of each piece that is not an added token by what write(piece, output) passes to
  /// `output`. Drops pieces that become empty, and bytes that are in no piece. Throws Error(limit) if the new
  /// text is far longer than the original text, or if all steps together process too many bytes.
  template <typename Write>
  void rewrite(Write&& write) {
    count_work();
    next_text_.clear();
    next_origin_.clear();
    next_pieces_.clear();
    Output output{*this};
    for (const Piece& piece : pieces_) {
      const auto begin = static_cast<std::uint32_t>(next_text_.size());
      if (piece.is_text()) {
        write(piece, output);
      } else {
        output.copy(piece.begin, piece.end);
      }
      if (next_text_.size() > limit_) refuse_growth();
      const auto end = static_cast<std::uint32_t>(next_text_.size());
      if (end > begin) next_pieces_.push_back({begin, end, piece.token});
    }
    text_.swap(next_text_);
    origin_.swap(next_origin_);
    pieces_.swap(next_pieces_);
  }

  /// Replaces each piece that is not an added token by the parts that cut(its text, cuts) adds to `cuts`.
  /// Throws Error(limit) if all steps together process too many bytes.
  template <typename Cut>
  void cut(Cut&& cut) {
    count_work();
    next_pieces_.clear();
    for (const Piece& piece : pieces_) {
      if (!piece.is_text()) {
        next_pieces_.push_back(piece);
        continue;
      }
      Cuts cuts{next_pieces_, piece.begin};
      cut(text(piece), cuts);
    }
    pieces_.swap(next_pieces_);
  }

  /// Returns the largest size in bytes of a text with `size` bytes after any step.
  [[nodiscard]] static std::size_t largest_size(std::size_t size) {
    return std::min(kSmallestLimit + kLargestGrowth * size, kLargestText);
  }
  [[nodiscard]] std::size_t work() const { return work_; }  // number of bytes that the steps processed

 private:
  // Limits of the text's size in bytes. No useful tokenizer makes a text more than 64 times longer, but many
  // steps that each double the text would fill the memory. The limit of work is 4 texts of the largest size,
  // so that 256 steps on a long text are allowed.
  static constexpr std::size_t kSmallestLimit = std::size_t{1} << 20;
  static constexpr std::size_t kLargestGrowth = 64;
  static constexpr std::size_t kLargestText = std::numeric_limits<std::uint32_t>::max();  // see Piece
  static constexpr std::size_t kLargestWork = 4;

  [[noreturn]] void refuse_growth() const {
    fail(Status::limit,
         "text: the tokenizer makes it longer than {} bytes; check the normalizer and the pre-tokenizer",
         limit_);
  }

  void count_work() {
    work_ += text_.size();
    if (work_ <= kLargestWork * limit_) return;
    fail(
        Status::limit,
        "text: the normalizer and the pre-tokenizer together process more than {} bytes; check the number of "
        "their steps",
        kLargestWork * limit_);
  }

  std::size_t limit_ = 0;  // largest size of the text in bytes
  std::size_t work_ = 0;   // sum of the sizes of the text before each step
  std::string text_, next_text_;
  std::vector<TextRange> origin_, next_origin_;  // [bytes of the text], origin of each byte
  std::vector<Piece> pieces_, next_pieces_;
};

/// A function that rewrites or cuts the pieces of a text: a normalizer, a pre-tokenizer or a step of
/// make_added_tokens(). Several threads may call it at once with different texts.
using TextStep = std::function<void(PieceText&)>;

// Normalizers (normalizers.cpp).
[[nodiscard]] TextStep make_normalizer(const PartConfig& config);

/// A precompiled charsmap of SentencePiece: a map from strings to their replacements. The charsmap contains
/// the size of a trie in bytes (32 bits), the nodes of the trie (32 bits each), and the replacements, each
/// with a final NUL byte. All numbers are little-endian. Bits 0-7 of a node are its label. Bit 8 is 1 if the
/// node has a leaf. Bits 10-30 are the offset to its children, in nodes, or in 256 nodes if bit 9 is 1. Bits
/// 0-30 of a leaf are the byte offset of its replacement.
class Charsmap {
 public:
  /// Reads a charsmap from a JSON string in base64 or from a JSON byte string. Throws Error(bad_input), with
  /// where.place() in the message, if the charsmap is invalid.
  explicit Charsmap(const PartConfig& where);

  /// Returns the replacement of the shortest prefix of `text` that the map contains; nullopt if there is
  /// none. Throws Error(bad_input) if an offset is outside of the charsmap or inside of a character.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view text) const;

 private:
  [[noreturn]] void damaged() const;

  std::string place_;  // "FILE: POINTER", for errors
  std::vector<std::uint32_t> units_;
  std::string replacements_;
};

// Added tokens (added_tokens.cpp).

/// Returns a step that makes each added token in a text a separate piece. Finds only tokens whose
/// `normalized` equals `are_normalized`: tokens with false in the text before normalization, the others in
/// the normalized text. `normalizer`, which may be an empty function, is applied to the content of the
/// latter. The contents must differ and not be empty; of tokens with equal normalized contents, the first is
/// found. At each position, the longest added token is found. A token with the flag `single_word` is not
/// found next to a word character. The piece of a token with the flag `lstrip` or `rstrip` includes the white
/// space before or after the token.
[[nodiscard]] TextStep make_added_tokens(const std::vector<AddedToken>& tokens, bool are_normalized,
                                         const TextStep& normalizer);

// Pre-tokenizers (pre_tokenizers.cpp).
[[nodiscard]] TextStep make_pre_tokenizer(const PartConfig& config);

/// Returns a function that calls several parts with its argument, in order. The array under `key` describes
/// the parts, and `make` makes each.
template <typename Make>
auto in_sequence(const PartConfig& config, std::string_view key, Make make) {
  std::vector<decltype(make(config))> parts;
  for (const PartConfig& part : config.objects(key)) parts.push_back(make(part));
  return [parts = std::move(parts)](auto& text) {
    for (const auto& part : parts) part(text);
  };
}

/// Returns the string under a key. Throws Error(bad_input) if the string is not exactly one code point.
[[nodiscard]] std::string read_character(const PartConfig& config, std::string_view key);

// Post-processors (post_processors.cpp).

/// The numbers of white-space characters at the beginning and at the end of a token. The character for a
/// space in byte-level vocabularies counts as white space.
struct EdgeSpace {
  std::uint32_t leading = 0;
  std::uint32_t trailing = 0;
};
[[nodiscard]] EdgeSpace edge_space(std::string_view token);

/// The tokens of a text that the post-processors are processing.
struct TokenizedText {
  /// A token whose string is a part of the input text, not the vocabulary's string: an added token with the
  /// white space around it, or the token TokenModel::verbatim().
  struct VerbatimToken {
    std::size_t token = 0;  // index of the token in `encoding`
    EdgeSpace space;
  };

  Encoding encoding;
  std::vector<VerbatimToken> found;  // in ascending order of the token index
};

/// A function that may add special tokens and trim the offsets of tokens. The vector has one text, or two for
/// a pair. The function may change the number of elements; the caller joins them.
using PostProcessor = std::function<void(std::vector<TokenizedText>&)>;
/// Makes a post-processor. `vocabulary` must outlive the post-processor.
[[nodiscard]] PostProcessor make_post_processor(const PartConfig& config, const Vocabulary& vocabulary);

/// Throws Error(bad_input) if the section "decoder" of tokenizer.json has an unsupported type or invalid
/// options. attnctl does not use the decoder otherwise, because it decodes no tokens.
void check_decoder(const PartConfig& config);

/// The visible character that represents each byte of a text in byte-level vocabularies. A byte that is a
/// visible Latin-1 character is represented by this character. The other bytes are represented by U+0100,
/// U+0101, ... in order; a space is U+0120.
inline constexpr std::array<char32_t, 256> kByteCharacters = [] {
  std::array<char32_t, 256> table{};
  char32_t next = 0x100;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    table[byte] = printable ? byte : next++;
  }
  return table;
}();

/// Replaces each byte by the character that represents it, except in added tokens.
void write_byte_characters(PieceText& text);

}  // namespace attnctl::tokenizer
