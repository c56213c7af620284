#include "support/bytes.hpp"

#include <doctest/doctest.h>

using attnctl::test::little_endian;

TEST_CASE("numbers lie little-endian in any number of bytes") {
  CHECK(little_endian(0x0102, 0).empty());
  CHECK(little_endian(0x0102, 1) == std::string("\x02", 1));
  CHECK(little_endian(0x0102, 4) == std::string("\x02\x01\0\0", 4));
  CHECK(little_endian(~0ULL, 8) == std::string(8, '\xFF'));
  CHECK(little_endian(~0ULL, 10) == std::string(8, '\xFF') + std::string(2, '\0'));
}
