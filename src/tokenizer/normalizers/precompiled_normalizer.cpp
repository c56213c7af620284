#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "tokenizer/normalizers/charsmap.hpp"
#include "tokenizer/normalizers/rewriting.hpp"
#include "tokenizer/unicode/grapheme.hpp"
#include "tokenizer/unicode/unicode.hpp"

namespace attnctl {
namespace {

/// A cluster of this many bytes or more is not looked up as a whole.
constexpr std::size_t longest_cluster = 6;

int count_of(std::string_view text) {
  int count = 0;
  for (std::size_t i = 0; i < text.size(); ++count) unicode::next(text, i);
  return count;
}

/// Puts the characters of one piece, always one behind: what is replaced by fewer characters, or by none, is
/// taken up by the last one put. Where there is none yet nobody takes it up, and all later characters have
/// their origin too far left by it: so has the reference.
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

  /// Copies bytes that stay as they are. False where origins are not theirs.
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

class Precompiled final : public Normalizer {
 public:
  explicit Precompiled(Charsmap map) : map_(std::move(map)) {
    for (std::size_t i = 0; i < stays_.size(); ++i) {
      const auto c = static_cast<char>(i);
      stays_[i] = c != '\r' && !map_.find(std::string_view(&c, 1));
    }
  }

  void normalize(PieceText& text) const override {
    text.rewrite([&](const PieceText::Piece& piece, PieceText::Output& output) {
      Changes changes(text, piece, output);
      const std::string_view all = text.text();
      for (std::size_t i = piece.begin; i < piece.end;) {
        i = copy_plain(all, i, piece.end, changes);
        const std::size_t end = unicode::cluster_end(all, i, piece.end);
        cluster(all.substr(i, end - i), changes);
        i = end;
      }
    });
  }

 private:
  /// Copies characters that nothing can happen to, and returns where they end. The last one may be in a
  /// cluster with what follows, and the one before it may take up what follows: both are left.
  std::size_t copy_plain(std::string_view all, std::size_t begin, std::size_t end, Changes& changes) const {
    constexpr std::size_t left = 2;
    std::size_t i = begin;
    while (i < end && is_ascii(all[i]) && stays_[static_cast<unsigned char>(all[i])]) ++i;
    if (i - begin <= left || !changes.copy(begin, i - left)) return begin;
    return i - left;
  }

  void cluster(std::string_view cluster, Changes& changes) const {
    if (cluster.size() < longest_cluster) {
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
  std::array<bool, 128> stays_{};  // characters of ASCII
};

}  // namespace

NormalizerPtr make_precompiled(const PartConfig& config) {
  const PartConfig map = config.at("precompiled_charsmap");
  return std::make_unique<Precompiled>(Charsmap(map, config.string("precompiled_charsmap")));
}

}  // namespace attnctl
