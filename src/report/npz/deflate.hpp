#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/pool.hpp"

namespace attnctl {

/// Deflates the `size` bytes that `read(offset, bytes)` provides and passes the result to `write` in order.
/// `read` is called from several threads. The input is cut into blocks of a fixed size that are deflated
/// independently and end at a byte boundary, so the output does not depend on the number of threads.
void deflate_blocks(std::uint64_t size, Pool* pool,
                    const std::function<void(std::uint64_t offset, std::span<std::byte> bytes)>& read,
                    const std::function<void(const std::string& bytes)>& write);

}  // namespace attnctl
