// Benchmarks of the single-threaded kernels of the hot path.
//   attnctl_micro [--benchmark_filter=REGEX] [--benchmark_repetitions=N] ...      --help lists Google
//   Benchmark's options

#include <benchmark/benchmark.h>
#include <cstdio>

#include "linalg/blas/blas_kernel.hpp"
#include "linalg/kernels/kernels.hpp"

int main(int argc, char** argv) {
  if (const auto warning = attnctl::ensure_blas_kernel(argv))
    std::fprintf(stderr, "attnctl_micro: %s\n", warning->c_str());
  benchmark::AddCustomContext("blas", attnctl::blas_name() + ", kernel " + attnctl::blas_kernel());
  benchmark::AddCustomContext("vector kernels", std::string(attnctl::kernels().name));
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
