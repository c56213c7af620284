#include "cli/commands/peak_memory.hpp"

#include <cstddef>
#include <fstream>
#include <string>

namespace attnctl::cli {

void restart_peak_memory() {
  std::ofstream("/proc/self/clear_refs") << "5";  // proc(5): resets VmHWM to the resident memory
}

std::optional<double> peak_memory_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string field; status >> field;) {
    std::size_t kib = 0;
    if (field == "VmHWM:" && status >> kib) return static_cast<double>(kib) / 1024;
  }
  return std::nullopt;
}

}  // namespace attnctl::cli
