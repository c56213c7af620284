#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/utf8.hpp"
#include "tokenizer/encoding.hpp"

namespace attnctl {

/// A text on its way through the pipeline: cut into pieces, rewritten, and for every byte of what it has
/// become the code points of the original that the byte came from. Buffers are kept from text to text.
class PieceText {
 public:
  /// Bytes [begin, end) of text(). An added token is found already: no part touches it any more.
  struct Piece {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    std::int32_t token = -1;  // id of an added token, -1: text

    [[nodiscard]] bool is_text() const { return token < 0; }
    [[nodiscard]] std::size_t size() const { return end - begin; }
  };

  /// Takes what a rewritten piece becomes.
  class Output {
   public:
    explicit Output(PieceText& owner) : owner_(owner) {}
    /// Bytes [begin, end) of the old text, with their origins.
    void copy(std::size_t begin, std::size_t end) {
      owner_.next_text_.append(owner_.text_, begin, end - begin);
      const auto first = owner_.origin_.begin();
      owner_.next_origin_.insert(owner_.next_origin_.end(), first + static_cast<std::ptrdiff_t>(begin),
                                 first + static_cast<std::ptrdiff_t>(end));
    }
    /// The same, with `each(byte)` for every byte.
    template <typename Each>
    void map(std::size_t begin, std::size_t end, Each each) {
      const std::size_t size = owner_.next_text_.size();
      copy(begin, end);
      for (std::size_t i = size; i < owner_.next_text_.size(); ++i) {
        owner_.next_text_[i] = each(owner_.next_text_[i]);
      }
    }
    /// New UTF-8 text that came from `origin`. Throws Error(limit) where the text becomes far longer than it
    /// was given.
    void put(std::string_view text, TextRange origin) {
      if (owner_.next_text_.size() + text.size() > owner_.limit_) owner_.too_long();
      owner_.next_text_.append(text);
      owner_.next_origin_.insert(owner_.next_origin_.end(), text.size(), origin);
    }

   private:
    PieceText& owner_;
  };

  /// Takes the parts that a piece is cut into.
  class Cuts {
   public:
    Cuts(std::vector<Piece>& pieces, std::uint32_t base) : pieces_(pieces), base_(base) {}
    /// Bytes [begin, end) of the piece, in ascending order; what lies between is dropped, and so are empty
    /// parts.
    void add(std::size_t begin, std::size_t end, std::int32_t token = -1) {
      if (begin == end) return;
      pieces_.push_back(
          {base_ + static_cast<std::uint32_t>(begin), base_ + static_cast<std::uint32_t>(end), token});
    }

   private:
    std::vector<Piece>& pieces_;
    std::uint32_t base_;
  };

  /// Begins a text: well-formed UTF-8, below 4 GiB; one piece, none where it is empty.
  void assign(std::string_view original);

  [[nodiscard]] std::string_view text() const { return text_; }
  [[nodiscard]] std::string_view text(const Piece& piece) const {
    return text().substr(piece.begin, piece.size());
  }
  [[nodiscard]] std::span<const TextRange> origin() const { return origin_; }
  [[nodiscard]] std::span<const Piece> pieces() const { return pieces_; }
  /// Where bytes [begin, end) of text() came from, which are not empty.
  [[nodiscard]] TextRange origin(std::size_t begin, std::size_t end) const {
    return {origin_[begin].begin, origin_[end - 1].end};
  }

  /// Replaces every text piece by what `write(piece, output)` puts; pieces that become empty are dropped.
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

  /// Cuts every text piece into what `cut(piece, text of the piece, cuts)` adds.
  template <typename Cut>
  void cut(Cut&& cut) {
    next_pieces_.clear();
    for (const Piece& piece : pieces_) {
      if (!piece.is_text()) {
        next_pieces_.push_back(piece);
        continue;
      }
      Cuts cuts(next_pieces_, piece.begin);
      cut(piece, text(piece), cuts);
    }
    pieces_.swap(next_pieces_);
  }

 private:
  [[noreturn]] void too_long() const;

  std::size_t limit_ = 0;  // bytes that the text may become
  std::string text_, next_text_;
  std::vector<TextRange> origin_, next_origin_;  // [bytes of the text]
  std::vector<Piece> pieces_, next_pieces_;
};

}  // namespace attnctl
