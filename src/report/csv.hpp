#pragma once

#include <string>
#include <string_view>

#include "base/files/output_file.hpp"
#include "report/ordered_chunks.hpp"
#include "results/results.hpp"

namespace attnctl::report {

/// Writes a table in the format of RFC 4180: a header line, CRLF after each line, and quotes around fields
/// that contain the separator, a quote or a line end. The separator is options.separator. Undefined and
/// non-finite cells are empty; an empty text is written as "". Text cells are made safe:
///
/// - Control characters except tabs and line ends, and bytes that are not UTF-8, are replaced by \xNN.
/// - A leading ' is added to a text of at least two characters that begins with = + - @, a tab or a line end
/// and is not a number, so that no spreadsheet program runs it as a formula.
///
/// Formats rows in parallel if options.pool is not null. Only a limited number of rows is in memory at a
/// time.
void write_csv_table(OutputFile& out, const Table& table, const WriteOptions& options = {});

/// Appends one text cell in the format of write_csv_table().
void append_csv_text(std::string& line, std::string_view text, char separator = ',');

}  // namespace attnctl::report
