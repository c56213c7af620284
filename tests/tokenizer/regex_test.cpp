#include "tokenizer/regex.hpp"

#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tokenizer/part_config.hpp"

namespace attnctl::test {
namespace {

const PartConfig::Json no_config = PartConfig::Json::object();

std::vector<std::string> found(std::string_view pattern, std::string_view text) {
  const Regex regex(PartConfig("tokenizer.json", "/pattern", no_config), pattern);
  std::vector<Regex::Match> matches;
  regex.find_all(text, matches);
  std::vector<std::string> all;
  for (const auto& [begin, end] : matches) all.emplace_back(text.substr(begin, end - begin));
  return all;
}

TEST_CASE("matches are ranges of bytes, whatever the width of characters") {
  CHECK(found("b+", "abbab") == std::vector<std::string>{"bb", "b"});
  CHECK(found("[^x]", "x\U0001F600\u00E9x") == std::vector<std::string>{"\U0001F600", "\u00E9"});
  CHECK(found("a", "").empty());
}

TEST_CASE("an empty match right behind a match does not count") {
  CHECK(found("b*", "abba") == std::vector<std::string>{"", "bb", ""});
}

}  // namespace
}  // namespace attnctl::test
