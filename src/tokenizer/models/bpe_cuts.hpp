#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace attnctl {

/// Pairs of characters that some merge brings together. Between two others a text can be cut before merging:
/// no token ever spans the place, so both sides merge as if they stood alone. A model that takes a whole text
/// as one word is cut into words that a cache knows. Kept as a bit for each value of a hash: a pair may be
/// thought joinable that is not, never the other way round.
class BpeCuts {
 public:
  explicit BpeCuts(std::size_t merges);
  void put(std::string_view left, std::string_view right);  // the two sides of a merge, not empty
  [[nodiscard]] bool may_join(char32_t before, char32_t after) const {
    const std::uint64_t bit = bit_of(before, after);
    return (bits_[bit / 64] >> bit % 64 & 1U) != 0;
  }

 private:
  [[nodiscard]] std::uint64_t bit_of(char32_t before, char32_t after) const {
    const std::uint64_t pair = std::uint64_t{before} << 32 | after;
    return (pair * 0x9E3779B97F4A7C15) >> shift_;
  }

  std::vector<std::uint64_t> bits_;
  int shift_;
};

}  // namespace attnctl
