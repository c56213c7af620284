#include "support/fault.hpp"

#include <cstdlib>

#ifdef __SANITIZE_THREAD__
#include <dlfcn.h>
extern "C" void __tsan_init();  // NOLINT: a function of the sanitizer runtime
#endif

namespace attnctl::test {
namespace {

/// Returns the libraries to load first. ThreadSanitizer must be initialised before the fault library is
/// called.
std::string preloaded() {
  std::string libraries;
#ifdef __SANITIZE_THREAD__
  Dl_info runtime;
  if (dladdr(reinterpret_cast<const void*>(&__tsan_init), &runtime) != 0)
    libraries = std::string(runtime.dli_fname) + ":";
#endif
  return libraries + ATTNCTL_FAULT_LIBRARY;
}

}  // namespace

std::map<std::string, std::string> with_fault(const std::string& fault, const std::string& path) {
  std::map<std::string, std::string> environment{{"LD_PRELOAD", preloaded()}, {"ATTNCTL_FAULT", fault}};
  if (!path.empty()) environment["ATTNCTL_FAULT_PATH"] = path;
  // Disables the check that the sanitizer runtime is the first library, because the fault library may precede
  // it.
  const char* options = std::getenv("ASAN_OPTIONS");
  environment["ASAN_OPTIONS"] =
      (options != nullptr ? std::string(options) + ":" : "") + "verify_asan_link_order=0";
  return environment;
}

}  // namespace attnctl::test
