#include "linalg/kernels/gemm_kernels.hpp"

#include "linalg/blas/kernel_choice.hpp"

namespace attnctl::linalg {

const GemmKernels* gemm_kernels_named(std::string_view name) {
  return supported_set(name, avx512_gemm_kernels(), avx2_gemm_kernels(), baseline_gemm_kernels());
}

const GemmKernels& gemm_kernels() {
  static const GemmKernels& best = *gemm_kernels_named("");
  return best;
}

}  // namespace attnctl::linalg
