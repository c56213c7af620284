#include "base/memory.hpp"

#include <cstdlib>
#include <fstream>
#include <string>
#include <sys/mman.h>

#include "base/numbers.hpp"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace attnctl {

std::shared_ptr<float> fresh_floats(std::size_t count) {
  constexpr std::size_t kHugePage = std::size_t{1} << 21U;
  constexpr std::size_t kCacheLine = 64;
  const auto bytes = checked_mul(count, sizeof(float));
  const auto padded = bytes ? checked_add(*bytes, kHugePage - 1) : std::nullopt;
  if (!padded) throw std::bad_alloc();
  const bool large = *bytes >= 2 * kHugePage;
  const std::size_t alignment = large ? kHugePage : kCacheLine;
  const std::size_t size = (*bytes / alignment + 1) * alignment;
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): `owner` takes it
  void* const memory = std::aligned_alloc(alignment, size);
  if (memory == nullptr) throw std::bad_alloc();
  // NOLINTNEXTLINE(cppcoreguidelines-no-malloc, cppcoreguidelines-owning-memory)
  std::shared_ptr<float> owner(static_cast<float*>(memory), [](float* values) { std::free(values); });
  if (large) madvise(memory, size, MADV_HUGEPAGE);  // a failure is ignored: huge pages are only faster
  return owner;
}

bool means_no_memory(std::string_view message) {
  for (const std::string_view part : {"cannot create", "cannot allocate", "Cannot allocate", "out of memory"})
    if (message.find(part) != std::string_view::npos) return true;
  return false;
}

MemoryUse memory_use() {
  MemoryUse use;  // in KiB, as in the lines "VmRSS:     1234 kB" of the file
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == "VmRSS:") status >> use.now;
    if (word == "VmHWM:") status >> use.peak;
  }
  return {use.now * 1024, use.peak * 1024};
}

void reset_peak_memory() {
  std::ofstream("/proc/self/clear_refs") << "5";  // proc(5): resets VmHWM to the resident memory
}

void give_back_freed_memory() {
#ifdef __GLIBC__
  constexpr int kMmapThreshold = 1 << 18;
  mallopt(M_MMAP_THRESHOLD, kMmapThreshold);
  mallopt(M_TRIM_THRESHOLD, kMmapThreshold);
  malloc_trim(0);
#endif
}

}  // namespace attnctl
