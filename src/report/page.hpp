#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/files/output_file.hpp"
#include "base/pool.hpp"
#include "results/results.hpp"

// The writer of HTML pages. Scripts and styles are in src/report/html/.
namespace attnctl::report {

struct PageOptions {
  std::optional<std::size_t> top_k;  // keep only this number of the largest weights of each query
  std::uint64_t limit = std::uint64_t{64} << 20U;  // largest size of the page in bytes
  bool operator==(const PageOptions&) const = default;
};

/// What a page says about its run.
struct PageHead {
  std::string title;                 // name of the model or the experiment
  std::vector<std::string> command;  // words of the command without the options of its output
  std::string weighting;             // "norm" or "norm-row"; empty for attention weights
};

/// Largest total number of weights that are stored in 16 bits. More are stored in 8 bits.
inline constexpr std::uint64_t kMostPreciseWeights = 1'000'000;

/// Numbers as the page stores them. Each row has its own scale: value = low + step * code, where low is the
/// smallest number of the row, and low + step * (largest code of a number) the largest one.
struct StoredNumbers {
  /// With 32 bits: float32. Otherwise, for all rows: low (float32), then step (float32). If only some numbers
  /// of each row are kept: the low bytes, then the high bytes of their columns. Then the low bytes of the
  /// codes and, with 16 bits, their high bytes. The largest code of 8 or 16 bits means undefined; it is not
  /// the code of a number.
  std::string bytes;
  double error = 0;    // largest difference of a number and its stored value
  double highest = 0;  // largest number; 0 if there is none
};

/// Stores a matrix [rows, columns]. `bits` is 8, 16, or 32 for the numbers themselves. If `kept` is not 0,
/// keeps only this number of the largest values of each row; a row with fewer columns has the column 65535
/// for the missing ones.
[[nodiscard]] StoredNumbers store_numbers(std::span<const float> values, std::size_t columns, int bits,
                                          std::size_t kept = 0);

/// Appends bytes in base64 (RFC 4648).
void append_base64(std::string& text, std::string_view bytes);

/// Writes a page that shows the tables, pictures, attention and text lines of `results` without a network.
/// All texts of the results are data in the page, never markup. Tables have at most 20,000 rows. Numbers that
/// are not finite are undefined in the page. Throws Error(limit) if the page would be larger than
/// options.limit.
void write_page(OutputFile& out, const Results& results, const PageHead& head, const Warnings& warnings,
                const PageOptions& options, Pool& pool);

}  // namespace attnctl::report
