#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/error.hpp"
#include "support/refusal.hpp"
#include "tokenizer/parts/parts.hpp"
#include "tokenizer/parts_golden.hpp"

namespace attnctl::test {

using namespace tokenizer;

namespace {

TextStep pre_tokenizer(std::string_view json) {
  const PartConfig::Json node = PartConfig::Json::parse(json);
  return make_pre_tokenizer(PartConfig("tokenizer.json", "/pre_tokenizer", node));
}

/// Returns "piece(first,last)|..." with the code points of each piece in the original.
std::string pieces_of(const PieceText& text) {
  std::string all;
  for (const PieceText::Piece& piece : text.pieces()) {
    const TextRange range = text.origin(piece.begin, piece.end);
    if (!all.empty()) all += '|';
    all += fmt::format("{}({},{})", text.text(piece), range.begin, range.end);
  }
  return all;
}

struct Case {
  std::string text;
  std::string pieces;
};
struct Row {
  std::string_view config;
  std::vector<Case> cases;
};

void check(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    CAPTURE(row.config);
    const TextStep part = pre_tokenizer(row.config);
    for (const Case& each : row.cases) {
      CAPTURE(each.text);
      PieceText text;
      text.assign(each.text);
      part(text);
      CHECK(pieces_of(text) == each.pieces);
    }
  }
}

// Expected pieces are from the Python library tokenizers 0.23.3.
TEST_CASE("pre-tokenizers cut a text as the reference") {
  check(
      {Row{R"({"type": "BertPreTokenizer"})",
           {{"Hello, it's  me!\n", "Hello(0,5)|,(5,6)|it(7,9)|'(9,10)|s(10,11)|me(13,15)|!(15,16)"},
            {"\u00BFa\u00A1^\xc2"
             "\x85"
             "b\u3000\u65E5\u672C\u3002c",
             "\u00BF(0,1)|a(1,2)|\u00A1(2,3)|^(3,4)|b(5,6)|\u65E5\u672C(7,9)|\u3002(9,10)|c(10,11)"}}},
       Row{R"({"type": "Whitespace"})",
           {{"Hello, it's  me!\n-->",
             "Hello(0,5)|,(5,6)|it(7,9)|'(9,10)|s(10,11)|me(13,15)|!(15,16)|-->(17,20)"},
            {"x\u00B2 \u24B6\u200D\u0301b \u00BD_1",
             "x(0,1)|\u00B2(1,2)|\u24B6\u200D\u0301b(3,7)|\u00BD(8,9)|_1(9,11)"}}},
       Row{R"({"type": "WhitespaceSplit"})",
           {{" a,b\u00A0c\u2028\td ", "a,b(1,4)|c(5,6)|d(8,9)"}, {"\u200Ba", "\u200Ba(0,2)"}}},
       Row{R"({"type": "FixedLength","length": 2})",
           {{"a\u00E9\u65E5b\U0001F600", "a\u00E9(0,2)|\u65E5b(2,4)|\U0001F600(4,5)"}}},
       Row{R"({"type": "FixedLength"})", {{"0123456789ab", "01234(0,5)|56789(5,10)|ab(10,12)"}}},
       Row{R"({"type": "ByteLevel","add_prefix_space": true,"trim_offsets": true})",
           {{"Hello  it's\n\n we'll x",
             "\u0120Hello(0,5)|\u0120(5,6)|\u0120it(6,9)|'s(9,11)|\u010A\u010A(11,13)|\u0120we(13,16)|'ll(16,"
             "19)|\u0120x(19,21)"},
            {"\u00E9\u65E5 12ab", "\u0120\u00C3\u00A9\u00E6\u0139\u00A5(0,2)|\u012012(2,5)|ab(5,7)"},
            {"\n a  ", "\u0120\u010A(0,1)|\u0120a(1,3)|\u0120\u0120(3,5)"},
            {" a'S 'tis", "\u0120a(0,2)|'(2,3)|S(3,4)|\u0120'(4,6)|tis(6,9)"}}},
       Row{R"({"type": "ByteLevel","add_prefix_space": false,"trim_offsets": false,"use_regex": true})",
           {{"a  b", "a(0,1)|\u0120(1,2)|\u0120b(2,4)"},
            {"\u00B2x\u2167y\u00A0\u00A0z",
             "\u00C2\u00B2(0,1)|x(1,2)|\u00E2\u0127\u00A7(2,3)|y(3,4)|\u00C2\u0142(4,5)|\u00C2\u0142(5,6)|z("
             "6,7)"}}},
       Row{R"({"type": "ByteLevel","add_prefix_space": true,"trim_offsets": true,"use_regex": false})",
           {{"it's \x7f"
             "\u00AD",
             "\u0120it's\u0120\u0121\u00C2\u0143(0,7)"}}},
       Row{R"({"type": "Metaspace","replacement": "▁","prepend_scheme": "always"})",
           {{"a b  c \u2581d ",
             "\u2581a(0,1)|\u2581b(1,3)|\u2581(3,4)|\u2581c(4,6)|\u2581(6,7)|\u2581d(7,9)|\u2581(9,10)"},
            {" a", "\u2581a(0,2)"},
            {"\u2581a", "\u2581a(0,2)"}}},
       Row{R"({"type": "Metaspace","replacement": "▁","prepend_scheme": "first","split": false})",
           {{"a b", "\u2581a\u2581b(0,3)"}, {"\u00E9 ", "\u2581\u00E9\u2581(0,2)"}}},
       Row{R"({"type": "Metaspace","replacement": "▁","prepend_scheme": "never"})",
           {{"a b", "a(0,1)|\u2581b(1,3)"}}},
       Row{R"({"type": "Metaspace","replacement": "_","add_prefix_space": true,"str_rep": "#"})",
           {{"a b#c", "_a(0,1)|_b#c(1,5)"}}},
       Row{R"({"type": "Sequence","pretokenizers": [{"type": "WhitespaceSplit"},{"type": "Metaspace","replacement": "▁","prepend_scheme": "first"}]})",
           {{"a b", "\u2581a(0,1)|b(2,3)"}, {" a", "a(1,2)"}}},
       Row{R"({"type": "Sequence","pretokenizers": [{"type": "WhitespaceSplit"},{"type": "Metaspace","replacement": "▁","prepend_scheme": "always"}]})",
           {{"a b", "\u2581a(0,1)|\u2581b(2,3)"}}}});
}

TEST_CASE("every behaviour of Split") {
  check(
      {Row{R"({"type": "Split","pattern": {"String": "-"},"behavior": "Removed","invert": false})",
           {{"-a--b-", "a(1,2)|b(4,5)"}, {"--", ""}, {"ab", "ab(0,2)"}}},
       Row{R"({"type": "Split","pattern": {"String": "-"},"behavior": "Removed","invert": true})",
           {{"-a--b-", "-(0,1)|-(2,3)|-(3,4)|-(5,6)"}, {"--", "-(0,1)|-(1,2)"}, {"ab", ""}}},
       Row{R"({"type": "Punctuation","behavior": "Removed"})",
           {{"a,,b. \u00A1\u3002c", "a(0,1)|b(3,4)| (5,6)|c(8,9)"}}},
       Row{R"({"type": "Split","pattern": {"String": "-"},"behavior": "Isolated","invert": false})",
           {{"-a--b-", "-(0,1)|a(1,2)|-(2,3)|-(3,4)|b(4,5)|-(5,6)"},
            {"--", "-(0,1)|-(1,2)"},
            {"ab", "ab(0,2)"}}},
       Row{R"({"type": "Split","pattern": {"String": "-"},"behavior": "Isolated","invert": true})",
           {{"-a--b-", "-(0,1)|a(1,2)|-(2,3)|-(3,4)|b(4,5)|-(5,6)"},
            {"--", "-(0,1)|-(1,2)"},
            {"ab", "ab(0,2)"}}},
       Row{R"({"type": "Punctuation","behavior": "Isolated"})",
           {{"a,,b. \u00A1\u3002c",
             "a(0,1)|,(1,2)|,(2,3)|b(3,4)|.(4,5)| (5,6)|\u00A1(6,7)|\u3002(7,8)|c(8,9)"}}},
       Row{R"({"type": "Split","pattern": {"String": "-"},"behavior": "MergedWithPrevious","invert": false})",
           {{"-a--b-", "-(0,1)|a-(1,3)|-(3,4)|b-(4,6)"}, {"--", "-(0,1)|-(1,2)"}, {"ab", "ab(0,2)"}}},
       Row{R"({"type": "Split","pattern": {"String": "-"},"behavior": "MergedWithPrevious","invert": true})",
           {{"-a--b-", "-a(0,2)|-(2,3)|-b(3,5)|-(5,6)"}, {"--", "-(0,1)|-(1,2)"}, {"ab", "ab(0,2)"}}},
       Row{R"({"type": "Punctuation","behavior": "MergedWithPrevious"})",
           {{"a,,b. \u00A1\u3002c", "a,(0,2)|,(2,3)|b.(3,5)| \u00A1(5,7)|\u3002(7,8)|c(8,9)"}}},
       Row{R"({"type": "Split","pattern": {"String": "-"},"behavior": "MergedWithNext","invert": false})",
           {{"-a--b-", "-a(0,2)|-(2,3)|-b(3,5)|-(5,6)"}, {"--", "-(0,1)|-(1,2)"}, {"ab", "ab(0,2)"}}},
       Row{R"({"type": "Split","pattern": {"String": "-"},"behavior": "MergedWithNext","invert": true})",
           {{"-a--b-", "-(0,1)|a-(1,3)|-(3,4)|b-(4,6)"}, {"--", "-(0,1)|-(1,2)"}, {"ab", "ab(0,2)"}}},
       Row{R"({"type": "Punctuation","behavior": "MergedWithNext"})",
           {{"a,,b. \u00A1\u3002c", "a(0,1)|,(1,2)|,b(2,4)|. (4,6)|\u00A1(6,7)|\u3002c(7,9)"}}},
       Row{R"({"type": "Split","pattern": {"String": "-"},"behavior": "Contiguous","invert": false})",
           {{"-a--b-", "-(0,1)|a(1,2)|--(2,4)|b(4,5)|-(5,6)"}, {"--", "--(0,2)"}, {"ab", "ab(0,2)"}}},
       Row{R"({"type": "Split","pattern": {"String": "-"},"behavior": "Contiguous","invert": true})",
           {{"-a--b-", "-(0,1)|a(1,2)|--(2,4)|b(4,5)|-(5,6)"}, {"--", "--(0,2)"}, {"ab", "ab(0,2)"}}},
       Row{R"({"type": "Punctuation","behavior": "Contiguous"})",
           {{"a,,b. \u00A1\u3002c", "a(0,1)|,,(1,3)|b(3,4)|.(4,5)| (5,6)|\u00A1\u3002(6,8)|c(8,9)"}}},
       Row{R"({"type": "Split","pattern": {"Regex": "\\s+(?=b)|[0-9]{2}"},"behavior": "Isolated","invert": false})",
           {{"\u00E9 123 4567  b", "\u00E9 (0,2)|12(2,4)|3 (4,6)|45(6,8)|67(8,10)|  (10,12)|b(12,13)"}}},
       Row{R"({"type": "Split","pattern": {"Regex": ""},"behavior": "Removed","invert": false})",
           {{"a\u00E9b", "a(0,1)|\u00E9(1,2)|b(2,3)"}}},
       Row{R"({"type": "Split","pattern": {"String": ""},"behavior": "Isolated","invert": false})",
           {{"a\u00E9b", "a(0,1)|\u00E9(1,2)|b(2,3)"}}},
       Row{R"({"type": "Split","pattern": {"String": ""},"behavior": "Removed","invert": true})",
           {{"a\u00E9b", ""}}},
       Row{R"({"type": "Split","pattern": {"String": "a."},"behavior": "Isolated","invert": false})",
           {{"aba.a.b", "ab(0,2)|a.(2,4)|a.(4,6)|b(6,7)"}}},
       Row{R"({"type": "Punctuation"})", {{"a,,b", "a(0,1)|,(1,2)|,(2,3)|b(3,4)"}}},
       Row{R"({"type": "Digits","individual_digits": true})",
           {{"a12\u00BD \u2167b", "a(0,1)|1(1,2)|2(2,3)|\u00BD(3,4)| (4,5)|\u2167(5,6)|b(6,7)"}}},
       Row{R"({"type": "Digits","individual_digits": false})",
           {{"a12\u00BD \u2167b", "a(0,1)|12\u00BD(1,4)| (4,5)|\u2167(5,6)|b(6,7)"}}},
       Row{R"({"type": "CharDelimiterSplit","delimiter": "é"})",
           {{"\u00E9a\u00E9\u00E9b e", "a(1,2)|b e(4,7)"}}},
       Row{R"({"type": "UnicodeScripts"})",
           {{"  ab, \u044F \u65E5\u304B\u30AB\u30FC \U00013F03a",
             "ab(2,4)|, (4,6)|\u044F (6,8)|\u65E5\u304B\u30AB\u30FC \U00013F03(8,14)|a(14,15)"}}}});
}

TEST_CASE("an unknown or damaged pre-tokenizer is an error that names its JSON pointer") {
  check_refused(
      {{R"({"type": "Nonsense"})",
        {"tokenizer.json: /pre_tokenizer/type: unsupported \"Nonsense\", supported: Sequence, Bert"}},
       {R"({"type": "Sequence", "pretokenizers": [{"type": "Whitespace"}, {"type": "Odd"}]})",
        {"/pre_tokenizer/pretokenizers/1/type", "unsupported \"Odd\""}},
       {R"({"type": "Sequence"})", {"/pre_tokenizer/pretokenizers", "found nothing"}},
       {R"({"type": "ByteLevel", "trim_offsets": true})", {"/pre_tokenizer/add_prefix_space"}},
       {R"({"type": "ByteLevel", "add_prefix_space": 1, "trim_offsets": true})",
        {"/pre_tokenizer/add_prefix_space", "expected true or false, found 1"}},
       {R"({"type": "Metaspace", "replacement": "ab"})",
        {"/pre_tokenizer/replacement", "one character", "\"ab\""}},
       {R"({"type": "Metaspace", "replacement": ""})", {"/pre_tokenizer/replacement"}},
       {R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "last"})",
        {"/pre_tokenizer/prepend_scheme: unsupported \"last\", supported: first, never, always"}},
       {R"({"type": "Metaspace", "replacement": "_", "add_prefix_space": false})",
        {"/pre_tokenizer/add_prefix_space", "\"never\""}},
       {R"({"type": "Split", "pattern": "a", "behavior": "Removed", "invert": false})",
        {"/pre_tokenizer/pattern", "expected an object, found \"a\""}},
       {R"({"type": "Split", "pattern": {"Glob": "a"}, "behavior": "Removed", "invert": false})",
        {"/pre_tokenizer/pattern: unsupported", "Regex"}},
       {R"({"type": "Split", "pattern": {"Regex": "a("}, "behavior": "Removed", "invert": false})",
        {"tokenizer.json: /pre_tokenizer/pattern/Regex: "}},
       {R"({"type": "Split", "pattern": {"String": "a"}, "behavior": "removed", "invert": false})",
        {"/pre_tokenizer/behavior: unsupported \"removed\", supported: Removed, Isolated, "}},
       {R"({"type": "Split", "pattern": {"String": "a"}, "behavior": "Removed"})", {"/pre_tokenizer/invert"}},
       {R"({"type": "Digits"})", {"/pre_tokenizer/individual_digits"}},
       {R"({"type": "CharDelimiterSplit", "delimiter": "--"})", {"/pre_tokenizer/delimiter"}},
       {R"({"type": "FixedLength", "length": 0})", {"/pre_tokenizer/length", "at least 1, found 0"}}},
      pre_tokenizer);
}

TEST_CASE("the growth of a text is limited") {
  std::string parts;
  for (int i = 0; i < 60; ++i) {
    parts += i == 0 ? "" : ", ";
    parts += R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false})";
  }
  const TextStep part = pre_tokenizer(R"({"type": "Sequence", "pretokenizers": [)" + parts + "]}");
  PieceText text;
  text.assign("\u00E9");
  check_refusal([&] { part(text); }, Status::limit, {"text", "longer than 1048704 bytes"});
  text.assign("ab");
  const auto grow = [&] {
    text.rewrite([](const PieceText::Piece& piece, PieceText::Output& output) {
      output.put(std::string(1048703, 'x'), {});
      output.copy(piece.begin, piece.end);
    });
  };
  check_refusal(grow, Status::limit, {"text", "longer than 1048704 bytes"});
}

TEST_CASE("the work of all steps on a text is limited in proportion to its size") {
  PieceText text;
  const auto after_steps = [&](int steps) {
    text.assign(std::string(100'000, 'a'));
    for (int i = 0; i < steps; ++i)
      text.cut([](std::string_view piece, PieceText::Cuts& cuts) { cuts.add(0, piece.size()); });
    return text.work();
  };
  CHECK(after_steps(256) == 25'600'000);
  check_refusal([&] { (void)after_steps(400); }, Status::limit,
                {"the normalizer and the pre-tokenizer together process more than 29794304 bytes"});
}

}  // namespace
}  // namespace attnctl::test
