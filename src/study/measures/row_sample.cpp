#include "study/measures/row_sample.hpp"

#include <algorithm>
#include <numeric>

namespace attnctl {

RowSample::RowSample(std::span<const std::size_t> widths, std::size_t most) : offsets_(widths.size(), kNone) {
  const std::size_t all = std::accumulate(widths.begin(), widths.end(), std::size_t{0});
  if (all == 0 || most == 0) return;
  for (std::size_t step = (all + most - 1) / most; step / 2 < widths.size(); ++step) {
    std::size_t room = 0;
    for (std::size_t row = step / 2; row < widths.size(); row += step) room += widths[row];
    if (room > most) continue;
    for (std::size_t row = step / 2; row < widths.size(); row += step) {
      offsets_[row] = room_;
      room_ += widths[row];
      ++rows_;
    }
    return;
  }
}

}  // namespace attnctl
