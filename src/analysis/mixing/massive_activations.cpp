#include "analysis/mixing/massive_activations.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/numbers.hpp"

namespace attnctl::analysis {

double median_magnitude(MatrixView<const float> values) {
  // The bits of a magnitude, as an integer, have the order of the magnitudes. Their upper part is the number
  // of a bin, so that only the values of the bins in the middle are compared with each other.
  constexpr unsigned kShift = 20;
  constexpr std::uint32_t kInfinity = std::bit_cast<std::uint32_t>(std::numeric_limits<float>::infinity());
  const auto bits_of = [](float value) { return std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFU; };
  std::array<std::size_t, 1U << (31 - kShift)> counts{};
  for (std::size_t r = 0; r < values.rows; ++r) {
    for (const float value : values.row(r)) ++counts[bits_of(value) >> kShift];
  }
  const std::size_t count = values.rows * values.cols;
  if (count == 0) return kUndefined;
  if (std::any_of(counts.begin() + (kInfinity >> kShift), counts.end(), [](std::size_t n) { return n > 0; }))
    return std::numeric_limits<double>::quiet_NaN();
  const std::size_t lower = (count - 1) / 2, upper = count / 2;  // ranks of the values in the middle
  std::uint32_t first = 0, last = 0;                             // the bins with these ranks
  std::size_t before = 0;                                        // number of values in bins before `first`
  while (before + counts[first] <= lower) before += counts[first++];
  std::size_t end = before + counts[last = first];
  while (end <= upper) end += counts[++last];
  // Writes every value, and advances after a value of these bins, because a branch would be slow.
  std::vector<float> middle(end - before + 1);
  std::size_t kept = 0;
  for (std::size_t r = 0; r < values.rows; ++r) {
    for (const float value : values.row(r)) {
      middle[kept] = std::abs(value);
      kept += static_cast<std::size_t>((bits_of(value) >> kShift) - first <= last - first);
    }
  }
  const auto at = middle.begin() + static_cast<std::ptrdiff_t>(upper - before);
  std::nth_element(middle.begin(), at, middle.end() - 1);
  if (lower == upper) return double{*at};
  return (double{*std::max_element(middle.begin(), at)} + double{*at}) / 2;
}

}  // namespace attnctl::analysis
