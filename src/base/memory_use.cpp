#include "base/memory_use.hpp"

#include <charconv>
#include <fstream>
#include <string>
#include <string_view>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace attnctl {
namespace {

/// "VmRSS:     1234 kB": the number, in bytes.
std::uint64_t bytes_of(std::string_view line) {
  const std::size_t begin = line.find_first_of("0123456789");
  std::uint64_t kilobytes = 0;
  if (begin != std::string_view::npos)
    std::from_chars(line.data() + begin, line.data() + line.size(), kilobytes);
  return kilobytes * 1024;
}

}  // namespace

MemoryUse memory_use() {
  MemoryUse use;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) use.now = bytes_of(line);
    if (line.starts_with("VmHWM:")) use.peak = bytes_of(line);
  }
  return use;
}

void give_back_freed_memory() {
#ifdef __GLIBC__
  constexpr int own_mapping_from = 1 << 18;
  mallopt(M_MMAP_THRESHOLD, own_mapping_from);
  mallopt(M_TRIM_THRESHOLD, own_mapping_from);
  malloc_trim(0);
#endif
}

}  // namespace attnctl
