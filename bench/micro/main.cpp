// Benchmarks of the single-threaded kernels of the hot path.
//   attnctl_micro [--benchmark_filter=REGEX] [--benchmark_repetitions=N] ...      --help lists Google
//   Benchmark's options

#include <benchmark/benchmark.h>

#include "linalg/blas.hpp"
#include "linalg/kernels/kernels.hpp"

int main(int argc, char** argv) {
  benchmark::AddCustomContext("blas",
                              attnctl::linalg::blas_name() + ", kernel " + attnctl::linalg::blas_kernel());
  benchmark::AddCustomContext("vector kernels", std::string(attnctl::linalg::kernels().name));
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
