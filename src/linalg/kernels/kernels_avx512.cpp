#include "linalg/kernels/kernels.hpp"

#if defined(__AVX512F__) && defined(__AVX512DQ__)
#include "linalg/kernels/kernels_impl.hpp"
#endif

namespace attnctl::linalg {

const Kernels* avx512_kernels() {
#if defined(__AVX512F__) && defined(__AVX512DQ__)
  static constexpr Kernels table = VectorKernels<xsimd::avx512bw>::table("avx512");
  return &table;
#else
  return nullptr;
#endif
}

}  // namespace attnctl::linalg
