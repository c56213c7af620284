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
#include "tokenizer/files/part_config.hpp"
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

TEST_CASE("matches are ranges of bytes, whatever the width of characters") {
  CHECK(found("b+", "abbab") == std::vector<std::string>{"bb", "b"});
  CHECK(found("[^x]", "x\U0001F600\u00E9x") == std::vector<std::string>{"\U0001F600", "\u00E9"});
  CHECK(found("a", "").empty());
}

TEST_CASE("an empty match right behind a match does not count") {
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

TEST_CASE("sets hold the code points that they hold in the reference") {
  std::string text;
  for (char32_t c = 0; c < unicode::code_points; ++c) {
    if (!is_surrogate(c)) unicode::append(text, c);
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

TEST_CASE("what has no exact equal is refused by name") {
  struct Row {
    const char* pattern;
    const char* what;
  };
  const Row rows[] = {
      {R"(a\Kb)", R"(\K before character 3)"},
      {R"(\Ga)", R"(\G)"},
      {R"(\X)", R"(\X)"},
      {R"(\y)", R"(\y)"},
      {R"(\q)", R"(\q)"},
      {R"(\pL)", R"(\p without {)"},
      {R"(\p{Emoji})", R"(the property "Emoji")"},
      {R"(\p{Unknown})", R"(the property "Unknown")"},
      {R"(\p{L)", "an end too early"},
      {R"((?<n>a)\k<n>)", R"(\k)"},
      {R"((?<n>a)(b)\1)", "back-reference"},
      {R"((a)\2)", "back-reference to a group that is not there"},
      {R"((?i)(a)\1)", "back-reference"},
      {R"((?<n>a)\g<n>)", R"(\g)"},
      {"(?~ab)", "(?~"},
      {"(a)?(?(1)b|c)", "(?("},
      {"(*FAIL)", "(*"},
      {"(?{a})", "(?{"},
      {"(?P<a>x)", "(?P"},
      {"(?x: a b )", "(?x"},
      {"(?s:.)", "(?s"},
      {"(?<>a)", "a group without its name"},
      {"(?i:ss)", "(?i) with letters"},
      {"(?i:[\u00DF])", "(?i) with a class of letters"},
      {"(?i:[a-z&&[b]])", "&& in a class under (?i)"},
      {"(?<=a+)d", "U_REGEX_LOOK_BEHIND_LIMIT"},
      {"a**", "a repeat of a repeat"},
      {"^*", "a repeat of what has no width"},
      {"(?=a)*", "a repeat of what has no width"},
      {"*", "nothing to repeat"},
      {"{2}", "nothing to repeat"},
      {"a{3,2}", "a repeat {n,m} with n above m"},
      {"a{1000000}", "a repeat {n,m}"},
      {"(", "unmatched ("},
      {"(?", "unmatched ("},
      {"a)", "unmatched )"},
      {"[a", "an end too early"},
      {"[]", "an end too early"},
      {"[b-a]", "a range that ends before it begins"},
      {R"([a-\d])", "a range that ends with a set"},
      {R"([\d-a])", "a range that begins with a set"},
      {"[a-[b]]", "a range that ends with a class"},
      {"[[:foo:]]", "[:foo:]"},
      {"[[:alpha]", "an end too early"},
      {R"(\)", "a backslash at the end"},
      {R"(\xE9)", R"(\x of a byte)"},
      {R"(\x{110000})", "no one code point"},
      {R"(\u00)", R"(\u that is no one code point)"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.pattern);
    check_refusal([&] { make(row.pattern); }, Status::bad_input,
                  {"tokenizer.json: /pattern/Regex: unsupported", row.what});
  }
}

TEST_CASE("a pattern of groups or classes without end is refused") {
  check_refusal([] { make(std::string(100000, '(')); }, Status::bad_input,
                {"groups in more than 100 others"});
  check_refusal([] { make(std::string(100000, '[')); }, Status::bad_input,
                {"classes in more than 50 others"});
}

TEST_CASE("backtracking for ever ends in an error") {
  const std::string text = std::string(60, 'a') + "b";
  for (const char* pattern : {"(a+)+$", "(a|a)*c", "(?:a*)*(?:a*)*(?:a*)*c", "(a*)*\\1c"}) {
    CAPTURE(pattern);
    const Regex regex = make(pattern);
    check_refusal([&] { matches_of(regex, text); }, Status::bad_input,
                  {"tokenizer.json: /pattern/Regex", "backtracks for too long"});
    // The next text is matched as if nothing had been.
    CHECK(matches_of(regex, "b").size() <= 2);
  }
}

TEST_CASE("a long text is no reason to stop") {
  const std::string text = [] {
    std::string all;
    for (int i = 0; i < 100000; ++i) all += "word 12, ";
    return all;
  }();
  CHECK(matches_of(make(R"( ?(?:\p{L}|x)+| ?\d+| ?[^\s\w]+|\s+)"), text).size() == 300001);
}

TEST_CASE("workers share an expression") {
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
