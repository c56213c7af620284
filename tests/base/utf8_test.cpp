#include "base/utf8.hpp"

#include <doctest/doctest.h>

TEST_CASE("UTF-8 sequences are told as Unicode's table 3-7 has them") {
  struct Row {
    std::string_view text;
    std::size_t length;
    char32_t point;
  };
  for (const Row& row : {
           Row{"a", 1, 'a'}, Row{"\xc3\xa9", 2, 0xE9}, Row{"\xe2\x80\xa8", 3, 0x2028},
           Row{"\xef\xbf\xbf", 3, 0xFFFF}, Row{"\xf0\x9f\x99\x82", 4, 0x1F642},
           Row{"\xf4\x8f\xbf\xbf", 4, 0x10FFFF}, Row{"\xf4\x90\x80\x80", 0, 0},  // above the last code point
           Row{"\xc0\x80", 0, 0},                                                // overlong
           Row{"\xe0\x9f\xbf", 0, 0},                                            // overlong
           Row{"\xed\xa0\x80", 0, 0},                                            // surrogate
           Row{"\x80", 0, 0}, Row{"\xe2\x80", 0, 0},                             // cut short
       }) {
    CAPTURE(row.text);
    CHECK(attnctl::utf8_sequence_length(row.text) == row.length);
    if (row.length != 0) CHECK(attnctl::utf8_code_point(row.text) == row.point);
  }
}
