#include "support/fault.hpp"

#include <cstdlib>

namespace attnctl::test {

std::map<std::string, std::string> with_fault(const std::string& fault, const std::string& path) {
  std::map<std::string, std::string> environment{{"LD_PRELOAD", ATTNCTL_FAULT_LIBRARY},
                                                 {"ATTNCTL_FAULT", fault}};
  if (!path.empty()) environment["ATTNCTL_FAULT_PATH"] = path;
  // Disables the check that the sanitizer runtime is the first library, because the fault library may precede
  // it.
  const char* options = std::getenv("ASAN_OPTIONS");
  environment["ASAN_OPTIONS"] =
      (options != nullptr ? std::string(options) + ":" : "") + "verify_asan_link_order=0";
  return environment;
}

}  // namespace attnctl::test
