#include "base/parse_number.hpp"

#include <doctest/doctest.h>

TEST_CASE("a number is the whole text, without sign or space") {
  CHECK(attnctl::parse_number("0") == 0);
  CHECK(attnctl::parse_number("18446744073709551615") == 18446744073709551615ULL);
  for (const char* text : {"", "-1", "+1", " 1", "1 ", "1.0", "1e3", "x", "18446744073709551616"}) {
    CAPTURE(text);
    CHECK_FALSE(attnctl::parse_number(text).has_value());
  }
}
