#include "input/text_input.hpp"

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "input/sequences.hpp"
#include "support/refusal.hpp"

namespace attnctl::test {
namespace {

std::vector<TextInput> read(const std::string& text, InputFormat format, std::uint64_t* blank = nullptr) {
  std::vector<TextInput> inputs;
  const std::uint64_t skipped = read_text_inputs(text, format, {"x", 100, 11}, inputs);
  if (blank != nullptr) *blank = skipped;
  return inputs;
}

TEST_CASE("txt has one text per line; blank lines are skipped and counted") {
  std::uint64_t blank = 0;
  const std::vector<TextInput> inputs =
      read(std::string("one \r\n\n \t \n\u3000\r\n two\r\rx\n") + std::string("nul\0!", 5), InputFormat::txt,
           &blank);
  REQUIRE(inputs.size() == 3);
  CHECK(inputs[0].text == "one ");
  CHECK(inputs[1].text == " two\r\rx");
  CHECK(inputs[2].text == std::string("nul\0!", 5));
  CHECK(inputs[0].id.empty());
  CHECK(blank == 3);
}

TEST_CASE("a byte order mark is skipped only at the beginning of a file") {
  const auto texts = [](const std::string& text, InputFormat format, std::uint64_t offset) {
    std::vector<TextInput> inputs;
    read_text_inputs(text, format, {"x", offset, 1}, inputs);
    REQUIRE(inputs.size() == 1);
    return inputs[0].text;
  };
  CHECK(texts("\ufeffa", InputFormat::txt, 0) == "a");
  CHECK(texts("\ufeffa", InputFormat::txt, 1) == "\ufeffa");
  CHECK(texts("\ufeff# text = a\n1\ta\t_\t_\t_\t_\t0\troot\t_\t_\n", InputFormat::conllu, 0) == "a");
  check_refusal([&] { (void)texts("\ufeff{\"text\": \"a\"}", InputFormat::jsonl, 0); }, Status::bad_input,
                {"x: line 1"});
}

TEST_CASE("JSON objects have a text, a pair and an id") {
  const std::string object = R"({"text": "a\nb", "text_pair": "", "id": 7})";
  for (const auto& [text, format] : {std::pair(object + "\n\n{\"text\": \"\"}", InputFormat::jsonl),
                                     std::pair("[" + object + ",{\"text\": \"\"}]", InputFormat::json)}) {
    const std::vector<TextInput> inputs = read(text, format);
    REQUIRE(inputs.size() == 2);
    CHECK(inputs[0].text == "a\nb");
    CHECK(inputs[0].pair == "");
    CHECK(inputs[0].id == "7");
    CHECK(inputs[1].text.empty());
    CHECK_FALSE(inputs[1].pair);
  }
  CHECK(read(object, InputFormat::json).size() == 1);
}

TEST_CASE("a treebank sentence has its words") {
  const std::vector<TextInput> inputs = read(
      "# sent_id = s\n# text = can't\n1-2\tcan't\t_\t_\t_\t_\t_\t_\t_\t_\n1\tca\t_\t_\t_\t_\t0\troot\t_\t_\n"
      "2\tn't\t_\t_\t_\t_\t1\tadvmod\t_\t_\n",
      InputFormat::conllu);
  REQUIRE(inputs.size() == 1);
  CHECK(inputs[0].id == "s");
  CHECK((inputs[0].words == std::vector<TextWord>{{"ca", {0, 2}}, {"n't", {2, 5}}}));
}

TEST_CASE("invalid text input is refused with its position") {
  struct Row {
    InputFormat format;
    std::string text;
    std::string says;
  };
  for (const Row& row : {
           Row{InputFormat::txt, "a\n\xe9\n", "x: @byte 102: got 0xe9, which is not UTF-8"},
           Row{InputFormat::jsonl, "{\"text\": \"a\"}\n{\"ids\": [1]}", "x: line 12: /text: is missing"},
           Row{InputFormat::jsonl, "\n{\"text\"", "x: line 12"},
           Row{InputFormat::json, "[{\"text\": \"a\"}, {\"text\": null}]",
               "x: /1/text: got \"null\", need a string"},
           Row{InputFormat::conllu, "1\ta\n", "x: line 11: got 2 columns"},
       }) {
    CAPTURE(row.text);
    check_refusal([&] { (void)read(row.text, row.format); }, Status::bad_input, {row.says});
  }
}

TEST_CASE("ids are numbers by default, and repeated ids are refused") {
  InputIds numbers;
  CHECK(numbers.next("") == "0");
  CHECK(numbers.next("") == "1");
  CHECK(numbers.next("x") == "x");
  CHECK(numbers.next("") == "3");
  CHECK(numbers.next("07") == "07");
  CHECK(numbers.next("2") == "2");
  CHECK(numbers.next("6") == "6");
  for (const char* again : {"0", "1", "x", "3", "07", "2", "6"}) {
    InputIds copy = numbers;
    check_refusal([&] { (void)copy.next(again); }, Status::bad_input, {"input 7: the id", again, "twice"});
  }
  InputIds before;
  CHECK(before.next("1") == "1");
  check_refusal([&] { (void)before.next(""); }, Status::bad_input, {"input 1: the id \"1\" occurs twice"});
}

}  // namespace
}  // namespace attnctl::test
