#include "linalg/kernels/kernels.hpp"

#include "linalg/blas.hpp"
#include "linalg/kernels/gemm_kernels.hpp"

namespace attnctl {

const Kernels* kernels_named(std::string_view name) {
  return linalg::supported_set(name, linalg::avx512_kernels(), linalg::avx2_kernels(),
                               linalg::baseline_kernels());
}

const Kernels& kernels() {
  static const Kernels& best = *kernels_named("");
  return best;
}

namespace linalg {

const GemmKernels* gemm_kernels_named(std::string_view name) {
  return supported_set(name, avx512_gemm_kernels(), avx2_gemm_kernels(), baseline_gemm_kernels());
}

const GemmKernels& gemm_kernels() {
  static const GemmKernels& best = *gemm_kernels_named("");
  return best;
}

}  // namespace linalg
}  // namespace attnctl
