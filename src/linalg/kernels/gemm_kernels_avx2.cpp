#include "linalg/kernels/kernels.hpp"

#if defined(__AVX2__) && defined(__FMA__)
#include "linalg/kernels/gemm_kernels_impl.hpp"
#endif

namespace attnctl::linalg {

const GemmKernels* avx2_gemm_kernels() {
#if defined(__AVX2__) && defined(__FMA__)
  static constexpr GemmKernels table = gemm_table<xsimd::fma3<xsimd::avx2>>("avx2", 48, 24);
  return &table;
#else
  return nullptr;
#endif
}

}  // namespace attnctl::linalg
