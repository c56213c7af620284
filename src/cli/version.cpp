#include "cli/version.hpp"

#include <fmt/format.h>

#include "linalg/blas.hpp"
#include "linalg/kernels/kernels.hpp"

namespace attnctl::cli {

std::string version_number() {
  return ATTNCTL_VERSION;
}

std::string version_text() {
  return fmt::format("attnctl {} ({}, kernel {}, {})", version_number(), blas_name(), blas_kernel(),
                     kernels().name);
}

}  // namespace attnctl::cli
