#include "linalg/kernels/gemm_kernels_impl.hpp"

namespace attnctl::linalg {

const GemmKernels* baseline_gemm_kernels() {
#if defined(__x86_64__)
  static constexpr GemmKernels table = gemm_table<xsimd::sse2>("sse2", 8, 8);
#else
  static constexpr GemmKernels table = gemm_table<xsimd::default_arch>("baseline", 8, 8);
#endif
  return &table;
}

}  // namespace attnctl::linalg
