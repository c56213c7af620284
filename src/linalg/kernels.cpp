#include "attnctl/linalg/kernels.hpp"

#include "linalg/cpu_features.hpp"
#include "linalg/kernel_tables.hpp"

namespace attnctl {

const Kernels* kernels_named(std::string_view name) {
  const linalg::CpuFeatures cpu = linalg::CpuFeatures::of_this_cpu();
  for (const Kernels* const set :
       {cpu.avx512 ? linalg::avx512_kernels() : nullptr, cpu.avx2_fma ? linalg::avx2_kernels() : nullptr,
        linalg::baseline_kernels()}) {
    if (set != nullptr && (name.empty() || set->name == name)) return set;
  }
  return nullptr;
}

const Kernels& kernels() {
  static const Kernels& best = *kernels_named("");
  return best;
}

}  // namespace attnctl
