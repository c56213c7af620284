#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "linalg/blas/cpu_features.hpp"

namespace attnctl::linalg {

/// What the BLAS library and its user have decided.
struct BlasState {
  std::string_view kernel;        // that the library runs now, "Haswell"
  std::string_view user_setting;  // OPENBLAS_CORETYPE as the user set it; empty: not set
};

/// What to do about it.
struct BlasChoice {
  std::string kernel;  // OPENBLAS_CORETYPE to run again with; empty: stay
  std::optional<std::string> warning;
};

/// Chooses by the instruction sets that each kernel needs (a table of OpenBLAS' x86-64 kernels): a kernel
/// whose vectors are narrower than the CPU's is replaced, a setting of the user stays unless the CPU lacks
/// what it needs. Kernels that the table does not know stay.
[[nodiscard]] BlasChoice choose_blas_kernel(const BlasState& state, const CpuFeatures& cpu);

}  // namespace attnctl::linalg
