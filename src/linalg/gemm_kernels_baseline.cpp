#include "linalg/gemm_kernels.hpp"
#include "linalg/gemm_kernels_impl.hpp"

namespace attnctl::linalg {

const GemmKernels* baseline_gemm_kernels() {
#if defined(__x86_64__)
  static constexpr GemmKernels table = GemmSet<xsimd::sse2>::table("sse2", 8, 8);
#else
  static constexpr GemmKernels table = GemmSet<xsimd::default_arch>::table("baseline", 8, 8);
#endif
  return &table;
}

}  // namespace attnctl::linalg
