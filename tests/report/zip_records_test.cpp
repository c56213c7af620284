#include "report/zip_records.hpp"

#include <doctest/doctest.h>

#include "report/npy_header.hpp"

using namespace attnctl;

namespace {

std::uint64_t number(const std::string& bytes, std::size_t at, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = size; i > 0; --i)
    value = value << 8U | static_cast<unsigned char>(bytes.at(at + i - 1));
  return value;
}

ZipMember member(std::uint64_t size, std::uint64_t offset) {
  return {"a.npy", false, 0x12345678, size, size, offset};
}

}  // namespace

TEST_CASE("sizes and offsets from 4 GiB on stand in the ZIP64 field") {
  constexpr std::uint64_t small = 1000;
  constexpr std::uint64_t large = 5ULL << 30U;
  struct Row {
    std::uint64_t size, offset;
    std::size_t local_extra, central_extra;
  };
  for (const Row& row :
       {Row{small, small, 0, 0}, Row{large, small, 20, 20}, Row{small, large, 0, 12},
        Row{large, large, 20, 28}, Row{0xFFFFFFFF, 0, 20, 20}, Row{small, 0xFFFFFFFF, 0, 12}}) {
    CAPTURE(row.size);
    CAPTURE(row.offset);
    const std::string local = local_header(member(row.size, row.offset));
    CHECK(local.size() == 30 + 5 + row.local_extra);
    CHECK(number(local, 28, 2) == row.local_extra);
    CHECK(number(local, 4, 2) == (row.local_extra != 0 ? 45 : 20));
    CHECK(number(local, 22, 4) == (row.local_extra != 0 ? 0xFFFFFFFF : row.size));
    if (row.local_extra != 0) CHECK(number(local, 35 + 4, 8) == row.size);

    const std::string directory = central_directory({member(row.size, row.offset)}, 77);
    CHECK(number(directory, 30, 2) == row.central_extra);
    CHECK(number(directory, 42, 4) == (row.offset >= 0xFFFFFFFF ? 0xFFFFFFFF : row.offset));
    if (row.offset >= 0xFFFFFFFF) CHECK(number(directory, 46 + 5 + row.central_extra - 8, 8) == row.offset);
    CHECK(directory.size() == 46 + 5 + row.central_extra + 22);
  }
}

TEST_CASE("a directory that begins past 4 GiB has ZIP64 end records") {
  constexpr std::uint64_t offset = 6ULL << 30U;
  const std::string directory = central_directory({member(10, 0)}, offset);
  const std::size_t record = 46 + 5;
  REQUIRE(directory.size() == record + 56 + 20 + 22);
  CHECK(number(directory, record, 4) == 0x06064b50);
  CHECK(number(directory, record + 24, 8) == 1);       // entries
  CHECK(number(directory, record + 40, 8) == record);  // size of the directory
  CHECK(number(directory, record + 48, 8) == offset);
  CHECK(number(directory, record + 56, 4) == 0x07064b50);
  CHECK(number(directory, record + 56 + 8, 8) == offset + record);
  CHECK(number(directory, record + 76 + 16, 4) == 0xFFFFFFFF);
}

TEST_CASE("NPY headers are NumPy's") {
  struct Row {
    Shape shape;
    const char* want;
  };
  for (const Row& row :
       {Row{{}, "()"}, Row{{3}, "(3,)"}, Row{{2, 3}, "(2, 3)"}, Row{{0, 1, 9}, "(0, 1, 9)"}}) {
    const std::string header = npy_header("<f4", row.shape);
    CHECK(header.size() % 64 == 0);
    CHECK(header.size() - 10 == number(header, 8, 2));
    CHECK(header.substr(10).starts_with(
        "{'descr': '<f4', 'fortran_order': False, 'shape': " + std::string(row.want) + ", }"));
    CHECK(header.back() == '\n');
  }
}
