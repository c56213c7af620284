#include "tokenizer/regex/regex.hpp"

#include <cstddef>
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
                  {"tokenizer.json: /pattern/Regex", "backtracks for too long"});
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

}  // namespace
}  // namespace attnctl::test
