#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/matrix_view.hpp"
#include "forward/observer.hpp"
#include "forward/run.hpp"

namespace attnctl {

/// What stands in a pattern: the weights themselves, the norms |alpha_ij f(x_j)|, or those with each row
/// divided by its sum.
enum class Weighting { weights, norm, norm_row };

/// Shows observers norm-based weights in the place of patterns (Kobayashi et al. 2020): |alpha_ij f_h(x_j)|,
/// f_h(x) = (x W_V^h + b_V^h) W_O^h, without b_O. Without W_O, f is the value itself. Rows do not sum to 1
/// (norm), or do (norm_row; a row of zeros stays). All else of the pass is handed on as it is.
class NormWeighting final : public Observer {
 public:
  /// Only selected heads are shown. Observers must outlive this.
  NormWeighting(const Selection& selection, Weighting weighting, std::vector<Observer*> observers);

  [[nodiscard]] Needs needs() const override;
  /// Throws Error(bad_input) where a selected layer has no values.
  [[nodiscard]] std::uint64_t memory(const Model& model, const Batch& batch) const override;
  void begin(const Model& model, const Batch& batch) override;
  void stream(std::size_t sequence, std::size_t layer, MatrixView<const float> values) override;
  void panel(const AttentionPanel& panel) override;
  void output(std::size_t sequence, std::size_t layer, MatrixView<const float> values) override;
  void logits(std::size_t sequence, std::size_t first_query, MatrixView<const float> values) override;

 private:
  struct Head {
    Lease<AttentionWeights> lease;  // keeps `output` valid
    Linear output;                  // W_O^h [v, d_out]; not present: the identity
    OwnedMatrix<double> gram;       // W_O^h W_O^h^T, once it was needed
    std::vector<double> values;     // |f(x_j)| of the sequence under way
  };
  static void measure(Head& head, MatrixView<const float> values);

  std::vector<HeadId> ids_;
  Weighting weighting_;
  std::vector<Observer*> observers_;
  std::vector<Head> heads_;  // [selected heads]
};

}  // namespace attnctl
