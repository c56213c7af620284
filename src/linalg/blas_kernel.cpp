#include "attnctl/linalg/blas_kernel.hpp"

#include "attnctl/base/error.hpp"

#include <cstdlib>
#include <string_view>
#include <unistd.h>

#include <cblas.h>

#include "linalg/blas_choice.hpp"
#include "linalg/cpu_features.hpp"

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

/// The pthread flavour of OpenBLAS makes its threads while it is loaded; the OpenMP flavour at the first
/// threaded product, of which there is none.
bool library_made_threads() {
  constexpr int pthread_flavour = 1;
  return openblas_get_parallel() == pthread_flavour && environment(threads_variable) != "1";
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
  const std::string_view config = openblas_get_config();  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..."
  const std::size_t after_name = config.find(' ');
  return std::string(config.substr(0, config.find(' ', after_name + 1)));
}

std::string blas_kernel() {
  return openblas_get_corename();
}

std::optional<std::string> ensure_blas_kernel(char** argv) {
  openblas_set_num_threads(1);
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
