#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "checkpoint/checkpoint.hpp"
#include "support/bytes.hpp"
#include "support/command_refusal.hpp"
#include "support/refusal.hpp"
#include "support/temp_dir.hpp"

using namespace attnctl;
using namespace attnctl::checkpoint;
using namespace attnctl::test;

namespace {

struct Row {
  int kind;
  std::string_view what;
  std::string bytes;
  std::vector<std::string_view> parts;
  Status status = Status::bad_input;
};

std::string dictionary(std::string_view descr, std::string_view shape) {
  return fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", descr, shape);
}

std::string array(std::string_view descr, std::string_view shape, std::size_t data = 8) {
  return npy(dictionary(descr, shape), std::string(data, '\1'));
}

/// Returns an NPY header with this dictionary.
std::string header(std::string_view text) {
  return npy(text, std::string(8, '\1'));
}

/// Returns a shape of extents of 1.
std::string ones(std::size_t dimensions) {
  std::string shape = "(";
  for (std::size_t i = 0; i < dimensions; ++i) shape += "1,";
  return shape + ")";
}

std::vector<Row> bad_npy() {
  const std::string good = array("<f4", "(2,)");
  std::string version = good;
  std::string minor = good;
  version[6] = 4;
  minor[7] = 1;
  return {
      {68, "bad magic", "\x93NUMPX" + good.substr(6), {"which begins with"}},
      {68, "empty", "", {"which begins with"}},
      {68, "version 0", npy(dictionary("<f4", "(2,)"), "12345678", 0), {"unsupported NPY version 0.0"}},
      {68, "version 4", version, {"unsupported NPY version 4.0"}},
      {68, "version 1.1", minor, {"unsupported NPY version 1.1"}},
      {69,
       "version 2 with a length of 4 GiB",
       std::string("\x93NUMPY\x02\0\xff\xff\xff\xff", 12),
       {"header length @byte 8", "got 4294967295"}},
      {69, "version 2 cut in the length", std::string("\x93NUMPY\x02\0\xff\xff", 10), {"got only 10 bytes"}},
      {69, "a header longer than the file", good.substr(0, 30), {"got a header of"}},
      {70, "missing descr", header("{'fortran_order': False, 'shape': (2,)}"), {"'descr' is missing"}},
      {70, "missing shape", header("{'descr': '<f4', 'fortran_order': False}"), {"'shape' is missing"}},
      {70, "missing order", header("{'descr': '<f4', 'shape': (2,)}"), {"'fortran_order' is missing"}},
      {70,
       "extra key",
       header("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x\x1b': 1}"),
       {"unsupported key 'x\\x1b'"}},
      {70,
       "key twice",
       header("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}"),
       {"'descr' twice"}},
      {71,
       "an expression for a shape",
       header("{'descr': '<f4', 'fortran_order': False, 'shape': (1+1,)}"),
       {"header @byte", "got \"+1,)"}},
      {71, "a call", header("__import__('os').system('true')"), {"need '{'"}},
      {71,
       "a call for a dtype",
       header("{'descr': str('<f4'), 'fortran_order': False, 'shape': (2,)}"),
       {"a dtype in quotes"}},
      {71,
       "a number for the order",
       header("{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}"),
       {"need True or False"}},
      {71,
       "no tuple",
       header("{'descr': '<f4', 'fortran_order': False, 'shape': (2)}"),
       {"header @byte 62: got \")", "need a comma"}},
      {71,
       "a list for a shape",
       header("{'descr': '<f4', 'fortran_order': False, 'shape': [2]}"),
       {"need '('"}},
      {71,
       "bytes after it",
       header("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} or 1"),
       {"the end of the header"}},
      {71,
       "cut",
       header("{'descr': '<f4', 'fortran_order': False, 'shape': (2,"),
       {"got the end of the header"}},
      {71, "no closing quote", header("{'descr': '<f4, "), {"closing quote"}},
      {72, "object dtype", array("|O", "(1,)"), {"unsupported dtype \"|O\"", "never unpickled"}},
      {72, "complex", array("<c8", "(1,)"), {"unsupported dtype \"<c8\""}},
      {72, "raw bytes, as bfloat16 is saved", array("|V2", "(4,)"), {"unsupported dtype \"|V2\""}},
      {72, "time", array("<M8[s]", "(1,)"), {"unsupported dtype"}},
      {72,
       "structured",
       header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}"),
       {"unsupported structured dtype"}},
      {72, "empty", array("", "(2,)"), {"unsupported dtype \"\""}},
      {73, "a dtype without byte order", array("|f4", "(2,)"), {"unsupported dtype \"|f4\""}},
      {73, "native byte order", array("=f4", "(2,)"), {"unsupported dtype \"=f4\""}},
      {74, "negative extent", array("<f4", "(-2,)"), {"got \"-2,)"}},
      {74, "product wraps", array("<f4", "(4294967296, 4294967296)"), {"shape", "64 bits"}},
      {74,
       "0 and a product that wraps",
       array("<f4", "(0, 4294967296, 4294967296)", 0),
       {"shape: got [0, 4294967296, 4294967296]; too large", "64 bits"}},
      {74, "bytes wrap", array("<f8", "(2305843009213693953,)"), {"shape", "64 bits"}},
      {74, "an extent beyond 64 bits", array("<f4", "(18446744073709551618,)"), {"64 bits"}},
      {75, "data short", array("<f4", "(3,)"), {"got 8 bytes of data, need 12 for shape [3] of F32"}},
      {75, "data long", array("<f4", "(1,)"), {"got 8 bytes of data, need 4"}},
      {82, "65 dimensions", array("<f4", ones(65)), {"at most 64 dimensions"}},
      {82, "ten thousand dimensions", array("<f4", ones(10'000)), {"at most 64 dimensions"}},
  };
}

const std::string kArray = array("<f4", "(2,)");

std::vector<Row> bad_zip() {
  const std::string good = zip({{.name = "a.npy", .data = kArray}});
  const std::string zeros = npy(dictionary("|u1", "(200000000,)"), "");
  // Member b is inside the data of member a.
  const std::string inner = zip({{.name = "b.npy", .data = kArray}});
  const std::string outer = kArray + inner.substr(0, inner.find("PK\x01\x02"));
  const std::size_t inside = zip({{.name = "a.npy", .data = outer}}).find("PK\x03\x04", 1);
  std::string moved = good;
  moved[good.size() - 6] = static_cast<char>(moved[good.size() - 6] + 1);
  std::string counted = good;
  counted[good.size() - 12] = 2;
  counted[good.size() - 14] = 2;
  const std::string large = zip({{.name = "a.npy", .data = kArray, .zip64 = true}});
  const std::size_t extra = large.find("PK\x01\x02") + 46 + 5;  // a time of 9 bytes, and the sizes
  const auto with_byte = [](std::string bytes, std::size_t at, char byte) {
    bytes[at] = byte;
    return bytes;
  };
  const std::string large_end = zip({{.name = "a.npy", .data = kArray}}, true);
  return {
      {68, "cut", good.substr(0, good.size() - 1), {"no end-of-directory record"}},
      {68, "too short", "PK\x05\x06", {"too few bytes"}},
      {68,
       "bytes before it",
       "#!/bin/sh\n" + good,
       {"a central directory that does not end where its end record begins"}},
      {68, "directory moved", moved, {"a central directory that does not end where its end record begins"}},
      {68, "more members than there are", counted, {"more members"}},
      {68, "an extra field that is cut", with_byte(large, extra + 2, '\x7f'), {"an extra field that is cut"}},
      {68, "sizes that are cut", with_byte(large, extra + 11, '\x08'), {"a ZIP64 field that is cut"}},
      {68, "no sizes", with_byte(large, extra + 9, '\x02'), {"\"a.npy\"", "differs"}},
      {68,
       "no ZIP64 end record",
       with_byte(large_end, large_end.find("PK\x06\x07") + 8, '\0'),
       {"no ZIP64 end record @byte 0"}},
      {76,
       "zip bomb by its directory",
       zip({{.name = "a.npy", .data = zeros, .deflated = true, .zip64 = true, .size = 1ULL << 40}}),
       {"unpack to more than"},
       Status::limit},
      {76,
       "zip bomb in parts",
       zip({{.name = "a.npy", .data = kArray, .deflated = true, .size = 60'000'000},
            {.name = "b.npy", .data = kArray, .deflated = true, .size = 60'000'000}}),
       {"unpack to more than"},
       Status::limit},
      {77,
       "overlapping members",
       zip({{.name = "a.npy", .data = outer}, {.name = "b.npy", .data = kArray, .local_offset = inside}}),
       {"overlap"}},
      {78,
       "local name differs",
       zip({{.name = "a.npy", .data = kArray, .local_name = "b.npy"}}),
       {"member \"a.npy\"", "local header", "differs"}},
      {78,
       "local size differs",
       zip({{.name = "a.npy", .data = kArray, .local_size = 5}}),
       {"member \"a.npy\"", "differs"}},
      {78,
       "local size differs in 64 bits",
       zip({{.name = "a.npy", .data = kArray, .zip64 = true, .local_size = 5}}),
       {"member \"a.npy\"", "differs"}},
      {78,
       "no local header",
       zip({{.name = "a.npy", .data = kArray, .local_offset = 3}}),
       {"no local header of \"a.npy\""}},
      {78,
       "local header after the end",
       zip({{.name = "a.npy", .data = kArray, .local_offset = 0x7fffffff}}),
       {"reaches beyond the end"}},
      {80,
       "duplicate member",
       zip({{.name = "a.npy", .data = kArray}, {.name = "a.npy", .data = kArray}}),
       {"member \"a.npy\"", "the same name"}},
      {80,
       "../ member",
       zip({{.name = "../a.npy", .data = kArray}}),
       {"member \"../a.npy\"", "contains the part \"..\""}},
      {80, "absolute member", zip({{.name = "/a.npy", .data = kArray}}), {"absolute"}},
      {80, "backslash", zip({{.name = "x\\a.npy", .data = kArray}}), {"backslash"}},
      {80,
       "NUL",
       zip({{.name = std::string("a\0.npy", 6), .data = kArray}}),
       {"member \"a\\x00.npy\"", "NUL"}},
      {80, "no name", zip({{.name = "", .data = kArray}}), {"empty part"}},
      {81,
       "encrypted member",
       zip({{.name = "a.npy", .data = kArray, .flags = 1}}),
       {"member \"a.npy\"", "unsupported", "encrypted"}},
      {81, "AES", zip({{.name = "a.npy", .data = kArray, .method = 99}}), {"unsupported", "encrypted"}},
      {81,
       "LZMA",
       zip({{.name = "a.npy", .data = kArray, .method = 14}}),
       {"unsupported compression method 14"}},
      {75,
       "stored with two sizes",
       zip({{.name = "a.npy", .data = kArray, .size = 5}}),
       {"member \"a.npy\""}},
      {79,
       "a deflate stream that is cut",
       zip({{.name = "a.npy", .data = std::string("\1\5\0\xfa\xff", 5), .method = 8}}),
       {"member \"a.npy\"", "damaged", "it ends too early"}},
      {79,
       "no deflate stream",
       zip({{.name = "a.npy", .data = "\x07 no block has type 3", .method = 8}}),
       {"member \"a.npy\"", "damaged"}},
  };
}

}  // namespace

TEST_CASE("bad NPY files are rejected, also in an archive") {
  const TempDir folder;
  for (const Row& row : bad_npy()) {
    CAPTURE(row.kind);
    CAPTURE(row.what);
    Warnings warnings;
    auto parts = row.parts;
    parts.emplace_back("x.npy: ");
    const auto alone = folder.write("x.npy", row.bytes);
    check_refusal([&] { (void)open_checkpoint(alone, warnings); }, row.status, parts);
    parts.back() = "x.npz: member \"x.npy\"";
    for (const bool deflated : {false, true}) {
      const auto archive =
          folder.write("x.npz", zip({{.name = "x.npy", .data = row.bytes, .deflated = deflated}}));
      auto inside = parts;
      if (row.what == "a header longer than the file") inside.front() = "the header alone needs";
      check_refusal([&] { (void)open_checkpoint(archive, warnings); }, row.status, inside);
      check_weights_refused(archive, row.status);
    }
  }
}

TEST_CASE("arrays of strings are read only in archives") {
  const TempDir folder;
  Warnings warnings;
  const auto open = [&](const std::string& bytes) {
    return open_checkpoint(folder.write("x.npz", zip({{.name = "x.npy", .data = bytes}})), warnings);
  };
  const auto check = [&](const std::string& bytes, DType dtype, const Shape& shape,
                         const std::string& content) {
    const auto file = open(bytes);
    CHECK(file->tensors()[0].text);
    CHECK(file->tensors()[0].shape == shape);
    CHECK(file->tensors()[0].dtype == dtype);
    CHECK(text_of(file->tensor(0).bytes) == content);
  };
  const std::string two("a\0\0\0\0\0\0\0", 8);
  check(npy(dictionary("<U2", "(1,)"), two), DType::u32, {1, 2}, two);
  check(npy(dictionary(">U1", "(1,)"), std::string("\0\0\1\2", 4)), DType::u32, {1, 1},
        std::string("\2\1\0\0", 4));
  check(npy(dictionary("|S3", "(1, 2)"), "abcdef"), DType::u8, {1, 2, 3}, "abcdef");
  check(npy(dictionary("<U0", "(3,)"), ""), DType::u32, {3, 0}, "");
  const auto alone = folder.write("x.npy", array("<U2", "(1,)"));
  check_refusal([&] { (void)open_checkpoint(alone, warnings); }, Status::bad_input,
                {"unsupported dtype \"<U2\""});
  const std::vector<std::pair<std::string, std::string_view>> bad = {
      {array("<U", "(1,)"), "need the number of characters"},
      {array("<U-1", "(1,)"), "need the number of characters"},
      {array("|U2", "(1,)"), "unsupported dtype \"|U2\""},
      {array("<U3", "(1,)"), "need 12 for shape [1, 3]"},
      {array("<U9223372036854775807", "(2,)"), "64 bits"},
      {npy("{'descr': '|S1', 'fortran_order': True, 'shape': (2, 4)}", "12345678"),
       "column-major array of strings"}};
  for (const auto& [bytes, part] : bad) {
    const std::string& content = bytes;
    check_refusal([&] { (void)open(content); }, Status::bad_input, {part});
  }
}

TEST_CASE("bad archives are refused") {
  const TempDir folder;
  for (const Row& row : bad_zip()) {
    CAPTURE(row.kind);
    CAPTURE(row.what);
    Warnings warnings;
    const auto path = folder.write("x.npz", row.bytes);
    auto parts = row.parts;
    parts.emplace_back("x.npz: ");
    check_refusal([&] { (void)open_checkpoint(path, warnings); }, row.status, parts);
    check_weights_refused(path, row.status);
  }
}

TEST_CASE("damage inside a member is found when its tensor is first asked for") {
  const TempDir folder;
  const std::string longer = array("<f4", "(1000,)", 4000);
  const std::vector<Row> rows = {
      {79, "bad CRC", zip({{.name = "a.npy", .data = kArray, .crc = 1}}), {"CRC"}},
      {79,
       "bad CRC, deflated",
       zip({{.name = "a.npy", .data = kArray, .deflated = true, .crc = 1}}),
       {"CRC"}},
      {76,
       "unpacks to more than it says",
       zip({{.name = "a.npy", .data = longer + "more", .deflated = true, .size = longer.size()}}),
       {"more than"}},
      {75,
       "unpacks to less than it says",
       zip({{.name = "a.npy", .data = longer.substr(0, 3000), .deflated = true, .size = longer.size()}}),
       {"less than"}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.kind);
    CAPTURE(row.what);
    Warnings warnings;
    const auto checkpoint = open_checkpoint(folder.write("x.npz", row.bytes), warnings);
    auto parts = row.parts;
    parts.emplace_back("x.npz: member \"a.npy\": damaged");
    check_refusal([&] { (void)checkpoint->tensor(0); }, row.status, parts);
  }
}

TEST_CASE("an archive cut at any byte is refused") {
  const TempDir folder;
  const std::string whole =
      zip({{.name = "a.npy", .data = kArray}, {.name = "b.npy", .data = kArray, .deflated = true}});
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    Warnings warnings;
    const auto path = folder.write("x.npz", whole.substr(0, size));
    check_refusal([&] { (void)open_checkpoint(path, warnings); }, Status::bad_input, {"x.npz"});
  }
}

TEST_CASE("archives are read whichever way they were written") {
  const TempDir folder;
  const std::string text = "no array";
  struct Written {
    std::string_view what;
    std::string bytes;
  };
  for (const Written& written :
       {Written{"plain", zip({{.name = "a.npy", .data = kArray},
                              {.name = "a-b.npy", .data = kArray},
                              {.name = "readme", .data = text}})},
        Written{"64-bit sizes", zip({{.name = "a.npy", .data = kArray, .zip64 = true},
                                     {.name = "a-b.npy", .data = kArray, .zip64 = true},
                                     {.name = "readme", .data = text}})},
        Written{"64-bit end", zip({{.name = "a.npy", .data = kArray},
                                   {.name = "a-b.npy", .data = kArray},
                                   {.name = "readme", .data = text}},
                                  true)},
        Written{"to a pipe", zip({{.name = "a.npy", .data = kArray, .sizes_follow = true},
                                  {.name = "a-b.npy", .data = kArray, .deflated = true, .sizes_follow = true},
                                  {.name = "readme", .data = text}})}}) {
    CAPTURE(written.what);
    Warnings warnings;
    const auto checkpoint = open_checkpoint(folder.write("x.npz", written.bytes), warnings);
    REQUIRE(checkpoint->tensors().size() == 2);
    CHECK(checkpoint->find("a") == 0);  // though "a-b.npy" is before "a.npy"
    CHECK(checkpoint->find("a-b") == 1);
    CHECK(checkpoint->tensor(0).bytes.size() == 8);
    CHECK(checkpoint->tensor(1).bytes.size() == 8);
    REQUIRE(warnings.list().size() == 1);
    CHECK(warnings.list()[0].code == "ignored_member");
  }
  Warnings warnings;
  CHECK(open_checkpoint(folder.write("e.npz", zip({})), warnings)->tensors().empty());
}

TEST_CASE("what packs well is accepted while it is small") {
  const TempDir folder;
  Warnings warnings;
  const std::string zeros = npy(dictionary("|u1", "(1000000,)"), std::string(1'000'000, '\0'));
  const auto path = folder.write("x.npz", zip({{.name = "mask.npy", .data = zeros, .deflated = true}}));
  CHECK(open_checkpoint(path, warnings)->tensor(0).bytes.size() == 1'000'000);
}

TEST_CASE("the header's grammar allows what writers differ in") {
  const TempDir folder;
  for (const std::string_view text :
       {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }   ",
        "{\"shape\":(2,),\"descr\":\"<f4\",\"fortran_order\":False}",
        "{'descr': '<f4', 'fortran_order': True, 'shape': (2L,)}",
        " { 'descr' : '<f4' , 'fortran_order' : False , 'shape' : ( 1 , 2 , ) } "}) {
    CAPTURE(text);
    Warnings warnings;
    const auto path = folder.write("x.npy", npy(text, bytes_of<float>({1, 2})));
    CHECK(open_checkpoint(path, warnings)->tensor(0).bytes.size() == 8);
  }
}
