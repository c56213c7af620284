#pragma once

#include <cstdint>

namespace attnctl {

/// Resident bytes of this process, mapped files included.
struct MemoryUse {
  std::uint64_t now = 0;
  std::uint64_t peak = 0;  // since it began
};

/// Zeros where the system does not tell.
[[nodiscard]] MemoryUse memory_use();

/// From now on memory of big blocks goes back to the system as soon as it is freed. Without this the C
/// library keeps some of it for later.
void give_back_freed_memory();

}  // namespace attnctl
