#include "tokenizer/unicode/unicode.hpp"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "tokenizer/parts_golden.hpp"

namespace attnctl::test {

using namespace tokenizer;

namespace {

namespace uni = unicode;

TEST_CASE("UTF-8 round trips forwards and backwards") {
  for (const char32_t c : {U'\0', U'a', U'\x7F', U'\x80', U'\u07FF', U'\u0800', U'\uFFFD', U'\uFFFF',
                           U'\U00010000', U'\U0010FFFF'}) {
    CAPTURE(static_cast<std::uint32_t>(c));
    std::string text = "x";
    text += uni::Utf8(c);
    std::size_t i = 1;
    CHECK(uni::next(text, i) == c);
    CHECK(i == text.size());
    CHECK(uni::previous(text, i) == c);
    CHECK(i == 1);
  }
}

TEST_CASE("classes of code points that differ between versions of Unicode") {
  struct Row {
    char32_t c;
    int bits;
  };
  // From the reference, one code point at a time.
  constexpr int both_cases = uni::regex_capital | uni::regex_small;
  const Row rows[] = {
      {U' ', uni::white_space},
      {U'\u0085', uni::white_space | uni::bert_dropped},
      {U'\x1C', uni::bert_dropped},
      {U'\n', uni::white_space},
      {U'_', uni::punctuation | uni::word},
      {U'$', uni::punctuation},
      {U'\u00B2', uni::number | uni::regex_number},
      {U'\u200D', uni::word | uni::bert_dropped},
      {U'\u24B6', uni::word},
      {U'\u166D', uni::punctuation},                                     // So since Unicode 12
      {U'\u2E43', 0},                                                    // P since Unicode 9
      {U'\u08E2', 0},                                                    // Cf since Unicode 9
      {U'\u1734', uni::word | uni::bert_mark | uni::mark | both_cases},  // Mc since Unicode 14
      {U'\u0897', uni::word | both_cases},                               // Mn since Unicode 16
      {U'\U00016FF4', uni::number},                                      // Nl since Unicode 17
      {U'\U00011BF0', uni::word | uni::number | uni::regex_number},      // Nd since Unicode 16
      {U'\U0002B820', uni::word | uni::regex_letter | both_cases},  // an ideograph that is not in BERT's list
      {U'\u4E00', uni::word | uni::regex_letter | uni::cjk | both_cases},
      {U'\uFFFD', uni::bert_dropped},
      {U'\u0378', 0},
  };
  for (const Row& row : rows) {
    CAPTURE(static_cast<std::uint32_t>(row.c));
    CHECK(uni::classes()(row.c) == row.bits);
  }
}

TEST_CASE("every code point has the same classes as in the reference") {
  struct Row {
    const char* name;
    uni::Class of;
  };
  const Row rows[] = {
      {"white_space", uni::white_space},
      {"bert_punctuation", uni::punctuation},
      {"word", uni::word},
      {"number", uni::number},
      {"regex_capital", uni::regex_capital},
      {"regex_small", uni::regex_small},
      {"regex_letter", uni::regex_letter},
      {"regex_number", uni::regex_number},
  };
  const auto golden = parts_golden("classes.json");
  REQUIRE(golden.size() == std::size(rows));
  for (const Row& row : rows) {
    CAPTURE(row.name);
    std::string members;
    for (char32_t c = 0; c < uni::kCodePoints; ++c) {
      if (!is_surrogate(c)) members += uni::is(c, row.of) ? '1' : '0';
    }
    CHECK(hash_of(members) == golden.at(row.name).get<std::string>());
  }
}

TEST_CASE("lowercase of single characters") {
  struct Row {
    char32_t upper;
    char32_t lower;
  };
  for (const Row& row :
       {Row{U'A', U'a'}, Row{U'z', U'z'}, Row{U'[', U'['}, Row{U'\u03A3', U'\u03C3'}, Row{U'\u0130', U'i'},
        Row{U'\u1E9E', U'\u00DF'}, Row{U'\uA7CB', U'\u0264'}, Row{U'\U00010D51', U'\U00010D71'},
        Row{U'\U00016EB8', U'\U00016ED3'}, Row{U'\U00016EB9', U'\U00016EB9'}}) {
    CAPTURE(static_cast<std::uint32_t>(row.upper));
    CHECK(uni::to_lower(row.upper) == row.lower);
  }
}

}  // namespace
}  // namespace attnctl::test
