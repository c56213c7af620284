#include "base/fresh_memory.hpp"

#include <cstdlib>
#include <new>
#include <sys/mman.h>

#include "base/checked.hpp"

namespace attnctl {

std::shared_ptr<float> fresh_floats(std::size_t count) {
  constexpr std::size_t huge_page = std::size_t{1} << 21U;
  constexpr std::size_t line = 64;
  const auto bytes = checked_mul(count, sizeof(float));
  const auto padded = bytes ? checked_add(*bytes, huge_page - 1) : std::nullopt;
  if (!padded) throw std::bad_alloc();
  const bool large = *bytes >= 2 * huge_page;
  const std::size_t alignment = large ? huge_page : line;
  const std::size_t size = (*bytes / alignment + 1) * alignment;
  void* const memory = std::aligned_alloc(alignment, size);
  if (memory == nullptr) throw std::bad_alloc();
  std::shared_ptr<float> owner(static_cast<float*>(memory), [](float* values) { std::free(values); });
  if (large) madvise(memory, size, MADV_HUGEPAGE);  // advice: where it is not taken, pages are small
  return owner;
}

}  // namespace attnctl
