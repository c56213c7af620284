#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace attnctl {

/// Which rows of a block are kept until its end, so that what is kept has a bound: evenly spaced ones, as
/// many as fit. The block alone decides.
class RowSample {
 public:
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  RowSample() = default;
  /// `widths`: the room that each row takes; `most`: the room that there is.
  RowSample(std::span<const std::size_t> widths, std::size_t most);

  /// Where the room of a row begins; kNone: it is not kept.
  [[nodiscard]] std::size_t offset(std::size_t row) const { return offsets_[row]; }
  [[nodiscard]] std::size_t room() const { return room_; }  // that kept rows take
  [[nodiscard]] std::size_t rows() const { return rows_; }  // kept ones

 private:
  std::vector<std::size_t> offsets_;  // [rows]
  std::size_t room_ = 0;
  std::size_t rows_ = 0;
};

}  // namespace attnctl
