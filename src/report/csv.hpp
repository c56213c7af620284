#pragma once

#include <string>
#include <string_view>

#include "base/files/output_file.hpp"
#include "report/ordered_chunks.hpp"
#include "results/results.hpp"

namespace attnctl {

/// Writes a table in the format of RFC 4180: a header line, CRLF after each line, and quotes around fields
/// that hold a comma, a quote or a line end. Undefined and non-finite cells are empty; an empty text is "".
/// Text cells are made safe:
///
/// - Control characters except tabs and line ends, and bytes that are not UTF-8, become \xNN.
/// - A text of at least two characters that begins with = + - @, a tab or a line end, and is not a number,
///   gets a leading ', so that no spreadsheet runs it as a formula.
///
/// Formats rows in parallel if options.pool is set. The memory is bounded.
void write_csv_table(OutputFile& out, const Table& table, const WriteOptions& options = {});

/// Appends one text cell in the same format.
void append_csv_text(std::string& line, std::string_view text);

}  // namespace attnctl
