#pragma once

#include <algorithm>
#include <cstddef>

#include "base/pool.hpp"

namespace attnctl::forward {

/// Calls work(first, count) over ranges that make up all rows, spread over the pool where the elements are
/// worth the waking of a worker.
template <typename Work>
void for_row_ranges(Pool& pool, std::size_t rows, std::size_t elements_per_row, const Work& work) {
  constexpr std::size_t worth_a_task = 32768;  // elements: about 10 us of a norm
  const std::size_t wanted = rows * elements_per_row / worth_a_task;
  const std::size_t ranges =
      std::clamp<std::size_t>(wanted, 1, std::min(pool.size(), std::max<std::size_t>(rows, 1)));
  if (ranges == 1) return work(std::size_t{0}, rows);
  pool.run(ranges, [&](std::size_t task, std::size_t) {
    const std::size_t first = rows * task / ranges;
    work(first, rows * (task + 1) / ranges - first);
  });
}

}  // namespace attnctl::forward
