#include "tokenizer/regex/regex.hpp"

#include <cstddef>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "support/refusal.hpp"
#include "tokenizer/parts/part_config.hpp"
#include "tokenizer/parts_golden.hpp"
#include "tokenizer/unicode/unicode.hpp"

namespace attnctl::test {

using namespace tokenizer;

namespace {

using Json = PartConfig::Json;

Regex make(std::string_view pattern) {
  static const Json nothing = Json::object();
  return Regex(PartConfig("tokenizer.json", "/pattern/Regex", nothing), pattern);
}

std::vector<Regex::Match> matches_of(const Regex& regex, std::string_view text) {
  std::vector<Regex::Match> matches;
  regex.find_all(text, matches);
  return matches;
}

std::vector<std::string> found(std::string_view pattern, std::string_view text) {
  std::vector<std::string> all;
  for (const auto& [begin, end] : matches_of(make(pattern), text)) {
    all.emplace_back(text.substr(begin, end - begin));
  }
  return all;
}

const Json& golden() {
  static const Json document = parts_golden("regex.json");
  return document;
}

TEST_CASE("matches are ranges of bytes") {
  CHECK(found("b+", "abbab") == std::vector<std::string>{"bb", "b"});
  CHECK(found("[^x]", "x\U0001F600\u00E9x") == std::vector<std::string>{"\U0001F600", "\u00E9"});
  CHECK(found("a", "").empty());
}

TEST_CASE("an empty match right after a match is skipped") {
  CHECK(found("b*", "abba") == std::vector<std::string>{"", "bb", ""});
}

TEST_CASE("matches are those of the reference") {
  const auto mark = golden().at("match").get<std::string>();
  const auto texts = golden().at("texts").get<std::vector<std::string>>();
  for (const Json& row : golden().at("patterns")) {
    const auto pattern = row.at("pattern").get<std::string>();
    CAPTURE(pattern);
    const Regex regex = make(pattern);
    const auto want = row.at("replaced").get<std::vector<std::string>>();
    REQUIRE(want.size() == texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      CAPTURE(texts[i]);
      std::string replaced;
      std::size_t copied = 0;
      for (const auto& [begin, end] : matches_of(regex, texts[i])) {
        replaced += texts[i].substr(copied, begin - copied) + mark;
        copied = end;
      }
      CHECK(replaced + texts[i].substr(copied) == want[i]);
    }
  }
}

TEST_CASE("sets have the same code points as in the reference") {
  std::string text;
  for (char32_t c = 0; c < unicode::kCodePoints; ++c) {
    if (!is_surrogate(c)) text += unicode::Utf8(c);
  }
  for (const Json& row : golden().at("sets")) {
    const auto pattern = row.at("pattern").get<std::string>();
    CAPTURE(pattern);
    std::string members(text.size(), '0');
    for (const auto& [begin, end] : matches_of(make("(?:" + pattern + ")+"), text))
      members.replace(begin, end - begin, end - begin, '1');
    std::string of_characters;
    for (std::size_t i = 0; i < text.size(); unicode::next(text, i)) of_characters += members[i];
    CHECK(hash_of(of_characters) == row.at("members").get<std::string>());
  }
}

TEST_CASE("an invalid pattern is an error with Oniguruma's message") {
  struct Row {
    std::string pattern;
    const char* message;
  };
  const Row rows[] = {
      {"(", "end pattern with unmatched parenthesis"},
      {"a)", "unmatched close parenthesis"},
      {"[a", "premature end of char-class"},
      {"[]", "empty char-class"},
      {"[b-a]", "empty range in char class"},
      {R"([a-\d])", "char-class value at end of range"},
      {"[[:foo:]]", "invalid POSIX bracket type"},
      {"*", "target of repeat operator is not specified"},
      {"^*", "target of repeat operator is invalid"},
      {"a{1000000}", "too big number for repeat range"},
      {R"(\)", "end pattern at escape"},
      {R"(\p{Nonsense})", "invalid character property name {Nonsense}"},
      {"\\p{a\u202eb}", "invalid character property name {a\\u202eb}"},  // U+202E reverses text in a terminal
      {R"((a)\2)", "invalid backref number/name"},
      {"(?<>a)", "group name is empty"},
      {"(?s:.)", "undefined group option"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.pattern);
    check_refusal([&] { make(row.pattern); }, Status::bad_input,
                  {"tokenizer.json: /pattern/Regex: invalid regular expression", row.message});
  }
}

TEST_CASE("properties that only Oniguruma knows") {
  CHECK(found(R"(\p{Emoji_Presentation})", "a\U0001F600") == std::vector<std::string>{"\U0001F600"});
  CHECK(found(R"(\p{In_Greek_and_Coptic}+)", "a\u03B1\u03B2") == std::vector<std::string>{"\u03B1\u03B2"});
}

TEST_CASE("the property Any matches every character") {
  CHECK(found(R"(\p{Any}+)", "a\n\u03B1\U0010FFFF") == std::vector<std::string>{"a\n\u03B1\U0010FFFF"});
  CHECK(found(R"(\P{Any}|z)", "a\u03B1z") == std::vector<std::string>{"z"});
}

TEST_CASE("matches that overlap because of \\K are an error") {
  const Regex regex = make(R"((?<=\Ka)(?=b))");
  check_refusal([&] { matches_of(regex, "abcab"); }, Status::bad_input, {"/pattern/Regex", "\\K"});
}

TEST_CASE("deeply nested groups or classes are an error") {
  check_refusal([] { make(std::string(100000, '(')); }, Status::bad_input, {"parse depth limit over"});
  check_refusal([] { make(std::string(100000, '[')); }, Status::bad_input, {"parse depth limit over"});
}

TEST_CASE("endless backtracking is an error") {
  const std::string text = std::string(60, 'a') + "bc";
  for (const char* pattern : {"(a+)+$", "(a|a)*c", "(a*)*\\1c"}) {
    CAPTURE(pattern);
    const Regex regex = make(pattern);
    check_refusal([&] { matches_of(regex, text); }, Status::bad_input,
                  {"tokenizer.json: /pattern/Regex", "the regular expression fails on a text"});
    // The next search works.
    CHECK(matches_of(regex, "b").size() <= 2);
  }
}

TEST_CASE("long texts do not reach the limits") {
  const std::string text = [] {
    std::string all;
    for (int i = 0; i < 100000; ++i) all += "word 12, ";
    return all;
  }();
  CHECK(matches_of(make(R"( ?(?:\p{L}|x)+| ?\d+| ?[^\s\w]+|\s+)"), text).size() == 300001);
}

TEST_CASE("Oniguruma does not search texts of 2 GiB or more") {
  const std::string_view text("a", std::size_t{1} << 31U);  // refused before it is read
  const Regex regex = make("(?=a)");
  check_refusal([&] { matches_of(regex, text); }, Status::limit, {"/pattern/Regex", "2147483648 bytes"});
}

TEST_CASE("threads share an expression") {
  const Regex regex = make(R"(\w+)");
  std::vector<std::size_t> counts(4);
  std::vector<std::thread> workers;
  for (std::size_t& count : counts) {
    workers.emplace_back([&] {
      for (int i = 0; i < 200; ++i) count += matches_of(regex, "one two, three").size();
    });
  }
  for (std::thread& worker : workers) worker.join();
  CHECK(counts == std::vector<std::size_t>(4, 600));
}

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
  const Regex regex = make(pattern);
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
