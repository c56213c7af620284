#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace attnctl {

/// Evenly spaced rows of a block that are kept until its end: as many as fit into the workspace. The choice
/// depends only on the block.
class RowSample {
 public:
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  RowSample() = default;
  /// `widths` is the number of elements of each row; `most` is the capacity of the workspace in elements.
  RowSample(std::span<const std::size_t> widths, std::size_t most);

  /// Returns the first element of a row in the workspace, or kNone if the row is not kept.
  [[nodiscard]] std::size_t offset(std::size_t row) const { return offsets_[row]; }
  [[nodiscard]] std::size_t room() const { return room_; }  // elements of all kept rows
  [[nodiscard]] std::size_t rows() const { return rows_; }  // number of kept rows

 private:
  std::vector<std::size_t> offsets_;  // [rows]
  std::size_t room_ = 0;
  std::size_t rows_ = 0;
};

}  // namespace attnctl
