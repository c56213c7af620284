#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "base/pool.hpp"

namespace attnctl {

/// Appends the text of chunk number `chunk` to `text`, which is empty; called from several threads.
using FormatChunk = std::function<void(std::size_t chunk, std::string& text)>;

/// Takes the chunks one after the other.
using WriteChunk = std::function<void(const std::string& text)>;

/// Formats chunks in parallel and writes them in their order. A worker that is ahead waits for its turn
/// before it formats more, so that no more than one chunk a worker is in memory.
void write_in_order(Pool* pool, std::size_t chunks, const FormatChunk& format, const WriteChunk& write);

}  // namespace attnctl
