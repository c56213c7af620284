#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/matrix_view.hpp"
#include "forward/observer.hpp"
#include "forward/run.hpp"

namespace attnctl {

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
    Lease<AttentionWeights> lease;  // keeps `output` valid
    Linear output;                  // W_O^h [v, d_out]; not present: identity
    OwnedMatrix<double> gram;       // W_O^h W_O^h^T, computed on first use
    std::vector<double> values;     // |f(x_j)| of the current sequence
  };
  static void measure(Head& head, MatrixView<const float> values);

  std::vector<HeadId> ids_;
  Weighting weighting_;
  std::vector<Observer*> observers_;
  std::vector<Head> heads_;  // [selected heads]
};

}  // namespace attnctl
