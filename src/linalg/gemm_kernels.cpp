#include "linalg/gemm_kernels.hpp"

#include "linalg/cpu_features.hpp"

namespace attnctl::linalg {

const GemmKernels* gemm_kernels_named(std::string_view name) {
  const CpuFeatures cpu = CpuFeatures::of_this_cpu();
  for (const GemmKernels* const set :
       {cpu.avx512 ? avx512_gemm_kernels() : nullptr, cpu.avx2_fma ? avx2_gemm_kernels() : nullptr,
        baseline_gemm_kernels()}) {
    if (set != nullptr && (name.empty() || set->name == name)) return set;
  }
  return nullptr;
}

const GemmKernels& gemm_kernels() {
  static const GemmKernels& best = *gemm_kernels_named("");
  return best;
}

}  // namespace attnctl::linalg
