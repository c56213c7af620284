#include "linalg/machine_speed.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <stdexcept>
#include <vector>

#include "base/matrix_view.hpp"
#include "linalg/gemm.hpp"

namespace attnctl::linalg {
namespace {

template <typename Work>
double best_seconds(std::size_t repeat, const Work& work) {
  double best = std::numeric_limits<double>::infinity();
  work();
  for (std::size_t i = 0; i < std::max<std::size_t>(repeat, 1); ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    best = std::min(best, taken.count());
  }
  return std::max(best, 1e-9);  // avoids a time of 0: 1e-9 s is the resolution of the clock
}

/// Calls work(first, count) for ranges that together cover [0, size), at most one range per worker.
template <typename Work>
void run_in_slabs(Pool& pool, std::size_t size, const Work& work) {
  const std::size_t slab = (size + pool.size() - 1) / pool.size();
  pool.run((size + slab - 1) / slab, [&](std::size_t task, std::size_t /*worker*/) {
    const std::size_t first = task * slab;
    work(first, std::min(slab, size - first));
  });
}

/// Returns the sum of all words. Adds them in 16 independent sums, which the processor computes in parallel.
std::uint64_t sum_of(std::span<const std::uint64_t> words) {
  std::array<std::uint64_t, 16> lanes{};
  std::size_t i = 0;
  for (; i + lanes.size() <= words.size(); i += lanes.size()) {
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) lanes[lane] += words[i + lane];
  }
  return std::accumulate(words.begin() + static_cast<std::ptrdiff_t>(i), words.end(),
                         std::accumulate(lanes.begin(), lanes.end(), std::uint64_t{0}));
}

}  // namespace

double measure_sgemm(Pool& pool, GemmShape shape, std::size_t repeat) {
  if (shape.m == 0 || shape.k == 0 || shape.n == 0) {
    throw std::logic_error("an extent of the product to measure is 0");
  }
  OwnedMatrix<float> a(shape.m, shape.k);
  OwnedMatrix<float> b(shape.k, shape.n);
  OwnedMatrix<float> c(shape.m, shape.n);
  std::ranges::fill(a.values(), 0.5F);
  std::ranges::fill(b.values(), 0.25F);
  const auto multiply = [&](std::size_t first, std::size_t count) {
    if (shape.m >= shape.n) {
      blas_gemm_nn(a.view().row_range(first, count), b.view(), c.view().row_range(first, count));
    } else {
      blas_gemm_nn(a.view(), b.view().col_range(first, count), c.view().col_range(first, count));
    }
  };
  const double seconds =
      best_seconds(repeat, [&] { run_in_slabs(pool, std::max(shape.m, shape.n), multiply); });
  return 2 * static_cast<double>(shape.m) * static_cast<double>(shape.k) * static_cast<double>(shape.n) /
         seconds / 1e9;
}

double measure_read(Pool& pool, std::size_t bytes, std::size_t repeat) {
  std::vector<std::uint64_t> words(std::max<std::size_t>(bytes / sizeof(std::uint64_t), 1), 1);
  std::atomic<std::uint64_t> sum = 0;
  const double seconds = best_seconds(repeat, [&] {
    sum = 0;
    run_in_slabs(pool, words.size(), [&](std::size_t first, std::size_t count) {
      sum += sum_of(std::span(words).subspan(first, count));
    });
  });
  // Without this check, the compiler could remove the reads.
  if (sum != words.size()) throw std::logic_error("memory does not hold what was written");
  return static_cast<double>(words.size() * sizeof(std::uint64_t)) / seconds / 1e9;
}

}  // namespace attnctl::linalg
