#include "linalg/kernels/kernels.hpp"
#include "linalg/kernels/kernels_impl.hpp"

namespace attnctl::linalg {

const Kernels* baseline_kernels() {
#if defined(__x86_64__)
  static constexpr Kernels table = VectorKernels<xsimd::sse2>::table("sse2");
#else
  static constexpr Kernels table = VectorKernels<xsimd::default_arch>::table("baseline");
#endif
  return &table;
}

}  // namespace attnctl::linalg
