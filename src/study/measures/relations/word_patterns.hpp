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

/// The words of one sequence that have at least one token in it, in order. A `place` is an index into these
/// words.
struct WordPieces {
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  std::vector<std::size_t> words;              // [places], index in the annotation
  std::vector<std::size_t> place_of;           // [words of the annotation]; kNone: the word has no token
  std::vector<std::size_t> of_token;           // [n], place of a token's first word; places() if it has none
  std::vector<Sequence::SharedToken> further;  // further words of tokens; `word` is a place

  WordPieces() = default;
  /// `words` is the number of words in the annotation.
  WordPieces(const Sequence& sequence, std::size_t words);
  [[nodiscard]] std::size_t places() const { return words.size(); }
};

/// Patterns over words instead of tokens (Clark et al. 2019), for each head in one block. Attention to a word
/// is the sum over its pieces; attention from a word is the mean over its pieces. A piece belongs to each
/// word with which it shares a character. Fully masked rows are left out of the mean.
class WordPatterns {
 public:
  /// A complete matrix of one head, [places, places]. A word without rows has zeros.
  struct Matrix {
    std::size_t places = 0;
    std::span<const double> weights;
    [[nodiscard]] std::span<const double> row(std::size_t place) const {
      // The next element is the weight on tokens without a word.
      return weights.subspan(place * (places + 1), places);
    }
  };

  /// Prepares the annotated sequences for which `wanted` returns true; calls it only for annotated sequences.
  void begin(const StudyBlock& block, const std::function<bool(std::size_t sequence)>& wanted);
  [[nodiscard]] const WordPieces& pieces(std::size_t sequence) const { return pieces_[sequence]; }
  /// Adds a panel. Returns the matrix if the panel completes it. The matrix is valid until the next call.
  [[nodiscard]] std::optional<Matrix> add(const StudyPanel& panel);

 private:
  struct Open {
    std::vector<double> weights;      // [places, places + 1]
    std::vector<std::uint32_t> rows;  // [places], number of pieces
  };
  static void add_row(const PatternRow& row, const WordPieces& pieces, Open& open);

  std::vector<WordPieces> pieces_;  // [sequences]
  std::vector<Open> open_;          // [heads]
  Open closed_;
};

/// Returns the place with the largest weight other than `self`, the first one on ties. Returns kNone if all
/// weights are 0.
[[nodiscard]] std::size_t largest_other(std::span<const double> row, std::size_t self);

/// Maximum spanning tree (Prim 1957) of a complete graph with symmetric weights [n, n]. An instance reuses
/// its memory for further trees.
class MaximumSpanningTree {
 public:
  /// Returns the parent of each node [n]: the tree node to which it was joined. The entry of node 0, the
  /// root, is unused. The result is valid until the next call. On ties, the lower node is joined first.
  [[nodiscard]] std::span<const std::size_t> find(std::span<const double> weights, std::size_t n);

 private:
  std::vector<std::size_t> parent_;
  std::vector<double> reach_;      // [n], weight of the best edge to the tree
  std::vector<std::size_t> left_;  // nodes outside the tree, ascending
};

}  // namespace attnctl
