#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/text.hpp"
#include "tokenizer/parts/parts.hpp"
#include "tokenizer/parts/piece_text.hpp"
#include "tokenizer/unicode/normal_form.hpp"
#include "tokenizer/unicode/unicode.hpp"

namespace attnctl {
namespace {

constexpr std::string_view kBase64Digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::size_t kUnitSize = sizeof(std::uint32_t);
static_assert(std::endian::native == std::endian::little, "units are stored in little-endian order");

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::size_t padding = 0;
  while (padding < 2 && text.size() > padding && text[text.size() - 1 - padding] == '=') ++padding;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t digit = i + padding < text.size() ? kBase64Digits.find(text[i]) : 0;
    if (digit == std::string_view::npos) return std::nullopt;
    bits = bits << 6U | static_cast<std::uint32_t>(digit);
    if (i % 4 != 3) continue;
    for (const unsigned shift : {16U, 8U, 0U}) bytes += static_cast<char>(bits >> shift & 0xFFU);
    bits = 0;
  }
  bytes.resize(bytes.size() - padding);
  return bytes;
}

/// Returns the bytes of a charsmap; nullopt if they are not base64.
std::optional<std::string> read_bytes(const PartConfig::Json& node) {
  if (!node.is_binary()) return from_base64(node.get_ref<const std::string&>());
  const auto& bytes = node.get_binary();
  return std::string(bytes.begin(), bytes.end());
}

// Fields of a unit.
constexpr bool has_leaf(std::uint32_t unit) {
  return (unit >> 8U & 1U) != 0;
}
constexpr std::uint32_t leaf_value(std::uint32_t unit) {
  return unit & 0x7FFFFFFFU;
}
/// Returns the label with bit 31, which leaves have set, so that no byte equals a leaf.
constexpr std::uint32_t label(std::uint32_t unit) {
  return unit & 0x800000FFU;
}
constexpr std::size_t offset(std::uint32_t unit) {
  return std::size_t{unit >> 10U} << ((unit & 0x200U) >> 6U);
}

/// Clusters of this many bytes or more are not looked up as a whole.
constexpr std::size_t kLongestCluster = 6;

int count_of(std::string_view text) {
  int count = 0;
  for (std::size_t i = 0; i < text.size(); ++count) unicode::next(text, i);
  return count;
}

/// Writes the characters of one piece with a delay of one: if a replacement has fewer characters than the old
/// text, the last character written before takes up the rest. At the start of a piece
/// nothing takes up the rest, and all later origins are too far left, as in the reference.
class Changes {
 public:
  Changes(const PieceText& text, const PieceText::Piece& piece, PieceText::Output& output)
      : cursor_(text, piece), output_(output) {}
  ~Changes() { flush(); }
  Changes(const Changes&) = delete;
  Changes& operator=(const Changes&) = delete;

  void put(char32_t c, int change) {
    flush();
    last_ = {c, change};
    waiting_ = true;
  }

  void replace(std::string_view old_text, std::string_view new_text) {
    const int old_count = count_of(old_text);
    const int new_count = count_of(new_text);
    int index = 0;
    for (std::size_t i = 0; i < new_text.size(); ++index) {
      put(unicode::next(new_text, i), index < old_count ? 0 : 1);
    }
    if (new_count < old_count && waiting_) last_.change -= old_count - new_count;
  }

  /// Copies unchanged bytes. Returns false if the origins are shifted.
  bool copy(std::size_t begin, std::size_t end) {
    flush();
    if (cursor_.at() != begin) return false;
    output_.copy(begin, end);
    cursor_.move_to(end);
    return true;
  }

 private:
  void flush() {
    if (waiting_) output_.put(unicode::Utf8(last_.c), cursor_.take(last_.change));
    waiting_ = false;
  }

  OriginCursor cursor_;
  PieceText::Output& output_;
  ChangedCharacter last_;
  bool waiting_ = false;
};

/// Replaces the characters of texts by a charsmap.
class Precompiled {
 public:
  explicit Precompiled(Charsmap map) : map_(std::move(map)) {
    for (std::size_t i = 0; i < unchanged_.size(); ++i) {
      const auto c = static_cast<char>(i);
      unchanged_[i] = c != '\r' && !map_.find(std::string_view(&c, 1));
    }
  }

  void operator()(PieceText& text) const {
    text.rewrite([&](const PieceText::Piece& piece, PieceText::Output& output) {
      Changes changes(text, piece, output);
      const std::string_view all = text.text();
      for (std::size_t i = piece.begin; i < piece.end;) {
        i = copy_unchanged(all, i, piece.end, changes);
        const std::size_t end = unicode::cluster_end(all, i, piece.end);
        replace_cluster(all.substr(i, end - i), changes);
        i = end;
      }
    });
  }

 private:
  /// Copies unchanged ASCII characters and returns their end. Leaves out the last two: the last one may be in
  /// a cluster with the next character, and the one before it may take up a replaced character.
  std::size_t copy_unchanged(std::string_view all, std::size_t begin, std::size_t end,
                             Changes& changes) const {
    constexpr std::size_t kLeft = 2;
    std::size_t i = begin;
    while (i < end && unicode::is_ascii(all[i]) && unchanged_[static_cast<unsigned char>(all[i])]) ++i;
    if (i - begin <= kLeft || !changes.copy(begin, i - kLeft)) return begin;
    return i - kLeft;
  }

  void replace_cluster(std::string_view cluster, Changes& changes) const {
    if (cluster.size() < kLongestCluster) {
      if (const auto replacement = map_.find(cluster)) return changes.replace(cluster, *replacement);
    }
    for (std::size_t i = 0; i < cluster.size();) {
      const std::size_t begin = i;
      const char32_t c = unicode::next(cluster, i);
      const std::string_view character = cluster.substr(begin, i - begin);
      if (const auto replacement = map_.find(character)) {
        changes.replace(character, *replacement);
      } else {
        changes.put(c, 0);
      }
    }
  }

  Charsmap map_;
  std::array<bool, 128> unchanged_{};  // [ASCII characters]
};

}  // namespace

Charsmap::Charsmap(const PartConfig& where) : place_(where.place()) {
  const std::optional<std::string> bytes = read_bytes(where.node());
  if (!bytes)
    where.refuse("", "expected base64, found other characters or a length that is not a multiple of 4");
  if (bytes->size() < kUnitSize) {
    where.refuse("", fmt::format("expected a charsmap, found {} bytes", bytes->size()));
  }
  std::uint32_t size = 0;
  std::memcpy(&size, bytes->data(), kUnitSize);
  const std::string_view rest = std::string_view(*bytes).substr(kUnitSize);
  if (size > rest.size() || size % kUnitSize != 0 || size == 0) {
    where.refuse("", fmt::format("the trie needs {} bytes, but {} bytes follow its size", size, rest.size()));
  }
  units_.resize(size / kUnitSize);
  std::memcpy(units_.data(), rest.data(), size);
  replacements_ = rest.substr(size);
  if (find_ill_formed_utf8(replacements_)) where.refuse("", "the replacements of the charsmap are not UTF-8");
}

void Charsmap::damaged() const {
  fail(Status::bad_input, "{}: the charsmap has an offset outside of itself; the file is damaged", place_);
}

std::uint32_t Charsmap::unit(std::size_t at) const {
  if (at >= units_.size()) damaged();
  return units_[at];
}

std::optional<std::string_view> Charsmap::find(std::string_view text) const {
  std::size_t at = offset(units_[0]);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == 0) return std::nullopt;
    at ^= byte;
    const std::uint32_t node = unit(at);
    if (label(node) != byte) return std::nullopt;
    at ^= offset(node);
    if (!has_leaf(node)) continue;
    const std::size_t begin = leaf_value(unit(at));
    if (begin > replacements_.size()) damaged();
    const std::string_view replacement = std::string_view(replacements_).substr(begin);
    if (!replacement.empty() && (static_cast<unsigned char>(replacement[0]) & 0xC0U) == 0x80U) damaged();
    return replacement.substr(0, replacement.find('\0'));
  }
  return std::nullopt;
}

TextStep make_precompiled(const PartConfig& config) {
  constexpr std::string_view kKey = "precompiled_charsmap";
  const PartConfig map = config.at(kKey);
  if (!map.node().is_binary()) (void)config.string(kKey);  // checks the type
  return Precompiled(Charsmap(map));
}

}  // namespace attnctl
