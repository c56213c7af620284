// Products of a pass on one thread, compared with the BLAS: m rows with a weight matrix as stored in
// checkpoints, [out, in] or [in, out], and the two products of a head, k = 64. Weights of several layers are
// used in turn, as in a pass, so that they come from memory.

#include <benchmark/benchmark.h>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/matrix_view.hpp"
#include "linalg/gemm.hpp"
#include "random_values.hpp"

namespace attnctl::bench {
namespace {

constexpr std::size_t kStreamed = std::size_t{64} << 20;  // bytes of weights, more than the caches hold

OwnedMatrix<float> matrix(std::size_t rows, std::size_t columns) {
  OwnedMatrix<float> made(rows, columns);
  fill(made.values());
  return made;
}

void count_flops(benchmark::State& state, std::size_t m, std::size_t k, std::size_t n) {
  const double each = 2 * static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(n);
  state.counters["FLOP/s"] =
      benchmark::Counter(each, benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
}

std::size_t argument(const benchmark::State& state, std::size_t index) {
  return static_cast<std::size_t>(state.range(index));
}

using Multiply = void (*)(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c);

/// y [m, out] = x [m, in] W, W [in, out] or its transpose.
void projection(benchmark::State& state, bool transposed, Multiply multiply) {
  const std::size_t m = argument(state, 0), in = argument(state, 1), out = argument(state, 2);
  const OwnedMatrix<float> x = matrix(m, in);
  OwnedMatrix<float> y(m, out);
  std::vector<OwnedMatrix<float>> weights;
  for (std::size_t bytes = 0; bytes < kStreamed; bytes += in * out * sizeof(float))
    weights.push_back(transposed ? matrix(out, in) : matrix(in, out));
  std::size_t layer = 0;
  for (auto _ : state) {
    multiply(x.view(), std::as_const(weights[layer]).view(), y.view());
    layer = (layer + 1) % weights.size();
    benchmark::DoNotOptimize(y.values().data());
  }
  count_flops(state, m, in, out);
}

void ours_nt(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c) {
  linalg::gemm_nt(a, b, c);
}
void ours_nn(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c) {
  linalg::gemm_nn(a, b, c);
}
void blas_nt(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c) {
  linalg::gemm(false, true, a, b, c, 1, 0, linalg::Backend::blas);
}
void blas_nn(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c) {
  linalg::gemm(false, false, a, b, c, 1, 0, linalg::Backend::blas);
}

void shapes(benchmark::internal::Benchmark* projections) {
  projections->ArgNames({"m", "in", "out"})
      ->ArgsProduct({{1, 2, 4, 8, 16, 32, 64, 96, 128, 160, 256, 512, 1024}, {768}, {768, 3072}})
      ->ArgsProduct({{1, 4, 16, 64, 128, 256, 512, 1024}, {3072}, {768}})
      ->Unit(benchmark::kMicrosecond);
}
BENCHMARK_CAPTURE(projection, out_in, true, ours_nt)->Apply(shapes);
BENCHMARK_CAPTURE(projection, out_in_blas, true, blas_nt)->Apply(shapes);
BENCHMARK_CAPTURE(projection, in_out, false, ours_nn)->Apply(shapes);
BENCHMARK_CAPTURE(projection, in_out_blas, false, blas_nn)->Apply(shapes);

/// A panel of 128 query rows of a head (a column slice of all heads' queries) with its n keys: Q K^T.
void scores(benchmark::State& state) {
  const std::size_t n = argument(state, 0), rows = n < 128 ? n : 128;
  constexpr std::size_t width = 768, k = 64;
  const OwnedMatrix<float> queries = matrix(rows, width), keys = matrix(n, width);
  OwnedMatrix<float> scores(rows, n);
  for (auto _ : state) {
    linalg::gemm_nt(queries.view().col_range(k, k), keys.view().col_range(k, k), scores.view(), 0.125F);
    benchmark::DoNotOptimize(scores.values().data());
  }
  count_flops(state, rows, k, n);
}
BENCHMARK(scores)->ArgName("n")->RangeMultiplier(2)->Range(16, 4096)->Unit(benchmark::kMicrosecond);

/// The same panel of patterns with the head's values: P V.
void mixture(benchmark::State& state) {
  const std::size_t n = argument(state, 0), rows = n < 128 ? n : 128;
  constexpr std::size_t width = 768, k = 64;
  const OwnedMatrix<float> pattern = matrix(rows, n), values = matrix(n, width);
  OwnedMatrix<float> mixed(rows, width);
  for (auto _ : state) {
    linalg::gemm_nn(pattern.view(), values.view().col_range(k, k), mixed.view().col_range(k, k));
    benchmark::DoNotOptimize(mixed.values().data());
  }
  count_flops(state, rows, n, k);
}
BENCHMARK(mixture)->ArgName("n")->RangeMultiplier(2)->Range(16, 4096)->Unit(benchmark::kMicrosecond);

/// Eight query rows of a head with its n packed keys: a panel that stays in cache.
void packed_scores(benchmark::State& state) {
  const std::size_t n = argument(state, 0);
  constexpr std::size_t width = 768, k = 64, rows = 8;
  const OwnedMatrix<float> queries = matrix(rows, width), keys = matrix(n, width);
  OwnedMatrix<float> scores(rows, n);
  linalg::PackedMatrix packed;
  packed.pack_transposed(keys.view().col_range(k, k));
  for (auto _ : state) {
    packed.multiply(queries.view().col_range(k, k), 0, 0, scores.view(), 0.125F);
    benchmark::DoNotOptimize(scores.values().data());
  }
  count_flops(state, rows, k, n);
}
BENCHMARK(packed_scores)->ArgName("n")->RangeMultiplier(2)->Range(16, 4096)->Unit(benchmark::kMicrosecond);

/// Eight rows of patterns with the packed values of the head.
void packed_mixture(benchmark::State& state) {
  const std::size_t n = argument(state, 0);
  constexpr std::size_t width = 768, k = 64, rows = 8;
  const OwnedMatrix<float> pattern = matrix(rows, n), values = matrix(n, width);
  OwnedMatrix<float> mixed(rows, width);
  linalg::PackedMatrix packed;
  packed.pack(values.view().col_range(k, k));
  for (auto _ : state) {
    packed.multiply(pattern.view(), 0, 0, mixed.view().col_range(k, k));
    benchmark::DoNotOptimize(mixed.values().data());
  }
  count_flops(state, rows, n, k);
}
BENCHMARK(packed_mixture)->ArgName("n")->RangeMultiplier(2)->Range(16, 4096)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace attnctl::bench
