#include "linalg/kernels/kernels.hpp"

#if defined(__AVX512F__) && defined(__AVX512DQ__)
#include "linalg/kernels/gemm_kernels_impl.hpp"
#endif

namespace attnctl::linalg {

const GemmKernels* avx512_gemm_kernels() {
#if defined(__AVX512F__) && defined(__AVX512DQ__)
  static constexpr GemmKernels table = gemm_table<xsimd::avx512bw>("avx512", 96, 96);
  return &table;
#else
  return nullptr;
#endif
}

}  // namespace attnctl::linalg
