// Prints a table of the limits of this machine: multiply-adds in registers, matrix products by shape and
// threads, and reading memory.
//   attnctl_roofline [THREADS ...]      default: 1 and all cores that this process may use

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/pool.hpp"
#include "linalg/blas.hpp"
#include "linalg/gemm.hpp"
#include "linalg/kernels/kernels.hpp"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

constexpr std::size_t kChains = 12;  // concurrent multiply-adds: more than latency times two per cycle
constexpr std::size_t kSteps = 20'000'000;

/// Each kernel returns the sum of its chains, so that the compiler keeps all of them. `lanes` is the vector
/// width.
struct FmaLoop {
  std::size_t lanes;
  float (*run)(std::size_t steps);
};

float sum_of(std::span<const float> values) {
  return std::accumulate(values.begin(), values.end(), 0.0F);
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) float run_avx512(std::size_t steps) {
  __m512
      sums[kChains];  // a C array, because a template argument would drop the attributes of the vector type
  for (__m512& sum : sums) sum = _mm512_set1_ps(1);
  const __m512 factor = _mm512_set1_ps(0.999F);
  for (std::size_t i = 0; i < steps; ++i) {
    for (__m512& sum : sums) sum = _mm512_fmadd_ps(sum, factor, factor);
  }
  __m512 all = sums[0];
  for (std::size_t i = 1; i < kChains; ++i) all = _mm512_add_ps(all, sums[i]);
  std::array<float, 16> lanes;
  _mm512_storeu_ps(lanes.data(), all);
  return sum_of(lanes);
}

__attribute__((target("avx2,fma"))) float run_avx2(std::size_t steps) {
  __m256
      sums[kChains];  // a C array, because a template argument would drop the attributes of the vector type
  for (__m256& sum : sums) sum = _mm256_set1_ps(1);
  const __m256 factor = _mm256_set1_ps(0.999F);
  for (std::size_t i = 0; i < steps; ++i) {
    for (__m256& sum : sums) sum = _mm256_fmadd_ps(sum, factor, factor);
  }
  __m256 all = sums[0];
  for (std::size_t i = 1; i < kChains; ++i) all = _mm256_add_ps(all, sums[i]);
  std::array<float, 8> lanes;
  _mm256_storeu_ps(lanes.data(), all);
  return sum_of(lanes);
}
#endif

/// Plain arithmetic, compiled for the baseline of this build.
float run_plain(std::size_t steps) {
  std::array<float, 4 * kChains> sums;
  sums.fill(1);
  for (std::size_t i = 0; i < steps; ++i) {
    for (float& sum : sums) sum = sum * 0.999F + 0.999F;
  }
  return sum_of(sums);
}

FmaLoop fma_loop() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {16, run_avx512};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {8, run_avx2};
#endif
  return {4, run_plain};
}

double fma_gflops(attnctl::Pool& pool) {
  const FmaLoop loop = fma_loop();
  std::vector<float> sums(pool.size());
  double best = 0;
  for (int repeat = 0; repeat < 3; ++repeat) {
    const auto begin = std::chrono::steady_clock::now();
    pool.run(pool.size(), [&](std::size_t task, std::size_t) { sums[task] = loop.run(kSteps); });
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    const auto work = static_cast<double>(2 * loop.lanes * kChains * kSteps * pool.size());
    best = std::max(best, work / taken.count() / 1e9);
  }
  for (const float sum : sums) {
    if (!std::isfinite(sum)) throw std::logic_error("a chain of multiply-adds left the range");
  }
  return best;
}

struct Row {
  const char* of;
  attnctl::linalg::GemmShape shape;
};

/// The products of a pass of BERT-base's shape (d 768, MLP 3072), and the cube that measures the peak.
constexpr Row kShapes[] = {
    {"peak", {2048, 2048, 2048}},           {"projection, n 1024", {1024, 768, 768}},
    {"projection, n 512", {512, 768, 768}}, {"projection, n 128", {128, 768, 768}},
    {"projection, n 16", {16, 768, 768}},   {"MLP up, n 512", {512, 768, 3072}},
    {"MLP up, n 128", {128, 768, 3072}},    {"MLP up, n 16", {16, 768, 3072}},
    {"MLP down, n 16", {16, 3072, 768}},
};

void print_table(const std::vector<std::size_t>& threads) {
  fmt::print("{} {}, kernels {}\n\n| what | m x k x n |", attnctl::linalg::blas_name(),
             attnctl::linalg::blas_kernel(), attnctl::linalg::kernels().name);
  for (const std::size_t count : threads) fmt::print(" {} thread{} |", count, count == 1 ? "" : "s");
  fmt::print("\n|---|---|");
  for (std::size_t i = 0; i < threads.size(); ++i) fmt::print("---|");
  const auto row = [&](const std::string& what, const std::string& shape, auto measure) {
    fmt::print("\n| {} | {} |", what, shape);
    for (std::size_t i = 0; i < threads.size(); ++i) {
      attnctl::Pool pool(threads[i]);
      fmt::print(" {:.1f} |", measure(pool));
      std::fflush(stdout);
    }
  };
  row("multiply-adds in registers, GFLOP/s", "", fma_gflops);
  for (const Row& each : kShapes) {
    const attnctl::linalg::GemmShape& shape = each.shape;
    const std::size_t repeat = 4 + (std::size_t{1} << 31) / (shape.m * shape.k * shape.n);
    row(fmt::format("sgemm, {}, GFLOP/s", each.of), fmt::format("{} x {} x {}", shape.m, shape.k, shape.n),
        [&](attnctl::Pool& pool) { return attnctl::linalg::measure_sgemm(pool, shape, repeat); });
  }
  row("memory read, GB/s", "",
      [](attnctl::Pool& pool) { return attnctl::linalg::measure_read(pool, std::size_t{512} << 20, 5); });
  fmt::print("\n");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::vector<std::size_t> threads;
    for (int i = 1; i < argc; ++i) threads.push_back(std::stoul(argv[i]));
    if (threads.empty()) threads = {1, attnctl::available_threads()};
    print_table(threads);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "attnctl_roofline: %s\n", error.what());
    return 1;
  }
}
