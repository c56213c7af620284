#pragma once

#include <cstddef>
#include <random>
#include <span>
#include <vector>

namespace attnctl::bench {

/// Values from -1 to 1, the same in every run.
inline void fill(std::span<float> values) {
  std::mt19937 random(20170612);
  for (float& value : values) value = static_cast<float>(random()) * 0x1p-31F - 1;
}

inline std::vector<float> random_values(std::size_t count) {
  std::vector<float> values(count);
  fill(values);
  return values;
}

}  // namespace attnctl::bench
