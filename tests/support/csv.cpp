#include "support/csv.hpp"

#include <doctest/doctest.h>

#include "support/console.hpp"

namespace attnctl::test {

std::vector<std::vector<std::string>> csv_fields(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  for (const std::string& line : lines_of(text)) {
    if (line.empty()) continue;
    std::vector<std::string>& row = rows.emplace_back(1);
    bool quoted = false;
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (line[i] == '"' && quoted && line.substr(i + 1, 1) == "\"") {
        row.back() += line[i++];
      } else if (line[i] == '"') {
        quoted = !quoted;
      } else if (line[i] == ',' && !quoted) {
        row.emplace_back();
      } else {
        row.back() += line[i];
      }
    }
  }
  return rows;
}

std::vector<CsvRow> csv_rows(const std::string& text) {
  const std::vector<std::vector<std::string>> fields = csv_fields(text);
  REQUIRE_FALSE(fields.empty());
  std::vector<CsvRow> rows(fields.size() - 1);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    REQUIRE(fields[i + 1].size() == fields[0].size());
    for (std::size_t c = 0; c < fields[0].size(); ++c) rows[i][fields[0][c]] = fields[i + 1][c];
  }
  return rows;
}

}  // namespace attnctl::test
