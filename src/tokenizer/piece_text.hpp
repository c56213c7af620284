#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/encoding.hpp"

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
      if (owner_.next_text_.size() + text.size() > owner_.limit_) owner_.too_long();
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
  void assign(std::string_view original);

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
  [[noreturn]] void too_long() const;

  std::size_t limit_ = 0;  // largest size of the text in bytes
  std::string text_, next_text_;
  std::vector<TextRange> origin_, next_origin_;  // [bytes of the text]
  std::vector<Piece> pieces_, next_pieces_;
};

/// A normalizer or pre-tokenizer: rewrites or cuts the text pieces. Safe to call from several threads.
using TextStep = std::function<void(PieceText&)>;

/// Returns a step that runs `steps` in order.
[[nodiscard]] inline TextStep in_sequence(std::vector<TextStep> steps) {
  return [steps = std::move(steps)](PieceText& text) {
    for (const TextStep& step : steps) step(text);
  };
}

}  // namespace attnctl
