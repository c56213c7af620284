#pragma once

#include <string_view>

namespace attnctl::linalg {

/// Instruction sets that this CPU has and the operating system keeps the registers of.
struct CpuFeatures {
  bool avx = false;
  bool fma4 = false;
  bool avx2_fma = false;     // AVX2 and FMA3
  bool avx512 = false;       // F, CD, DQ, BW and VL, as Skylake-X has them
  bool avx512_bf16 = false;  // those and BF16

  [[nodiscard]] static CpuFeatures of_this_cpu();
};

/// Of the sets of kernels that a build has (null: it lacks one) the best that this CPU runs, or the one of
/// that name; null where there is none.
template <typename Set>
[[nodiscard]] const Set* supported_set(std::string_view name, const Set* avx512, const Set* avx2,
                                       const Set* baseline) {
  const CpuFeatures cpu = CpuFeatures::of_this_cpu();
  for (const Set* const set : {cpu.avx512 ? avx512 : nullptr, cpu.avx2_fma ? avx2 : nullptr, baseline}) {
    if (set != nullptr && (name.empty() || set->name == name)) return set;
  }
  return nullptr;
}

}  // namespace attnctl::linalg
