#include "report/text/text.hpp"

#include <limits>
#include <stdexcept>

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "results/select.hpp"

using namespace attnctl;

namespace {

Table heads() {
  return make_table("heads", {"head", "rank", "share", "best_offset", "token"},
                    {{std::string("0.0"), 61.94F, 0.00123, std::int64_t{-1}, std::string("it")},
                     {std::string("0.10"), 8.0F, 0.04, std::int64_t{5}, std::string("\xe6\x97\xa5\x1b[2J")},
                     {std::string("1.0"), Cell{}, 0.0, Cell{}, std::string("\xc4\xa0was")}});
}

std::string text_of(const Table& table, const TextOptions& options = {}) {
  std::string text;
  append_text_table(text, table, options);
  return text;
}

std::vector<std::string> first_column(const Table& table) {
  std::vector<std::string> words;
  std::vector<Cell> cells(table.columns.size());
  for (std::size_t row = 0; row < table.rows; ++row) {
    table.row(row, cells);
    words.push_back(std::get<std::string>(cells[0]));
  }
  return words;
}

}  // namespace

TEST_CASE("a table as aligned text, by hand") {
  CHECK(text_of(heads()) ==
        "head    rank   share  best_offset  token\n"
        "0.0   61.940  0.0012           -1  it\n"
        "0.10   8.000  0.0400            5  \xe6\x97\xa5\\x1b[2J\n"
        "1.0        -  0.0000            -  \xc4\xa0was\n");
  CHECK(text_of(make_table("t", {"a", "b"}, {{true, -0.0001F}}), {false, 2, 80}) == "a       b\nyes  0.00\n");
  CHECK(text_of(make_table("t", {"name"}, {{std::string("x")}}), {true, {}, 80}) ==
        "\x1b[1mname\x1b[0m\nx\n");
}

TEST_CASE("wide characters take two columns of the alignment") {
  CHECK(text_of(make_table("t", {"k", "v"},
                           {{std::string("\xe6\x97\xa5\xe6\x9c\xac"), std::int64_t{1}},
                            {std::string("e\xcc\x81"), std::int64_t{2}}})) ==
        "k     v\n\xe6\x97\xa5\xe6\x9c\xac  1\ne\xcc\x81     2\n");
}

TEST_CASE("rows are sorted by a column, the largest first, and cut") {
  using Words = std::vector<std::string>;
  CHECK(first_column(select_rows(heads(), {})) == Words{"0.0", "0.10", "1.0"});
  CHECK(first_column(select_rows(heads(), {{}, false, 1})) == Words{"0.0"});
  CHECK(first_column(select_rows(heads(), {"share", false, {}})) == Words{"0.10", "0.0", "1.0"});
  CHECK(first_column(select_rows(heads(), {"share", true, 2})) == Words{"1.0", "0.0"});
  CHECK(first_column(select_rows(heads(), {"rank", true, {}})) == Words{"0.10", "0.0", "1.0"});
  CHECK(first_column(select_rows(heads(), {"rank", false, 9})) == Words{"0.0", "0.10", "1.0"});
  CHECK(first_column(select_rows(heads(), {"head", true, {}})) == Words{"0.0", "0.10", "1.0"});
  const float not_a_number = std::numeric_limits<float>::quiet_NaN();
  const Table ties = make_table("t", {"w", "x"},
                                {{std::string("a"), 1.0F},
                                 {std::string("b"), not_a_number},
                                 {std::string("c"), 1.0F},
                                 {std::string("d"), 2.0F}});
  CHECK(first_column(select_rows(ties, {"x", false, {}})) == Words{"d", "a", "c", "b"});
  try {
    (void)select_rows(heads(), {"entropi", false, {}});
    FAIL("sorted");
  } catch (const Error& error) {
    CHECK(error.status() == Status::usage);
    CHECK(std::string(error.what()).find("best_offset") != std::string::npos);
  }
}

TEST_CASE("columns are chosen by name") {
  CHECK(text_of(select_columns(heads(), {"token", "head"})).starts_with("token"));
  CHECK_THROWS_AS((void)select_columns(heads(), {"none"}), std::invalid_argument);
}

TEST_CASE("a matrix as text, by hand") {
  TextMatrix matrix{"query",
                    {"it", "\x1b]was"},
                    {"a", "antidisestablishment", "c"},
                    make_array({2, 3}, std::vector<float>{0.004F, -0.001F, 0.996F, 0.25F,
                                                          std::numeric_limits<float>::quiet_NaN(), 0.5F})};
  std::string text;
  append_text_matrix(text, matrix);
  CHECK(text ==
        "query          a antidi\xe2\x80\xa6       c\n"
        "it          0.00    0.00    1.00\n"
        "\\x1b]was    0.25       -    0.50\n");
  text.clear();
  append_text_matrix(text, matrix, {true, 1, 80});
  CHECK(text.find("\x1b[1m    1.0\x1b[0m") != std::string::npos);
  CHECK(text.find("\x1b[2m    0.0\x1b[0m") != std::string::npos);
  matrix.row_labels.clear();
  matrix.column_labels.clear();
  matrix.corner.clear();
  matrix.most_rows = 1;
  text.clear();
  append_text_matrix(text, matrix, {false, {}, 11});
  CHECK(text == "     0    1\n0 0.00 0.00\n(1 of 2 rows and 2 of 3 columns)\n");
  matrix.column_labels = {"one"};
  CHECK_THROWS_AS(append_text_matrix(text, matrix), std::invalid_argument);
}
