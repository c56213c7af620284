#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/matrix_view.hpp"
#include "forward/observer.hpp"
#include "forward/run.hpp"
#include "input/words.hpp"

namespace attnctl {

/// How the rows of a word's pieces become the word's: their mean, or the first one's.
enum class PoolFrom { mean, first };

/// Shows observers words in the place of tokens (Clark et al. 2019): attention to a word is the sum over its
/// pieces, attention from a word the mean over its pieces, fully masked ones left out, so that rows keep
/// their sum. Observers see patterns alone; what needs more cannot be pooled.
class WordPooling final : public Observer {
 public:
  /// units and words: one a sequence of the batch; all must outlive this.
  WordPooling(const Selection& selection, std::span<const WordUnits> units, const Batch& words, PoolFrom from,
              std::vector<Observer*> observers);

  [[nodiscard]] std::uint64_t memory(const Model& model, const Batch& batch) const override;
  void begin(const Model& model, const Batch& batch) override;
  void panel(const AttentionPanel& panel) override;

 private:
  /// The word whose rows are coming in, of one head.
  struct Open {
    std::vector<double> sum;  // [words]
    std::size_t rows = 0;     // that were added
    bool begun = false;
  };
  /// Words that one panel completed.
  struct Done;

  void close(Open& open, Done& done) const;

  std::vector<HeadId> heads_;
  std::span<const WordUnits> units_;
  const Batch& words_;
  PoolFrom from_;
  std::vector<Observer*> observers_;
  std::vector<Open> open_;  // [heads]
};

/// A matrix [n, n] over tokens as one over words: columns are summed, rows pooled.
[[nodiscard]] OwnedMatrix<double> pool_matrix(MatrixView<const double> tokens, const WordUnits& units,
                                              PoolFrom from);

}  // namespace attnctl
