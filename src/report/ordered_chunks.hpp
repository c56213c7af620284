#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "base/pool.hpp"
#include "report/number_format.hpp"

namespace attnctl::report {

/// Options of the writers of JSON and CSV.
struct WriteOptions {
  NumberFormat number;
  Pool* pool = nullptr;  // if not null, formats in parallel; the output is the same
  std::atomic<std::uint64_t>* non_finite =
      nullptr;           // CSV: adds the number of cells left empty because they are NaN or infinite
  char separator = ',';  // CSV: the character between columns
};

/// Appends the text of a chunk to `text`, which is empty at the call. Called from several threads.
using FormatChunk = std::function<void(std::size_t chunk, std::string& text)>;

/// Writes the text of one chunk to the output. Called in the order of the chunks.
using WriteChunk = std::function<void(const std::string& text)>;

/// Formats chunks in parallel and writes them in order. A worker that has formatted a chunk waits until all
/// earlier chunks are written, so at most one chunk per worker is in memory.
void write_in_order(Pool* pool, std::size_t chunks, const FormatChunk& format, const WriteChunk& write);

}  // namespace attnctl::report
