#pragma once

#include <cstddef>
#include <vector>

#include "base/matrix_view.hpp"
#include "forward/observer.hpp"

namespace attnctl::forward {

/// The rows of a panel, a number a key. All but the visible range of each row is a filler, and stays so from
/// one panel to the next: what a panel costs grows with the keys that it sees, not with all there are.
class PanelRows {
 public:
  explicit PanelRows(float filler) : filler_(filler) {}

  /// Room for that many elements, rows as long as they come.
  void reserve(std::size_t rows, std::size_t elements);

  /// [rows, keys] whose rows are the filler outside of `written`, where they are undefined.
  [[nodiscard]] MatrixView<float> open(std::size_t rows, std::size_t keys, KeyRange written);
  /// Row r has values in `visible` alone, which lies in what was opened; the filler goes elsewhere.
  void close(std::size_t r, KeyRange visible);

 private:
  void fill(std::size_t r, KeyRange range);

  float filler_;
  std::size_t keys_ = 0;  // length of a row, as the buffer is filled
  KeyRange opened_;
  std::vector<float> values_;
  std::vector<KeyRange> written_;  // of each row
  std::size_t filled_ = 0;         // rows of this length that hold the filler outside of what was written
};

}  // namespace attnctl::forward
