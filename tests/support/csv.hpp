#pragma once

#include <map>
#include <string>
#include <vector>

namespace attnctl::test {

/// Splits CSV into rows of fields. Line ends in fields are not supported.
std::vector<std::vector<std::string>> csv_fields(const std::string& text);

/// Returns the rows below the header of a CSV table, as cells by column.
using CsvRow = std::map<std::string, std::string>;
std::vector<CsvRow> csv_rows(const std::string& text);

}  // namespace attnctl::test
