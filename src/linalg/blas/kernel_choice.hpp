#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace attnctl::linalg {

/// Instruction sets that this CPU has and whose registers the operating system saves.
struct CpuFeatures {
  bool avx = false;
  bool fma4 = false;
  bool avx2_fma = false;     // AVX2 and FMA3
  bool avx512 = false;       // F, CD, DQ, BW and VL, the set of Skylake-X
  bool avx512_bf16 = false;  // that set and BF16

  [[nodiscard]] static CpuFeatures of_this_cpu();
};

/// Returns the best of our own kernel sets that this CPU runs, or the set with the given name. A null
/// argument is a set that the build lacks. Returns null if no set fits.
template <typename Set>
[[nodiscard]] const Set* supported_set(std::string_view name, const Set* avx512, const Set* avx2,
                                       const Set* baseline) {
  const CpuFeatures cpu = CpuFeatures::of_this_cpu();
  for (const Set* const set : {cpu.avx512 ? avx512 : nullptr, cpu.avx2_fma ? avx2 : nullptr, baseline}) {
    if (set != nullptr && (name.empty() || set->name == name)) return set;
  }
  return nullptr;
}

// Kernels of OpenBLAS, by the names that OPENBLAS_CORETYPE takes.

/// Compares two kernel names without case, as OpenBLAS does.
[[nodiscard]] bool same_kernel(std::string_view a, std::string_view b);
/// Returns the kernel with the widest vectors that the CPU has. Every OpenBLAS for x86-64 has this kernel.
[[nodiscard]] std::string widest_kernel(const CpuFeatures& cpu);
/// Returns whether the CPU has the instructions that a kernel needs. True for names not in our table.
[[nodiscard]] bool runs_on(std::string_view kernel, const CpuFeatures& cpu);
/// Returns whether a kernel uses narrower vectors than the CPU has. False for names not in our table.
[[nodiscard]] bool is_narrow(std::string_view kernel, const CpuFeatures& cpu);

}  // namespace attnctl::linalg
