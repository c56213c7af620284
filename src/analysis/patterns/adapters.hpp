#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "analysis/mixing/contributions.hpp"
#include "base/matrix_view.hpp"
#include "forward/run.hpp"
#include "input/words.hpp"

namespace attnctl::analysis {

/// The pattern row of a word: the mean of the rows of its tokens, or the row of the first token.
enum class PoolFrom { mean, first };

/// Converts patterns over tokens to patterns over words (Clark et al. 2019) and passes them to its observers.
/// The weight on a word is the sum of the weights on its tokens. The row of a word is the mean of the rows of
/// its tokens, or the first of these rows (see PoolFrom). Fully masked rows are left out; if all rows of a
/// word are fully masked, the row of the word is fully masked. Observers receive panels of the selected heads
/// with the pattern only, because scores, queries, keys, values and outputs cannot be pooled.
class WordPooling final : public forward::ObserverGroup {
 public:
  /// @param units  for each sequence, the word of each token; must outlive this object
  /// @param words  the batch over words, with the same number of sequences; must outlive this object
  WordPooling(const forward::Selection& selection, std::span<const input::WordUnits> units,
              const input::Batch& words, PoolFrom from, std::vector<forward::Observer*> observers)
      : ObserverGroup(std::move(observers)),
        heads_(selection.heads),
        units_(units),
        words_(words),
        from_(from) {}

  [[nodiscard]] std::uint64_t memory(const model::Model& model, const input::Batch& batch) const override;
  void begin(const model::Model& model, const input::Batch& /*batch*/) override {
    open_.assign(heads_.size(), {});
    ObserverGroup::begin(model, words_);
  }
  void panel(const forward::AttentionPanel& panel) override;

 private:
  /// The current word of one head: the sum of the pattern rows of its tokens that have arrived.
  struct OpenWord {
    std::vector<double> sum;  // [words]
    std::size_t rows = 0;     // number of rows in `sum`
  };
  std::vector<model::HeadId> heads_;
  std::span<const input::WordUnits> units_;
  const input::Batch& words_;
  PoolFrom from_;
  std::vector<OpenWord> open_;  // [heads]
};

/// Converts a matrix over tokens [n, n] to a matrix over words. The columns of a word are summed; its rows
/// are averaged, or only the first of them is used (see PoolFrom).
[[nodiscard]] OwnedMatrix<double> pool_matrix(MatrixView<const double> tokens, const input::WordUnits& units,
                                              PoolFrom from);

/// The entries of a pattern: attention weights, or norms (see NormWeighting).
enum class Weighting { weights, norm, norm_row };

/// Replaces the attention weights alpha_ij by norms |alpha_ij f_h(x_j)| (Kobayashi et al. 2020) and passes
/// them to its observers. f_h(x) = (x W_V^h + b_V^h) W_O^h, without b_O. If the layer has no W_O, f_h(x) is
/// the value itself. With Weighting::norm_row, each row is divided by its sum; rows of zeros stay zero.
/// Panels of heads that are not selected are not passed on.
class NormWeighting final : public forward::ObserverGroup {
 public:
  NormWeighting(const forward::Selection& selection, Weighting weighting,
                std::vector<forward::Observer*> observers)
      : ObserverGroup(std::move(observers)), ids_(selection.heads), weighting_(weighting) {}

  [[nodiscard]] forward::Needs needs() const override {
    forward::Needs needs = ObserverGroup::needs();
    needs.values = true;
    return needs;
  }
  [[nodiscard]] std::uint64_t memory(const model::Model& model, const input::Batch& batch) const override {
    return value_norms_bytes(model, batch, ids_) + ObserverGroup::memory(model, batch);
  }
  /// Throws Error(bad_input) if the layer of a selected head has no values (W_V).
  void begin(const model::Model& model, const input::Batch& batch) override;
  void panel(const forward::AttentionPanel& panel) override;

 private:
  std::vector<model::HeadId> ids_;
  Weighting weighting_;
  std::vector<ValueNorms> norms_;  // [selected heads]
};

}  // namespace attnctl::analysis
