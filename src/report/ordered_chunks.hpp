#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "base/pool.hpp"
#include "report/number_format.hpp"

namespace attnctl {

/// Options that the writers of text formats share.
struct WriteOptions {
  NumberFormat number;
  Pool* pool = nullptr;  // formats in parallel if set; the output does not depend on it
  std::atomic<std::uint64_t>* non_finite =
      nullptr;  // CSV: adds the number of cells left empty because they are NaN or infinite
};

/// Appends the text of a chunk to `text`, which is empty. Called from several threads.
using FormatChunk = std::function<void(std::size_t chunk, std::string& text)>;

/// Writes the text of one chunk. Called in the order of the chunks.
using WriteChunk = std::function<void(const std::string& text)>;

/// Formats chunks in parallel and writes them in order. A worker that is ahead waits for its turn before it
/// formats another chunk, so at most one chunk per worker is in memory.
void write_in_order(Pool* pool, std::size_t chunks, const FormatChunk& format, const WriteChunk& write);

}  // namespace attnctl
