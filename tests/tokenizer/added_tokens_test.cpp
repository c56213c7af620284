#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "support/refusal.hpp"
#include "tokenizer/files/tokenizer_file.hpp"
#include "tokenizer/parts/parts.hpp"
#include "tokenizer/unicode/unicode.hpp"

namespace attnctl::test {

using namespace tokenizer;

namespace {

/// Flags of a token by letter: n normalized, l lstrip, r rstrip, w single_word.
AddedToken token(std::int32_t id, std::string content, std::string_view flags = {}) {
  const auto has = [&](char flag) { return flags.find(flag) != std::string_view::npos; };
  AddedToken made;
  made.id = id;
  made.content = std::move(content);
  made.normalized = has('n');
  made.lstrip = has('l');
  made.rstrip = has('r');
  made.single_word = has('w');
  return made;
}

void to_lower(PieceText& text) {
  text.rewrite([&](const PieceText::Piece& piece, PieceText::Output& output) {
    for (std::size_t i = piece.begin; i < piece.end;) {
      const TextRange origin = text.origin()[i];
      const char32_t c = unicode::next(text.text(), i);
      output.put(unicode::Utf8(unicode::to_lower(c)), origin);
    }
  });
}

/// Removes spaces at the ends of pieces.
void trim(PieceText& text) {
  text.rewrite([&](const PieceText::Piece& piece, PieceText::Output& output) {
    std::size_t begin = piece.begin;
    std::size_t end = piece.end;
    while (begin < end && text.text()[begin] == ' ') ++begin;
    while (begin < end && text.text()[end - 1] == ' ') --end;
    output.copy(begin, end);
  });
}

/// Returns the pieces as "[id]" or "text", each with its code points in the original, separated by "|".
std::string cut(const std::vector<AddedToken>& tokens, std::string_view original,
                const TextStep& normalizer) {
  PieceText text;
  text.assign(original);
  make_added_tokens(tokens, false, normalizer)(text);
  if (normalizer) normalizer(text);
  make_added_tokens(tokens, true, normalizer)(text);
  std::string all;
  for (const PieceText::Piece& piece : text.pieces()) {
    if (!all.empty()) all += '|';
    const TextRange range = text.origin(piece.begin, piece.end);
    all += piece.is_text() ? std::string(text.text(piece)) : fmt::format("[{}]", piece.token);
    all += fmt::format("({},{})", range.begin, range.end);
  }
  return all;
}

struct Case {
  std::string_view text;
  std::string_view pieces;
};
struct Row {
  std::vector<AddedToken> tokens;
  TextStep normalizer;
  std::vector<Case> cases;
};

// Expected positions are from the Python library tokenizers 0.23.3.
TEST_CASE("added tokens are found at the same positions as in the reference") {
  const std::vector<Row> rows = {
      {{token(2, "X"), token(3, "XY"), token(4, "Y Z")},
       nullptr,
       {{"", ""},
        {"X", "[2](0,1)"},
        {"aXYbX", "a(0,1)|[3](1,3)|b(3,4)|[2](4,5)"},
        {"XY Z", "[3](0,2)| Z(2,4)"},
        {"\u00E9X\u00E9", "\u00E9(0,1)|[2](1,2)|\u00E9(2,3)"},
        {"Y ", "Y (0,2)"}}},
      // The shorter token matches if the longer one fails.
      {{token(2, "ab"), token(3, "abcd"), token(4, "c")}, nullptr, {{"abcx", "[2](0,2)|[4](2,3)|x(3,4)"}}},
      {{token(2, "aa"), token(3, "aab"), token(4, "aac"), token(5, "aacd"), token(6, "b")},
       nullptr,
       {{"aaaabaacxaac", "[2](0,2)|[3](2,5)|[4](5,8)|x(8,9)|[4](9,12)"},
        {"aacdaa", "[5](0,4)|[2](4,6)"},
        {"a", "a(0,1)"}}},
      {{token(2, "\u65E5"), token(3, "\u65E5\u672C")},
       nullptr,
       {{"\u65E5\u65E5\u672C\u672C", "[2](0,1)|[3](1,3)|\u672C(3,4)"}}},
      // White space, including newlines, belongs to the first token.
      {{token(2, "X", "r"), token(3, "Y", "l")},
       nullptr,
       {{"aX  Yb", "a(0,1)|[2](1,4)|[3](4,5)|b(5,6)"},
        {"aX \n\u3000Yb", "a(0,1)|[2](1,5)|[3](5,6)|b(6,7)"},
        {"a \t Y X", "a(0,1)|[3](1,5)| (5,6)|[2](6,7)"},
        {"a X X Y", "a (0,2)|[2](2,4)|[2](4,6)|[3](6,7)"}}},
      // A token that starts with white space is found inside of the white space of the previous token.
      {{token(2, "X", "r"), token(3, " Y")}, nullptr, {{"aX Yb", "a(0,1)|[2](1,3)|[3](2,4)|b(4,5)"}}},
      // With lstrip, it is dropped if nothing is left of it.
      {{token(2, "X", "r"), token(3, "\n", "l")}, nullptr, {{"aX\nb", "a(0,1)|[2](1,3)|b(3,4)"}}},
      {{token(2, "X", "r"), token(3, " Y", "l")}, nullptr, {{"aX Yb", "a(0,1)|[2](1,3)|[3](3,4)|b(4,5)"}}},
      {{token(2, "\n", "lr")}, nullptr, {{"\n\nb", "[2](0,2)|b(2,3)"}, {"a \n \n", "a(0,1)|[2](1,5)"}}},
      {{token(2, "X", "r"), token(3, "\n", "l")},
       nullptr,
       {{"X\n\nb", "[2](0,3)|b(3,4)"}}},  // the reference panics
      {{token(2, "ab", "w"), token(3, "abc"), token(4, "b")},
       nullptr,
       {{"xab ab abc abx xabc", "xab (0,4)|[2](4,6)| (6,7)|[3](7,10)| abx x(10,16)|[3](16,19)"},
        {"ab-ab\u00E9 \u0301ab", "[2](0,2)|-ab\u00E9 \u0301ab(2,10)"}}},
      // The search continues after a rejected match.
      {{token(2, "ab", "w")}, nullptr, {{"abab ab", "abab (0,5)|[2](5,7)"}}},
      // Tokens of the raw text win over longer tokens of the normalized text.
      {{token(2, "b"), token(3, "ABC", "n")},
       to_lower,
       {{"xabc", "xa(0,2)|[2](2,3)|c(3,4)"}, {"xaBc", "x(0,1)|[3](1,4)"}}},
      {{token(2, "Ab", "nlw")}, to_lower, {{"x  AB ab.", "x(0,1)|[2](1,5)|[2](5,8)|.(8,9)"}}},
      {{token(2, "B"), token(3, "a", "nw")}, to_lower, {{"ABA b", "[3](0,1)|[2](1,2)|[3](2,3)| b(3,5)"}}},
      // A token that normalizes to nothing matches between all characters.
      {{token(2, " ", "n"), token(3, "Y", "n")}, trim, {{"XYa b", "X(0,1)|[3](1,2)|a(2,3)| (3,4)|b(4,5)"}}},
      {{token(2, " ", "nr"), token(3, "the", "n")},
       trim,
       {{"the the  x", "[3](0,3)| (3,4)|[3](4,7)| (7,8)|[2](8,9)|x(9,10)"}}},
      {{token(2, " ", "nl")}, trim, {{"a  b c", "a(0,1)|[2](1,2)|[2](2,3)|b(3,4)|[2](4,5)|c(5,6)"}}},
      {{token(2, " ", "nw")}, trim, {{"a  b c", "a (0,2)| b c(2,6)"}}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.tokens.front().content);
    for (const Case& each : row.cases) {
      CAPTURE(each.text);
      CHECK(cut(row.tokens, each.text, row.normalizer) == each.pieces);
    }
  }
}

TEST_CASE("a normalizer that makes all added tokens long is an error") {
  const TextStep longer = [](PieceText& text) {
    text.rewrite([](const PieceText::Piece& piece, PieceText::Output& output) {
      output.put(std::string(1000, 'a'), {});
      output.copy(piece.begin, piece.end);
    });
  };
  std::vector<AddedToken> tokens;
  for (int i = 0; i < 2000; ++i) tokens.push_back(token(i, std::to_string(1000 + i), "n"));
  check_refusal([&] { (void)make_added_tokens(tokens, true, longer); }, Status::limit,
                {"added tokens: the normalizer processes more than"});
  tokens.resize(500);
  CHECK_NOTHROW((void)make_added_tokens(tokens, true, longer));
}

TEST_CASE("added tokens are read strictly") {
  const auto read = [](std::string_view json) {
    TokenizerFile file;
    file.parts = nlohmann::ordered_json::parse(json);
    file.added_tokens = read_added_tokens(file.document(), Wanted::tokenizer);
    check_vocabulary(file);
    return file.added_tokens;
  };
  SUBCASE("none") {
    CHECK(read("{}").empty());
    CHECK(read(R"({"added_tokens": []})").empty());
  }
  SUBCASE("the last of repeated tokens is kept, tokens without content are dropped, ids are ignored") {
    const std::vector<AddedToken> tokens = read(R"({"added_tokens": [
      {"id": 5, "content": "a", "single_word": false, "lstrip": false, "rstrip": false, "normalized": true,
       "special": false},
      {"id": 6, "content": "", "single_word": false, "lstrip": false, "rstrip": false, "normalized": true,
       "special": false},
      {"id": 5, "content": "a", "single_word": true, "lstrip": true, "rstrip": true, "normalized": false,
       "special": true}]})");
    REQUIRE(tokens.size() == 1);
    CHECK(tokens[0].id == 0);
    CHECK(tokens[0].content == "a");
    CHECK(tokens[0].special);
    CHECK(tokens[0].lstrip);
    CHECK(tokens[0].rstrip);
    CHECK(tokens[0].single_word);
    CHECK_FALSE(tokens[0].normalized);
  }
  SUBCASE("refused") {
    const auto refused = [&](std::string_view json, const std::vector<std::string_view>& parts) {
      CAPTURE(json);
      check_refusal([&] { (void)read(json); }, Status::bad_input, parts);
    };
    refused(R"({"added_tokens": 3})", {"/added_tokens", "array of objects"});
    refused(R"({"added_tokens": [3]})", {"/added_tokens/0"});
    refused(R"({"added_tokens": [{"id": 1, "content": "a"}]})", {"/added_tokens/0/special", "found nothing"});
  }
}

}  // namespace
}  // namespace attnctl::test
