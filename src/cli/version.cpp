#include "cli/version.hpp"

#include "attnctl/linalg/blas_kernel.hpp"
#include "attnctl/linalg/kernels.hpp"

#include <fmt/format.h>

namespace attnctl::cli {

std::string version_number() {
  return ATTNCTL_VERSION;
}

std::string version_text() {
  return fmt::format("attnctl {} ({}, kernel {}, {})", version_number(), blas_name(), blas_kernel(),
                     kernels().name);
}

}  // namespace attnctl::cli
