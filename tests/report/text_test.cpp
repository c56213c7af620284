#include "report/text.hpp"

#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "report/drawing.hpp"
#include "results/results.hpp"

using namespace attnctl;
using namespace attnctl::report;

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

TEST_CASE("rows are sorted by a column, the largest first, and limited") {
  using Words = std::vector<std::string>;
  CHECK(first_column(select_rows(heads(), "", {})) == Words{"0.0", "0.10", "1.0"});
  CHECK(first_column(select_rows(heads(), "", 1)) == Words{"0.0"});
  CHECK(first_column(select_rows(heads(), "share", {})) == Words{"0.10", "0.0", "1.0"});
  CHECK(first_column(select_rows(heads(), "share", 2)) == Words{"0.10", "0.0"});
  CHECK(first_column(select_rows(heads(), "rank", 9)) == Words{"0.0", "0.10", "1.0"});
  CHECK(first_column(select_rows(heads(), "head", {})) == Words{"1.0", "0.10", "0.0"});
  const float not_a_number = std::numeric_limits<float>::quiet_NaN();
  const Table ties = make_table("t", {"w", "x"},
                                {{std::string("a"), 1.0F},
                                 {std::string("b"), not_a_number},
                                 {std::string("c"), 1.0F},
                                 {std::string("d"), 2.0F}});
  CHECK(first_column(select_rows(ties, "x", {})) == Words{"d", "a", "c", "b"});
  try {
    (void)select_rows(heads(), "entropi", {});
    FAIL("sorted");
  } catch (const Error& error) {
    CHECK(error.status() == Status::usage);
    CHECK(std::string(error.what()).find("best_offset") != std::string::npos);
  }
}

TEST_CASE("columns are chosen by name") {
  CHECK(text_of(select_columns(heads(), {"token", "head"})).starts_with("token"));
  CHECK_THROWS_WITH_AS((void)select_columns(heads(), {"rnk"}),
                       "--columns rnk: the table has no such column (did you mean \"rank\"?); it has head, "
                       "rank, share, best_offset, token",
                       Error);
}

TEST_CASE("a table that exceeds the width has fewer columns or a shorter text, by hand") {
  CHECK(text_of(heads(), {.width = 44}) == text_of(heads()));
  CHECK(text_of(heads(), {.width = 40, .all_columns = true}) == text_of(heads()));
  CHECK(text_of(heads(), {.width = 40}) ==
        "head    rank   share  best_offset\n"
        "0.0   61.940  0.0012           -1\n"
        "0.10   8.000  0.0400            5\n"
        "1.0        -  0.0000            -\n"
        "1 more column (token): --columns all\n");
  CHECK(text_of(heads(), {.width = 20}) ==
        "head    rank   share\n"
        "0.0   61.940  0.0012\n"
        "0.10   8.000  0.0400\n"
        "1.0        -  0.0000\n"
        "2 more columns\n"
        "  (best_offset,\n"
        "  token): --columns\n"
        "  all\n");
  const Table wide = make_table("t", {"name", "n"}, {{std::string(60, 'x'), std::int64_t{1}}});
  CHECK(text_of(wide, {.width = 40}) == "name" + std::string(33, ' ') + "  n\n" + std::string(36, 'x') +
                                            "\xe2\x80\xa6  1\ncells are shortened: --columns all\n");
}

TEST_CASE("a table that exceeds the width leaves out columns without a value first") {
  const Table table = make_table("t", {"head", "random", "share", "count"},
                                 {{std::string("0.0"), Cell{}, 0.5, std::int64_t{3}},
                                  {std::string("0.1"), Cell{}, 0.25, std::int64_t{4}}});
  CHECK(text_of(table, {.width = 26}).starts_with("head  random  share  count\n"));
  CHECK(text_of(table, {.width = 25}) ==
        "head  share  count\n"
        "0.0   0.500      3\n"
        "0.1   0.250      4\n");
  CHECK(text_of(table, {.width = 17}).ends_with("\n1 more column\n  (count):\n  --columns all\n"));
}

TEST_CASE("a grid that exceeds the width has fewer decimals, but at least one") {
  TextTable grid{"T", make_table("grid", {"layer", "0", "1"}, {{std::string("0"), 0.125, 12.5}}), {}, true};
  const auto page = [&](const TextOptions& options) {
    const std::vector<PageBlock> blocks = {grid};
    return text_page(blocks, options);
  };
  CHECK(page({.width = 20}) == "T\nlayer      0       1\n0      0.125  12.500\n");
  TextTable small = grid;
  small.table = make_table("grid", {"layer", "0", "1"}, {{std::string("0"), 0.0771, 0.5}});
  CHECK(report::text_page(std::vector<PageBlock>{small}, {}) ==
        "T\nlayer      0      1\n0      0.077  0.500\n");
  CHECK(page({.width = 18}) == "T\nlayer     0      1\n0      0.12  12.50\n");
  CHECK(page({.width = 16}) == "T\nlayer    0     1\n0      0.1  12.5\n");
  CHECK(page({.width = 15}).starts_with("T\nlayer    0\n0      0.1\n1 more column"));
  CHECK(page({.digits = 3, .width = 18}).find("0.125\n1 more column") != std::string::npos);
  grid.grid = false;
  CHECK(page({.width = 18}).find("0.125\n1 more column") != std::string::npos);
}

TEST_CASE("a line that exceeds the width is broken at spaces, and its bold text is kept") {
  CHECK(text_line({"a title", ": of words"}, {}) == "a title: of words\n");
  CHECK(text_line({"a title", ": of words"}, {.styled = true, .width = 10}) ==
        "\x1b[1ma title\x1b[0m:\n  of words\n");
  CHECK(text_line({"日本 日本", ""}, {.styled = true, .width = 6}) == "\x1b[1m日本\n  日本\x1b[0m\n");
  CHECK(wrapped("  run --one 1 --two 2", 15, " \\\n    ", " --") == "  run --one 1 \\\n    --two 2");
}

TEST_CASE("a matrix as text, by hand") {
  TextMatrix matrix{"query",
                    {"it", "\x1b]was"},
                    {"a", "antidisestablishment", "c"},
                    make_tensor({2, 3}, std::vector<float>{0.004F, -0.001F, 0.996F, 0.25F,
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
  CHECK(text == "(1 of 2 rows and 2 of 3 columns: --columns all)\n     0    1\n0 0.00 0.00\n");
  text.clear();
  append_text_matrix(text, matrix, {.width = 11, .all_columns = true});
  CHECK(text == "     0    1    2\n0 0.00 0.00 1.00\n1 0.25    - 0.50\n");
  matrix.column_labels = {"one"};
  CHECK_THROWS_AS(append_text_matrix(text, matrix), std::invalid_argument);
}

namespace attnctl::report {
namespace {

std::string drawn(const Chart& chart, std::vector<std::vector<Cell>> rows, std::size_t width = 40) {
  std::string text;
  append_text_chart(text, make_table("rows", {"x", "a", "b"}, std::move(rows)), chart, {.width = width});
  return text;
}

TEST_CASE("a line in characters") {
  const std::string text = drawn({.title = "T", .x = "x", .y = {"a"}, .x_axis = "X"},
                                 {{0.0, 0.0, Cell()}, {10.0, 1.0, Cell()}, {Cell(), 3.0, Cell()}});
  CHECK(text ==
        "T\n"
        "1 |                                   .*\n"
        "  |                               ....\n"
        "  |                            ...\n"
        "  |                         ...\n"
        "  |                     ....\n"
        "  |                  ...\n"
        "  |                ...\n"
        "  |            ....\n"
        "  |         ...\n"
        "  |      ...\n"
        "  |  ....\n"
        "0 |*.\n"
        "  +-------------------------------------\n"
        "   0                X                 10\n");
}

TEST_CASE("bars in characters, of both signs and several columns") {
  const std::string text =
      drawn({.title = "T", .x = "x", .y = {"a", "b"}, .bars = true},
            {{std::string("0.0"), 1.0, -0.5}, {std::string("long\x1b name"), Cell(), 0.25}}, 42);
  CHECK(text ==
        "T\n"
        "0.0           |       ************* 1\n"
        "              |ooooooo -0.5\n"
        "long\\x1b name |\n"
        "              |       ooo 0.25\n"
        "               * a   o b\n");
}

TextMatrix matrix(std::vector<float> values, std::size_t columns, std::vector<std::string> rows = {},
                  std::vector<std::string> names = {}) {
  const std::size_t height = values.size() / columns;
  return {.corner = "q",
          .row_labels = std::move(rows),
          .column_labels = std::move(names),
          .values = make_tensor({height, columns}, std::move(values))};
}

TEST_CASE("a heatmap in shades, labels down the columns, wide characters and marks counted") {
  std::string text;
  append_text_heatmap(text,
                      matrix({1, 0, 0.04F, 0.05F, 0.25F, 0.75F}, 3, {"a", "動物"}, {"ab", "中", "e\u0301"}));
  CHECK(text ==
        "     a\n"
        "q    b 中e\u0301\n"
        "a    ██\n"
        "動物 ░░▒▒██\n"
        "weight 0 ░░▒▒▒▓▓███ 1 (blank: below 0.05)\n");
}

TEST_CASE("a heatmap in 256 colours") {
  std::string text;
  append_text_heatmap(text, matrix({0, 1, std::numeric_limits<float>::quiet_NaN(), 0}, 2), {.colours = true});
  // White; (0, 95, 95), the nearest colour to the dark end of the blues, (8, 48, 107); grey for an undefined
  // weight.
  CHECK(text.find("0 \x1b[48;5;231m  \x1b[48;5;23m  \x1b[0m\n") != std::string::npos);
  CHECK(text.find("1 \x1b[48;5;247m  \x1b[48;5;231m  \x1b[0m\n") != std::string::npos);
  CHECK(text.ends_with("\x1b[0m 1\n"));
}

TEST_CASE("a heatmap omits rows and columns that do not fit, and reports them") {
  std::string text;
  TextMatrix large = matrix(std::vector<float>(200, 0.5F), 20);
  large.most_rows = 3;
  append_text_heatmap(text, large, {.width = 14});
  CHECK(text.starts_with("(3 of 10 rows and 12 of 20 columns: --columns all)\n"));
  TextMatrix advised = large;
  advised.advice = "; --show 0.3 draws it";
  std::string numbers;
  append_text_matrix(numbers, advised, {.width = 14});
  CHECK(numbers.starts_with("(3 of 10 rows and 2 of 20 columns: --columns all; --show 0.3 draws it)\n"));
  CHECK(text.find("\n0 ▓▓▓▓▓▓▓▓▓▓▓▓\n") != std::string::npos);
  text.clear();
  large.column_labels.assign(20, "中");
  append_text_heatmap(text, large, {.width = 14});
  CHECK(text.starts_with("(3 of 10 rows and 6 of 20 columns: --columns all)\n"));
}

TEST_CASE("cells of a heatmap have one column if two do not fit") {
  TextMatrix wide = matrix(std::vector<float>(8, 0.5F), 4, {}, {"ab", "c", "d", "e"});
  wide.most_rows = 1;
  std::string text;
  append_text_heatmap(text, wide, {.width = 6, .all_columns = true});
  CHECK(text.starts_with("  a\nq bcde\n0 ▓▓▓▓\n1 ▓▓▓▓\n"));
  text.clear();
  append_text_heatmap(text, wide, {.width = 4, .all_columns = true});
  CHECK(text.starts_with("  a\nq bcde\n0 ▓▓▓▓\n1 ▓▓▓▓\n"));
  text.clear();
  append_text_heatmap(text, wide, {.width = 10, .all_columns = true});
  CHECK(text.find("\n0 ▓▓▓▓▓▓▓▓\n") != std::string::npos);
  text.clear();
  append_text_heatmaps(text, {wide}, {.width = 3, .all_columns = true});
  CHECK(text.starts_with("  q\n0 ▓▓▓▓\n1 ▓▓▓▓\n"));
}

TEST_CASE("small heatmaps side by side") {
  const std::vector<TextMatrix> three(3, matrix({1, 0, 0, 1}, 2));
  std::string text;
  append_text_heatmaps(text, three, {.width = 8});
  CHECK(text ==
        "  q   q\n"
        "0 █   █\n"
        "1  █   █\n"
        "\n"
        "  q\n"
        "0 █\n"
        "1  █\n"
        "weight 0 ░░▒▒▒▓▓███ 1 (blank: below 0.05)\n");
  text.clear();
  append_text_heatmaps(text, {matrix({1, 0, 0, 1}, 2, {"cat", "antidisestablishment"})});
  CHECK(text.starts_with("           q\ncat        █\nantidises…  █\n"));
  text.clear();
  append_text_heatmaps(text, {matrix({1, 0, 0, 1, 1, 1}, 2)}, {.colours = true});
  CHECK(
      text.starts_with("    q\n"
                       "0 1 \x1b[38;5;23;48;5;231m▀\x1b[38;5;231;48;5;23m▀\x1b[0m\n"
                       "2   \x1b[38;5;23;49m▀\x1b[38;5;23;49m▀\x1b[0m\n"));
}

TEST_CASE("columns of a terminal") {
  CHECK(display_width("abc") == 3);
  CHECK(display_width("中文") == 4);
  CHECK(display_width("ｱﾞ") == 2);       // half-width
  CHECK(display_width("Ａ") == 2);       // full-width
  CHECK(display_width("e\u0301") == 1);  // combining mark
  CHECK(display_width("\U0001F600") == 2);
  CHECK(display_width("\u1112\u1161\u11AB") == 2);  // Hangul in separate parts
  CHECK(display_width("\uD55C") == 2);
  CHECK(display_width("ก\u0E34") == 1);  // Thai vowel above
  CHECK(display_width("\u200B") == 0);
}

TEST_CASE("the nearest colours of a terminal") {
  CHECK(terminal_colour({0, 0, 0}) == 16);
  CHECK(terminal_colour({255, 255, 255}) == 231);
  CHECK(terminal_colour({255, 0, 0}) == 196);
  CHECK(terminal_colour({128, 128, 128}) == 244);
  CHECK(terminal_colour({95, 135, 175}) == 67);
}

}  // namespace
}  // namespace attnctl::report
