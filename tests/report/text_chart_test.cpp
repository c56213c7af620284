#include <string>

#include <doctest/doctest.h>

#include "report/text.hpp"

namespace attnctl {
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

}  // namespace
}  // namespace attnctl
