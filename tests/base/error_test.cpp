#include "base/error.hpp"

#include <doctest/doctest.h>

TEST_CASE("escaped makes text from outside safe for one line of a terminal") {
  struct Row {
    std::string_view text;
    std::string_view want;
  };
  for (const Row& row : {
           Row{"plain text", "plain text"},
           Row{"a\nb\x1b[31m", "a\\x0ab\\x1b[31m"},
           Row{std::string_view("n\0l", 3), "n\\x00l"},
           Row{"\xc4\xa0it \xe2\x96\x81 \xf0\x9f\x99\x82", "\xc4\xa0it \xe2\x96\x81 \xf0\x9f\x99\x82"},
           Row{"\xc2\x9b", "\\xc2\\x9b"},
           Row{"\xff\xc3", "\\xff\\xc3"},
           Row{"\xed\xa0\x80", "\\xed\\xa0\\x80"},
       }) {
    CAPTURE(row.want);
    CHECK(attnctl::escaped(row.text) == row.want);
  }
}
