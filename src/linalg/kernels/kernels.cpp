#include "linalg/kernels/kernels.hpp"

#include "linalg/blas/kernel_choice.hpp"
#include "linalg/kernels/kernel_tables.hpp"

namespace attnctl {

const Kernels* kernels_named(std::string_view name) {
  return linalg::supported_set(name, linalg::avx512_kernels(), linalg::avx2_kernels(),
                               linalg::baseline_kernels());
}

const Kernels& kernels() {
  static const Kernels& best = *kernels_named("");
  return best;
}

}  // namespace attnctl
