#include <string>

#include <doctest/doctest.h>

#include "support/run.hpp"

using attnctl::test::run_attnctl;
using attnctl::test::RunResult;

namespace {

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST_CASE("--show: a head's pattern with its tokens") {
  const std::string input = R"({"tokens": ["[CLS]", "the", "cat", "sat", ".", "[SEP]"]})";
  const RunResult result =
      run_attnctl({"analyze", "data/tiny-bert", "--input", "-", "--input-format", "jsonl", "--show", "1.2"},
                  {.input = input});
  REQUIRE_MESSAGE(result.status == 0, result.err);
  CHECK(result.out.find("\n0: [CLS] the cat sat . [SEP]\n") != std::string::npos);
  CHECK(result.out.find("Pattern of 1.2, input \"0\"\n") != std::string::npos);
  CHECK(result.out.find("\nquery ] e t t . ]\n") != std::string::npos);
  for (const char* token : {"\n[CLS]", "\ncat", "\n[SEP]", "\nweight 0 "}) {
    CHECK_MESSAGE(result.out.find(token) != std::string::npos, token);
  }
  CHECK(result.out.find('\x1b') == std::string::npos);
}

TEST_CASE("--show: all heads of a layer, their mean first") {
  RunResult result = run_attnctl({"analyze", "data/tiny-llama", "--ids", "5,6,7,8", "--show", "3"});
  REQUIRE_MESSAGE(result.status == 0, result.err);
  const std::size_t mean = result.out.find("3 mean");
  REQUIRE(mean != std::string::npos);
  CHECK(mean < result.out.find("3.0"));
  CHECK(result.out.find("3.3") != std::string::npos);
  result = run_attnctl({"analyze", "data/tiny-llama", "--ids", "5,6,7,8", "--show", "3", "--format", "svg"});
  REQUIRE_MESSAGE(result.status == 0, result.err);
  CHECK(count_of(result.out, ">3 mean<") == 1);
  for (const char* head : {">3.0<", ">3.1<", ">3.2<", ">3.3<"}) CHECK(count_of(result.out, head) == 1);
  CHECK(result.out.find(">2.0<") == std::string::npos);
}

TEST_CASE("--show: contradictory options are rejected") {
  const auto refused = [](std::vector<std::string> more) {
    std::vector<std::string> arguments{"analyze", "data/tiny-llama", "--ids", "5,6", "--show"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const RunResult result = run_attnctl(arguments);
    CHECK(result.status == 2);
    return result.err;
  };
  CHECK(refused({"9"}).find("the layers are 0 to 3") != std::string::npos);
  CHECK(refused({"0.9"}).find("0.9") != std::string::npos);
  CHECK(refused({"1", "--layers", "2"}).find("remove --layers") != std::string::npos);
  CHECK(refused({"1", "--include", "scores"}).find("remove --include") != std::string::npos);
  CHECK(refused({"1", "--format", "json"}).find("text or svg") != std::string::npos);
}

}  // namespace
