#include "linalg/kernels/kernels.hpp"

#if defined(__AVX2__) && defined(__FMA__)
#include "linalg/kernels/kernels_impl.hpp"
#endif

namespace attnctl::linalg {

const Kernels* avx2_kernels() {
#if defined(__AVX2__) && defined(__FMA__)
  static constexpr Kernels table = VectorKernels<xsimd::fma3<xsimd::avx2>>::table("avx2");
  return &table;
#else
  return nullptr;
#endif
}

}  // namespace attnctl::linalg
