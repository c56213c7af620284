#include "tokenizer/regex/word_cutter.hpp"

#include <cstddef>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tokenizer/parts/part_config.hpp"
#include "tokenizer/regex/regex.hpp"
#include "tokenizer/unicode/unicode.hpp"

namespace attnctl::test {
namespace {

std::vector<WordRules> all_rules() {
  std::vector<WordRules> all;
  for (const auto letters :
       {WordRules::Letters::after_space, WordRules::Letters::after_any, WordRules::Letters::cased}) {
    for (const auto tail :
         {WordRules::Tail::none, WordRules::Tail::newlines, WordRules::Tail::newlines_and_slashes}) {
      for (const unsigned digits : {0U, 1U, 3U}) {
        for (const bool contractions : {false, true}) {
          for (const bool newlines : {false, true}) {
            all.push_back({letters, contractions, digits, tail, newlines});
          }
        }
      }
    }
  }
  return all;
}

/// Returns texts with every kind of character that the rules distinguish.
std::vector<std::string> random_texts(std::size_t count) {
  constexpr std::u32string_view alphabet =
      U"aabrevltdmsSTREVLMD'''  "
      U"\t\n\n\r\u000B\u0085\u00A0\u2028\u3000123\u0664\u00B2\u2167!?.,-/()\u3002\u3001"
      U"\u00E9\u00C9\u00DF\u017F\u212A\u01C5\u02B0\u00AA\u0301\u0308\u0903\u6F22\u5B57\u304B\uD55C\U0001F600"
      U"\u200D\u0915\u094D\u0000\u007F\uFEFF\u0378\u0897\U00010D50\U00010D70\U0002EBF0\U00011BF0";
  std::mt19937 random(5);
  std::vector<std::string> texts(count);
  for (std::string& text : texts) {
    for (auto length = random() % 24; length > 0; --length)
      text += unicode::Utf8(alphabet[random() % alphabet.size()]);
  }
  return texts;
}

std::vector<Regex::Match> matches_of(const std::string& pattern, const std::vector<std::string>& texts) {
  const auto nothing = PartConfig::Json::object();
  const Regex regex(PartConfig("tokenizer.json", "/pattern", nothing), pattern);
  std::vector<Regex::Match> all;
  std::vector<Regex::Match> matches;
  for (const std::string& text : texts) {
    regex.find_all(text, matches);
    all.insert(all.end(), matches.begin(), matches.end());
  }
  return all;
}

TEST_CASE("rules are recognised only in their own expression") {
  for (const WordRules& rules : all_rules()) {
    const std::string pattern = rules.pattern();
    CAPTURE(pattern);
    const auto found = WordRules::of(pattern);
    REQUIRE(found);
    CHECK(found->pattern() == pattern);
    CHECK(!WordRules::of(pattern + "|x"));
    CHECK(!WordRules::of("(?:" + pattern + ")"));
  }
  CHECK(!WordRules::of(""));
  // The expressions of GPT-2 and Llama 3.
  CHECK(WordRules().pattern() ==
        R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)");
  CHECK(WordRules{WordRules::Letters::after_any, true, 3, WordRules::Tail::newlines, true}.pattern() ==
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
        R"(|\s*[\r\n]+|\s+(?!\S)|\s+)");
}

TEST_CASE("words are the matches of Oniguruma") {
  const std::vector<std::string> texts = random_texts(400);
  for (const WordRules& rules : all_rules()) {
    const std::string pattern = rules.pattern();
    CAPTURE(pattern);
    // Oniguruma matches the group, because it is not recognised.
    CHECK(matches_of(pattern, texts) == matches_of("(?:" + pattern + ")", texts));
  }
}

TEST_CASE("the possessive expression matches the same as its rules") {
  const std::string possessive =
      R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
  CHECK(WordRules::of(possessive));
  const std::vector<std::string> texts = random_texts(2000);
  CHECK(matches_of(possessive, texts) == matches_of("(?:" + possessive + ")", texts));
}

TEST_CASE("classes with a quantifier match as in Oniguruma") {
  const std::vector<std::string> texts = random_texts(2000);
  for (const std::string pattern :
       {R"(\s+)", R"(\s)", R"([^\s]+)", R"(\p{L}{2,3})", R"(\p{N}{2})", R"(\w{2,})", R"([\]a-c]+)",
        "[\u6F22-\u6F24a-c]{1,2}", " {2,}", "a+", "\u3002", "[a&&b]", R"(\P{L}+)"}) {
    CAPTURE(pattern);
    const std::vector<Regex::Match> found = matches_of(pattern, texts);
    CHECK(found == matches_of("(?:" + pattern + ")", texts));  // Oniguruma matches the group
    CHECK(found.empty() == (pattern == "[a&&b]"));
  }
}

TEST_CASE("quantifiers that are lazy or possessive, or match nothing") {
  const std::vector<std::string> texts = {"aaaab", "baa"};
  CHECK(matches_of("a{2,3}?", texts) == std::vector<Regex::Match>{{0, 2}, {2, 4}, {1, 3}});
  CHECK(matches_of("a{2,3}+", texts) == std::vector<Regex::Match>{{0, 3}, {1, 3}});
  CHECK(matches_of("a{2}{2}", texts) == std::vector<Regex::Match>{{0, 4}});
  CHECK(matches_of("b?", {"ab"}) == std::vector<Regex::Match>{{0, 0}, {1, 2}});
}

}  // namespace
}  // namespace attnctl::test
