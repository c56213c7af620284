#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace attnctl::unicode {

inline constexpr std::size_t code_points = 0x110000;

/// A value for every code point, in two levels: long runs of equal blocks (ideographs, Hangul, what is not
/// assigned) share one.
template <typename T>
class CodePointTable {
 public:
  CodePointTable() = default;
  /// `all` has one entry a code point.
  explicit CodePointTable(const std::vector<T>& all) {
    block_.reserve(code_points / block_size);
    for (std::size_t begin = 0; begin < code_points; begin += block_size) {
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(begin);
      const auto last = first + static_cast<std::ptrdiff_t>(block_size);
      const bool same = !values_.empty() &&
                        std::equal(first, last, values_.end() - static_cast<std::ptrdiff_t>(block_size));
      if (!same) values_.insert(values_.end(), first, last);
      block_.push_back(static_cast<std::uint16_t>(values_.size() / block_size - 1));
    }
  }

  /// `c` is at most U+10FFFF.
  [[nodiscard]] T operator()(char32_t c) const {
    return values_[std::size_t{block_[c >> block_bits]} << block_bits | (c & (block_size - 1))];
  }

 private:
  static constexpr unsigned block_bits = 8;
  static constexpr std::size_t block_size = std::size_t{1} << block_bits;
  std::vector<std::uint16_t> block_;  // [code_points / block_size], index into values_ in blocks
  std::vector<T> values_;             // [distinct blocks * block_size]
};

}  // namespace attnctl::unicode
