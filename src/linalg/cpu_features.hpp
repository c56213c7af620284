#pragma once

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

}  // namespace attnctl::linalg
