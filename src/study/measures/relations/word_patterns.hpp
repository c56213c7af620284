#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "study/measure.hpp"

namespace attnctl {

/// The words of one sequence that have a token there, in their order. `place` counts these words alone.
struct WordPieces {
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  std::vector<std::size_t> words;     // [places], numbers in the annotation
  std::vector<std::size_t> place_of;  // [words of the annotation], kNone: no token
  std::vector<std::size_t> of_token;  // [n], the place of a token's first word; places() where it has none
  std::vector<Sequence::SharedToken> further;  // places of further words (`word`) of tokens

  WordPieces() = default;
  /// `words` of the annotation.
  WordPieces(const Sequence& sequence, std::size_t words);
  [[nodiscard]] std::size_t places() const { return words.size(); }
};

/// Words in the place of tokens (Clark et al. 2019), of every head over one block: attention to a word is the
/// sum over its pieces, attention from it the mean over them; a piece is of every word that it shares a
/// character with. Rows that a panel leaves out (fully masked) are left out of the mean.
class WordPatterns {
 public:
  /// One matrix of one head, complete: [places, places]. A word of no row has zeros.
  struct Matrix {
    std::size_t places = 0;
    std::span<const double> weights;
    [[nodiscard]] std::span<const double> row(std::size_t place) const {
      return weights.subspan(place * (places + 1), places);  // behind it what goes to no word
    }
  };

  /// Pieces of the sequences that `wanted` says (by number); annotated ones alone are asked.
  void begin(const StudyBlock& block, const std::function<bool(std::size_t sequence)>& wanted);
  [[nodiscard]] const WordPieces& pieces(std::size_t sequence) const { return pieces_[sequence]; }
  /// The matrix where this panel completes it; it is valid until the next call.
  [[nodiscard]] std::optional<Matrix> add(const StudyPanel& panel);

 private:
  struct Open {
    std::vector<double> weights;      // [places, places + 1]
    std::vector<std::uint32_t> rows;  // [places], pieces
  };
  static void add_row(const PatternRow& row, const WordPieces& pieces, Open& open);

  std::vector<WordPieces> pieces_;  // [sequences]
  std::vector<Open> open_;          // [heads]
  Open closed_;
};

/// The place with the largest weight other than `self`, the first of equal ones; kNone where all are 0.
[[nodiscard]] std::size_t largest_other(std::span<const double> row, std::size_t self);

}  // namespace attnctl
