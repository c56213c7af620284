#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "input/text_input.hpp"
#include "input/words.hpp"
#include "support/refusal.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::test {
namespace {

std::vector<TextBlock> blocks_of(const std::string& text, BlockEnd end, std::size_t block_bytes) {
  const TempDir folder;
  TextBlocks blocks(folder.write("x.txt", text), end, block_bytes);
  std::vector<TextBlock> all;
  for (TextBlock block; blocks.next(block);) all.push_back(block);
  return all;
}

TEST_CASE("blocks of every size add up to the file, with correct offsets and lines") {
  const std::string text = "one\r\ntwo\n\n\nthree three three\n\r\nfour\nfive\n\nsix";
  for (const BlockEnd end : {BlockEnd::line, BlockEnd::blank_line}) {
    for (std::size_t size = 1; size <= text.size() + 1; ++size) {
      CAPTURE(size);
      std::string together;
      std::uint64_t line = 1;
      for (const TextBlock& block : blocks_of(text, end, size)) {
        CHECK(!block.text.empty());
        CHECK(block.place.offset == together.size());
        CHECK(block.place.line == line);
        together += block.text;
        for (const char c : block.text) line += c == '\n' ? 1 : 0;
        if (together.size() == text.size()) continue;
        CHECK(block.text.ends_with('\n'));
        if (end == BlockEnd::blank_line) {
          const bool blank = together.ends_with("\n\n") || together.ends_with("\n\r\n");
          CHECK_MESSAGE(blank, together);
        }
      }
      CHECK(together == text);
    }
  }
}

TEST_CASE("empty files and lines longer than a block") {
  CHECK(blocks_of("", BlockEnd::line, 8).empty());
  const std::string longer(100'000, 'x');
  REQUIRE(blocks_of(longer, BlockEnd::line, 8).size() == 1);
}

TEST_CASE("invalid UTF-8 is refused with its offset in the file") {
  struct Row {
    std::string text;
    std::string says;
  };
  for (const Row& row : {
           Row{std::string("12345678\xff", 9), "@byte 108: got 0xff"},
           Row{"\xC3", "@byte 100: got 0xc3"},
           Row{"a\xED\xA0\x80", "@byte 101: got 0xed"},
           Row{"123456789\xC0\x80", "@byte 109"},
           Row{"é\xE2\x82", "@byte 102"},
       }) {
    check_refusal(
        [&] {
          require_utf8(row.text, {"f.txt", 100, 1});
        },
        Status::bad_input, {"f.txt: ", row.says});
  }
  require_utf8("12345678é🙂\xEF\xBF\xBD\n", {"f.txt", 0, 1});
  require_utf8(std::string("\0a", 2), {"f.txt", 0, 1});
}

TEST_CASE("every kind of white space separates words, and ranges count code points") {
  using Words = std::vector<TextWord>;
  struct Row {
    std::string text;
    Words want;
  };
  for (const Row& row : {
           Row{"", {}},
           Row{" \t\n\u3000", {}},
           Row{"The cat.", {{"The", {0, 3}}, {"cat.", {4, 8}}}},
           Row{"  é\u00a0ü\u2028x\u1680y ", {{"é", {2, 3}}, {"ü", {4, 5}}, {"x", {6, 7}}, {"y", {8, 9}}}},
           Row{"a\u200bb \u001c c", {{"a\u200bb", {0, 3}}, {"\u001c", {4, 5}}, {"c", {6, 7}}}},
           Row{"🙂 日本", {{"🙂", {0, 1}}, {"日本", {2, 4}}}},
       }) {
    CAPTURE(row.text);
    CHECK((white_space_words(row.text) == row.want));
    CHECK(count_code_points(row.text) == (row.text.empty() ? 0 : count_code_points(row.text + "x") - 1));
  }
}

TEST_CASE("a token belongs to every word that it overlaps") {
  const std::vector<TextWord> words = {
      {"can", {0, 3}}, {"not", {3, 6}}, {"de", {7, 9}}, {"le", {7, 9}}, {"x", {10, 11}}};
  struct Row {
    TextRange token;
    std::pair<std::size_t, std::size_t> want;
  };
  for (const Row& row : {
           Row{{0, 6}, {0, 2}},
           Row{{2, 3}, {0, 1}},
           Row{{3, 4}, {1, 2}},
           Row{{6, 9}, {2, 4}},
           Row{{0, 11}, {0, 5}},
       }) {
    CHECK(words_in(words, row.token) == row.want);
  }
  for (const TextRange none : {TextRange{6, 7}, TextRange{3, 3}, TextRange{0, 0}, TextRange{11, 12}}) {
    const auto [first, last] = words_in(words, none);
    CHECK(first == last);
  }
}

}  // namespace
}  // namespace attnctl::test
