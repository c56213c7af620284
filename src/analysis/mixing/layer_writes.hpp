#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/matrix_view.hpp"
#include "forward/observer.hpp"
#include "model/model.hpp"

namespace attnctl {

/// W_O of a layer [heads v, d_out] in double; the identity where the checkpoint has none, since the output is
/// then the heads side by side.
[[nodiscard]] OwnedMatrix<double> output_matrix(const Model& model, std::size_t layer);

/// W_O of one head [v, d_out].
[[nodiscard]] inline MatrixView<const double> head_rows(const OwnedMatrix<double>& output_matrix,
                                                        std::size_t head, std::size_t d_value) {
  return output_matrix.view().row_range(head * d_value, d_value);
}

/// W W^T of the rows of W: |x W|^2 = x (W W^T) x^T.
[[nodiscard]] OwnedMatrix<double> gram(MatrixView<const double> w);

/// x G x^T of each row, at least 0.
[[nodiscard]] std::vector<double> squared_norms(MatrixView<const double> x, const OwnedMatrix<double>& gram);

[[nodiscard]] double dot(std::span<const double> a, std::span<const double> b);
[[nodiscard]] double norm(std::span<const double> a);

[[nodiscard]] OwnedMatrix<double> widened(MatrixView<const float> values);

/// Rows of all heads of a layer side by side [n, heads v], of the sequences that are on their way through it.
/// Opened by one thread, filled by the heads in parallel, taken by one thread.
class HeadsSideBySide {
 public:
  void begin(std::size_t sequences) { rows_.assign(sequences, {}); }
  void open(std::size_t sequence, std::size_t rows, std::size_t cols) {
    rows_[sequence] = OwnedMatrix<double>(rows, cols);
  }
  /// The panel's part: its rows, its head's columns.
  [[nodiscard]] MatrixView<double> part(const AttentionPanel& panel, std::size_t width) {
    return rows_[panel.sequence]
        .view()
        .row_range(panel.first_query, panel.z.rows)
        .col_range(panel.head * width, width);
  }
  [[nodiscard]] OwnedMatrix<double> take(std::size_t sequence);

 private:
  std::vector<OwnedMatrix<double>> rows_;  // [sequences]
};

/// `to` = `from`, widened.
void copy_rows(MatrixView<const float> from, MatrixView<double> to);

/// Bytes of an analysis of what these layers write: of all inputs so many matrices [n, heads v] and [n,
/// d_model] in double, and of each layer its weights and W_O in double, also while it is decomposed.
struct WritesKept {
  std::uint64_t of_heads = 0;
  std::uint64_t of_stream = 0;
  std::uint64_t of_output = 0;
};
[[nodiscard]] std::uint64_t writes_bytes(const Model& model, const Batch& batch,
                                         std::span<const std::size_t> layers, const WritesKept& kept);

/// True where the layer is one of these, ascending ones.
[[nodiscard]] bool is_one_of(std::span<const std::size_t> layers, std::size_t layer);

}  // namespace attnctl
