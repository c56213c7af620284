#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "analysis/mixing/layer_writes.hpp"
#include "base/matrix_view.hpp"
#include "forward/observer.hpp"
#include "forward/run.hpp"
#include "input/words.hpp"

namespace attnctl {

/// Pooling of the rows of a word's pieces: their mean, or the row of the first piece.
enum class PoolFrom { mean, first };

/// Shows observers patterns over words instead of tokens (Clark et al. 2019). Attention to a word is the sum
/// over its pieces. Attention from a word is the mean over its pieces without fully masked ones, so row sums
/// are preserved. Observers receive only patterns, because other quantities cannot be pooled.
class WordPooling final : public Observer {
 public:
  /// @param units, words  one entry per sequence of the batch; must outlive this object, like the observers
  WordPooling(const Selection& selection, std::span<const WordUnits> units, const Batch& words, PoolFrom from,
              std::vector<Observer*> observers);

  [[nodiscard]] std::uint64_t memory(const Model& model, const Batch& batch) const override;
  void begin(const Model& model, const Batch& batch) override;
  void panel(const AttentionPanel& panel) override;

 private:
  /// The word of one head whose rows are still incomplete.
  struct Open {
    std::vector<double> sum;  // [words]
    std::size_t rows = 0;     // number of rows added
    bool begun = false;
  };
  /// The words that one panel completed.
  struct Done;

  void close(Open& open, Done& done) const;

  std::vector<HeadId> heads_;
  std::span<const WordUnits> units_;
  const Batch& words_;
  PoolFrom from_;
  std::vector<Observer*> observers_;
  std::vector<Open> open_;  // [heads]
};

/// Returns a matrix [n, n] over tokens as a matrix over words. Columns are summed and rows are pooled.
[[nodiscard]] OwnedMatrix<double> pool_matrix(MatrixView<const double> tokens, const WordUnits& units,
                                              PoolFrom from);

/// The entries of a pattern: the weights, the norms |alpha_ij f(x_j)|, or the norms with each row divided by
/// its sum.
enum class Weighting { weights, norm, norm_row };

/// Shows observers norm-based weights instead of patterns (Kobayashi et al. 2020): |alpha_ij f_h(x_j)|,
/// where f_h(x) = (x W_V^h + b_V^h) W_O^h, without b_O. Without W_O, f_h(x) is the value. With norm_row,
/// rows sum to 1, except for rows of zeros, which are kept. Passes all other events on unchanged.
class NormWeighting final : public Observer {
 public:
  /// Shows only the selected heads. The observers must outlive this object.
  NormWeighting(const Selection& selection, Weighting weighting, std::vector<Observer*> observers);

  [[nodiscard]] Needs needs() const override;
  /// Throws Error(bad_input) if a selected layer has no values.
  [[nodiscard]] std::uint64_t memory(const Model& model, const Batch& batch) const override;
  void begin(const Model& model, const Batch& batch) override;
  void stream(std::size_t sequence, std::size_t layer, MatrixView<const float> values) override;
  void panel(const AttentionPanel& panel) override;
  void output(std::size_t sequence, std::size_t layer, MatrixView<const float> values) override;
  void logits(std::size_t sequence, std::size_t first_query, MatrixView<const float> values) override;

 private:
  struct Head {
    ValueNorms norms;
    std::vector<double> values;  // |f(x_j)| of the current sequence
  };

  std::vector<HeadId> ids_;
  Weighting weighting_;
  std::vector<Observer*> observers_;
  std::vector<Head> heads_;  // [selected heads]
};

}  // namespace attnctl
