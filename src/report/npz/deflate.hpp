#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/pool.hpp"

namespace attnctl {

/// Deflates `size` bytes that `read(offset, bytes)` gives (called from several threads) and hands the result
/// to `write` in order. The input is cut into blocks of a fixed size that are deflated apart, each ended at a
/// byte's boundary, so that the bytes do not depend on the number of threads.
void deflate_blocks(std::uint64_t size, Pool* pool,
                    const std::function<void(std::uint64_t offset, std::span<std::byte> bytes)>& read,
                    const std::function<void(const std::string& bytes)>& write);

}  // namespace attnctl
