#include "base/text.hpp"

#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace attnctl;

TEST_CASE("escaped text is safe for one line of a terminal") {
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
           Row{"a\u202eb\u2066\u200e\u061c", "a\\u202eb\\u2066\\u200e\\u061c"},
           Row{"\u00ad\u200b\u2028\ufeff\U000E0041", "\\u00ad\\u200b\\u2028\\ufeff\\U000e0041"},
           Row{"\u200c\u200d\u0600\u00a0", "\u200c\u200d\u0600\u00a0"},
       }) {
    CAPTURE(row.want);
    CHECK(escaped(row.text) == row.want);
  }
}

TEST_CASE("format characters stay if a caller keeps them, but not control characters") {
  CHECK(escaped("a\u202e\u00ad\x1b", FormatCharacters::keep) == "a\u202e\u00ad\\x1b");
}

TEST_CASE("a long message keeps its file, its advice and both ends of its names") {
  const std::string text(1'000'000, 'x');
  std::string list;
  for (int i = 0; i < 1000; ++i) list += "name, ";
  struct Row {
    std::string message;
    std::string begin, part, end;
  };
  for (const Row& row : {
           Row{"/a/" + text.substr(0, 4000) + "/b.json: hidden_size is 0; it must be at least 1", "/a/xx",
               "xx...xx", "xx/b.json: hidden_size is 0; it must be at least 1"},
           Row{"m.gguf: tensor \"a" + text.substr(0, 10'000) + "b\" has no data; download it again",
               "m.gguf: tensor \"axx", "xx...xx", "xxb\" has no data; download it again"},
           Row{"--top: got " + std::string(309, '9') + ", need a number from 1 to " + std::string(309, '9') +
                   "; see --help",
               "--top: got 99", "99, need a number from 1 to 99", "99; see --help"},
           Row{"--include: got " + text + "; known: map, flow", "--include: got xx", "...",
               "xx; known: map, flow"},
           Row{"a.txt: unknown name; known: " + list + "last; see --help",
               "a.txt: unknown name; known: name, name", "...", "last; see --help"},
           Row{"a\n" + text + " b", "a\\x0axx", "...", "xx b"},
           Row{list + list, "name, name", "...", "name, "},
           Row{std::string(200'000, ';'), ";;", "...", ";;"},
       }) {
    const std::string line = message_line(row.message);
    CAPTURE(line);
    CHECK(line.size() <= 460);
    CHECK(line.starts_with(row.begin));
    CHECK(line.find(row.part) != std::string::npos);
    CHECK(line.ends_with(row.end));
  }
  std::string accents;
  for (int i = 0; i < 1000; ++i) accents += "\u00e9";
  CHECK_FALSE(find_ill_formed_utf8(message_line("x" + accents)).has_value());
  const std::string fits(460, 'x');
  CHECK(message_line(fits) == fits);
}

TEST_CASE("a number has the noun in the singular or the plural") {
  CHECK(counted(0, "layer") == "0 layers");
  CHECK(counted(1, "layer") == "1 layer");
  CHECK(counted(1, "query", "queries") == "1 query");
  CHECK(counted(2, "query", "queries") == "2 queries");
}

TEST_CASE("text is split at every separator") {
  using Parts = std::vector<std::string_view>;
  CHECK(split("a,bc,d", ',') == Parts{"a", "bc", "d"});
  CHECK(split(",a,,", ',') == Parts{"", "a", "", ""});
  CHECK(split("", ',') == Parts{""});
  CHECK(split("a,b", ';') == Parts{"a,b"});
}

TEST_CASE("the closest name is the only one that begins with a word, or the one with the fewest edits") {
  const std::vector<std::string_view> names = {"metrics", "map",  "mixing", "patterns",
                                               "weights", "flow", "z"};
  const std::string very_long(100'000, 'm');
  struct Row {
    std::string_view word, want;
  };
  for (const Row& row : {
           Row{"paterns", "patterns"},
           Row{"wieghts", "weights"},
           Row{"pat", "patterns"},
           Row{"FLOW", "flow"},
           Row{"mop", "map"},
           Row{"m", ""},  // three names begin with it
           Row{"x", ""},
           Row{"", ""},
           Row{"unrelated", ""},
           Row{very_long, ""},
       }) {
    CAPTURE(row.want);
    CHECK(closest_name(row.word, names) == row.want);
  }
  const std::vector<std::string> pair = {"qk", "ov"};
  CHECK(did_you_mean("vo", pair) == " (did you mean \"ov\"?)");
  const std::vector<std::string> options = {"from", "format"};
  CHECK(did_you_mean("form", options) == " (did you mean \"from\"?)");  // two letters swapped
  CHECK(did_you_mean("qv", pair).empty());                              // both are equally close
}

TEST_CASE("a number is the whole text, without sign or space") {
  CHECK(parse_number("0") == 0);
  CHECK(parse_number("18446744073709551615") == 18446744073709551615ULL);
  for (const char* text : {"", "-1", "+1", " 1", "1 ", "1.0", "1e3", "x", "18446744073709551616"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_number(text).has_value());
  }
}

TEST_CASE("only plain relative paths have no fault") {
  for (const char* path : {"a", "a/b.npy", "..a/b..", ".a"}) {
    CAPTURE(path);
    CHECK_FALSE(path_fault(path).has_value());
  }
  for (const std::string_view path :
       {std::string_view("/a"), std::string_view("a\\b"), std::string_view("a\0b", 3),
        std::string_view("../a"), std::string_view("a/.."), std::string_view("a//b"), std::string_view("./a"),
        std::string_view("a/"), std::string_view("")}) {
    CAPTURE(path);
    CHECK(path_fault(path).has_value());
  }
}

TEST_CASE("UTF-8 sequences follow table 3-7 of Unicode") {
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
           Row{"\x80", 0, 0}, Row{"\xe2\x80", 0, 0},                             // truncated
       }) {
    CAPTURE(row.text);
    CHECK(utf8_sequence_length(row.text) == row.length);
    if (row.length != 0) CHECK(utf8_code_point(row.text) == row.point);
  }
  CHECK(find_ill_formed_utf8("plain ASCII and \xc3\xa9") == std::nullopt);
  CHECK(find_ill_formed_utf8("twelve bytes\xff") == 12);
}
