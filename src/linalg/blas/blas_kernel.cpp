#include "linalg/blas/blas_kernel.hpp"

#include <cstdlib>
#include <string_view>
#include <unistd.h>

#include "base/error.hpp"
#include "linalg/blas/blas_choice.hpp"
#include "linalg/blas/blas_library.hpp"
#include "linalg/blas/cpu_features.hpp"

namespace attnctl {
namespace {

constexpr const char* kernel_variable = "OPENBLAS_CORETYPE";
constexpr const char* threads_variable = "OPENBLAS_NUM_THREADS";
// Present in the second execution only, with what the user had set; its presence ends the loop.
constexpr const char* guard_variable = "ATTNCTL_BLAS_GUARD";

std::string_view environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

/// The OpenMP flavour of OpenBLAS makes its threads at the first threaded product, of which there is none.
bool library_made_threads() {
  return linalg::is_pthread_openblas() && environment(threads_variable) != "1";
}

/// The second execution: puts the environment back as the user had it and reports what was ignored then.
std::optional<std::string> end_of_second_execution() {
  const std::string user_setting(environment(guard_variable));
  unsetenv(guard_variable);
  if (user_setting.empty()) {
    unsetenv(kernel_variable);
  } else {
    setenv(kernel_variable, user_setting.c_str(), 1);
  }
  const std::string kernel = blas_kernel();
  return linalg::choose_blas_kernel({kernel, user_setting}, linalg::CpuFeatures::of_this_cpu()).warning;
}

}  // namespace

std::string blas_name() {
  return linalg::blas_library_name();
}

std::string blas_kernel() {
  const std::string kernel = linalg::blas_library_kernel();
  return kernel.empty() ? "unknown" : kernel;
}

std::optional<std::string> ensure_blas_kernel(char** argv) {
  linalg::set_blas_threads(1);
  if (!linalg::is_openblas()) return std::nullopt;
  if (std::getenv(guard_variable) != nullptr) return end_of_second_execution();
  const std::string kernel = blas_kernel();
  const std::string user_setting(environment(kernel_variable));
  const linalg::BlasChoice choice =
      linalg::choose_blas_kernel({kernel, user_setting}, linalg::CpuFeatures::of_this_cpu());
  if (choice.kernel.empty() && !library_made_threads()) return choice.warning;

  setenv(guard_variable, user_setting.c_str(), 1);
  setenv(threads_variable, "1", 1);
  if (!choice.kernel.empty()) setenv(kernel_variable, choice.kernel.c_str(), 1);
  execv("/proc/self/exe", argv);
  unsetenv(guard_variable);  // it could not: go on as we are
  return fmt::format("OpenBLAS runs its {} kernels, slower than this CPU allows", kernel);
}

}  // namespace attnctl
