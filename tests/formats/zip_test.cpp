#include "formats/zip.hpp"

#include <random>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "formats/npy.hpp"

using namespace attnctl;
using namespace attnctl::formats;

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

/// Reads a directory from the end of the file, like a ZIP reader. The first `before` bytes are missing.
std::vector<ZipMember> read_directory(const std::string& tail, std::uint64_t before) {
  const auto field = [&](std::uint64_t place, std::size_t size) {
    return number(tail, place - before, size);
  };
  const std::uint64_t end = before + tail.size() - 22;
  REQUIRE(field(end, 4) == 0x06054b50);
  std::uint64_t count = field(end + 10, 2);
  std::uint64_t place = field(end + 16, 4);
  if (count == 0xFFFF || place == 0xFFFFFFFF) {
    REQUIRE(field(end - 20, 4) == 0x07064b50);
    const std::uint64_t record = field(end - 20 + 8, 8);
    REQUIRE(field(record, 4) == 0x06064b50);
    count = field(record + 32, 8);
    place = field(record + 48, 8);
    CHECK(place + field(record + 40, 8) == record);
  }
  std::vector<ZipMember> members(count);
  for (ZipMember& member : members) {
    REQUIRE(field(place, 4) == 0x02014b50);
    const std::uint64_t name_size = field(place + 28, 2), extra_size = field(place + 30, 2);
    member = {tail.substr(place - before + 46, name_size),
              field(place + 10, 2) == 8,
              static_cast<std::uint32_t>(field(place + 16, 4)),
              field(place + 20, 4),
              field(place + 24, 4),
              field(place + 42, 4)};
    std::uint64_t extra = place + 46 + name_size + 4;
    for (std::uint64_t* value : {&member.size, &member.stored_size, &member.offset}) {
      if (*value != 0xFFFFFFFF) continue;
      *value = field(extra, 8);
      extra += 8;
    }
    place += 46 + name_size + extra_size;
    CHECK((extra_size == 0 || extra == place));
  }
  return members;
}

}  // namespace

TEST_CASE("a reader finds every member of an archive of terabytes or of many members") {
  std::mt19937_64 random(9);
  for (const std::size_t count : {1U, 100U, 70000U}) {
    std::vector<ZipMember> members;
    std::uint64_t end = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const bool large = random() % 50 == 0 && end < std::uint64_t{1} << 44U;
      const std::uint64_t size = large ? random() % (std::uint64_t{1} << 40U) : random() % 5000;
      ZipMember member{
          "m" + std::to_string(i), i % 3 == 0, static_cast<std::uint32_t>(random()), size / 2 + 1, size, end};
      end += local_header(member).size() + member.stored_size;
      members.push_back(std::move(member));
    }
    const std::vector<ZipMember> read = read_directory(central_directory(members, end), end);
    REQUIRE(read.size() == count);
    std::size_t different = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const auto fields = [](const ZipMember& m) {
        return std::tie(m.name, m.deflated, m.crc, m.stored_size, m.size, m.offset);
      };
      different += fields(read[i]) == fields(members[i]) ? 0U : 1U;
    }
    CHECK(different == 0);
  }
}

TEST_CASE("sizes and offsets from 4 GiB on are in the ZIP64 field") {
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

TEST_CASE("NPY headers equal those of NumPy") {
  struct Row {
    Shape shape;
    const char* want;
  };
  for (const Row& row :
       {Row{{}, "()"}, Row{{3}, "(3,)"}, Row{{2, 3}, "(2, 3)"}, Row{{0, 1, 9}, "(0, 1, 9)"}}) {
    const std::string header = npy_header(DType::f32, row.shape);
    CHECK(header.size() % 64 == 0);
    CHECK(header.size() - 10 == number(header, 8, 2));
    CHECK(header.substr(10).starts_with(
        "{'descr': '<f4', 'fortran_order': False, 'shape': " + std::string(row.want) + ", }"));
    CHECK(header.back() == '\n');
  }
  CHECK(npy_header(DType::boolean, {}).substr(10).starts_with("{'descr': '|b1'"));
  CHECK_THROWS_AS((void)npy_header(DType::bf16, {2}), std::invalid_argument);
}
