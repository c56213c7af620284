#pragma once

#include "linalg/kernels/kernels.hpp"

namespace attnctl::linalg {

/// The sets that this build holds; null where it was not compiled for one. Whether the CPU has it is asked in
/// kernels.cpp.
[[nodiscard]] const Kernels* baseline_kernels();
[[nodiscard]] const Kernels* avx2_kernels();
[[nodiscard]] const Kernels* avx512_kernels();

}  // namespace attnctl::linalg
