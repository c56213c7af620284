#include "input/text_input.hpp"

#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "input/sequences.hpp"
#include "input/words.hpp"
#include "support/refusal.hpp"
#include "support/temp_dir.hpp"
#include "tokenizer/tokenizer.hpp"
#include "tokenizer/unicode/unicode.hpp"

namespace attnctl::test {

using namespace input;

namespace {

std::vector<TextInput> read(const std::string& text, InputFormat format, std::uint64_t* blank = nullptr) {
  std::vector<TextInput> inputs;
  const std::uint64_t skipped = read_text_inputs(text, format, {"x", 100, 11}, inputs);
  if (blank != nullptr) *blank = skipped;
  return inputs;
}

TEST_CASE("txt has one text per line, blank lines are skipped and counted") {
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

TEST_CASE("the first line of a text decides its format") {
  struct Row {
    InputFormat format;
    std::vector<std::string> lines;
  };
  for (const Row& row : {
           Row{InputFormat::jsonl, {"{\"text\": \"a\"}", "{}", "\ufeff{}"}},
           Row{InputFormat::json, {"[", "[{\"text\": \"a\"}]", "{"}},
           Row{InputFormat::conllu,
               {"# sent_id = 1", "# global.columns = ID FORM", "# newdoc id = x", "# newpar",
                "\ufeff# text = a", "1\ta\t_\t_\t_\t_\t0\troot\t_\t_", "1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_"}},
           Row{InputFormat::txt,
               {"", "a", " {}", "# A title", "# a title = b", "#text = a", "# newdocument", "# ", "1\ta",
                "a\ta\t_\t_\t_\t_\t0\troot\t_\t_"}},
       }) {
    for (const std::string& line : row.lines) {
      CAPTURE(line);
      CHECK(guess_format(line) == row.format);
    }
  }
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

TEST_CASE("errors of invalid text input give its position") {
  struct Row {
    InputFormat format;
    std::string text;
    std::string says;
  };
  for (const Row& row : {
           Row{InputFormat::txt, "a\n\xe9\n",
               "x: line 12: got 0xe9 as byte 1 of the line, which is not UTF-8"},
           Row{InputFormat::jsonl, "{\"text\": \"a\"}\n{\"ids\": [1]}", "x: line 12: /text: is missing"},
           Row{InputFormat::jsonl, "\n{\"text\"", "x: line 12"},
           Row{InputFormat::json, "[{\"text\": \"a\"}, {\"text\": null}]",
               "x: /1/text: expected a string, found null"},
           Row{InputFormat::conllu, "1\ta\n", "x: line 11: got 2 columns"},
       }) {
    CAPTURE(row.text);
    check_refusal([&] { (void)read(row.text, row.format); }, Status::bad_input, {row.says});
  }
}

TEST_CASE("a line that is longer than a text may be is an error that names the line") {
  const std::string longest(tokenizer::kLongestText, 'a');
  CHECK(read("b\n\n" + longest + "\n", InputFormat::txt).size() == 2);
  check_refusal([&] { (void)read("b\n\n" + longest + "a\n", InputFormat::txt); }, Status::bad_input,
                {"x: line 13: the text has 16777217 bytes, need at most 16777216; split it"});
}

TEST_CASE("ids are numbers by default, and repeated ids are rejected") {
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

std::vector<TextBlock> blocks_of(const std::string& text, InputFormat format, std::size_t block_bytes) {
  const TempDir folder;
  TextBlocks blocks(folder.write("x.txt", text), format, block_bytes);
  std::vector<TextBlock> all;
  for (TextBlock block; blocks.next(block);) all.push_back(block);
  return all;
}

TEST_CASE("blocks of every size add up to the file, with correct offsets and lines") {
  const std::string text = "one\r\ntwo\n\n\nthree three three\n\r\nfour\nfive\n\nsix";
  for (const InputFormat format : {InputFormat::txt, InputFormat::conllu}) {
    for (std::size_t size = 1; size <= text.size() + 1; ++size) {
      CAPTURE(size);
      std::string together;
      std::uint64_t line = 1;
      for (const TextBlock& block : blocks_of(text, format, size)) {
        CHECK(!block.text.empty());
        CHECK(block.place.offset == together.size());
        CHECK(block.place.line == line);
        together += block.text;
        for (const char c : block.text) line += c == '\n' ? 1 : 0;
        if (together.size() == text.size()) continue;
        CHECK(block.text.ends_with('\n'));
        if (format == InputFormat::conllu) {
          const bool blank = together.ends_with("\n\n") || together.ends_with("\n\r\n");
          CHECK_MESSAGE(blank, together);
        }
      }
      CHECK(together == text);
    }
  }
}

TEST_CASE("empty files and lines longer than a block") {
  CHECK(blocks_of("", InputFormat::txt, 8).empty());
  const std::string longer(100'000, 'x');
  REQUIRE(blocks_of(longer, InputFormat::txt, 8).size() == 1);
}

TEST_CASE("a line of JSON Lines or a sentence of CoNLL-U of more than 64 MiB is an error") {
  const std::string longest(std::size_t{64} << 20U, 'x');
  for (const InputFormat format : {InputFormat::jsonl, InputFormat::conllu}) {
    CHECK(blocks_of(longest, format, 1 << 20).size() == 1);
    check_refusal([&] { (void)blocks_of(longest + "x", format, 1 << 20); }, Status::bad_input,
                  {"x.txt: line 1: an input is longer than 67108864 bytes; split it into several inputs"});
  }
}

TEST_CASE("errors of invalid UTF-8 give the byte in the line") {
  struct Row {
    std::string text;
    std::string says;
  };
  for (const Row& row : {
           Row{std::string("12345678\xff", 9), "line 3: got 0xff as byte 9 of the line"},
           Row{"\xC3", "line 3: got 0xc3 as byte 1 of the line"},
           Row{"a\xED\xA0\x80", "line 3: got 0xed as byte 2"},
           Row{"123456789\xC0\x80", "line 3: got 0xc0 as byte 10"},
           Row{"é\na\xE2\x82", "line 4: got 0xe2 as byte 2 of the line"},
       }) {
    check_refusal(
        [&] {
          require_utf8(row.text, {"f.txt", 100, 3});
        },
        Status::bad_input, {"f.txt: ", row.says});
  }
  require_utf8("12345678é🙂\xEF\xBF\xBD\n", {"f.txt", 0, 1});
  require_utf8(std::string("\0a", 2), {"f.txt", 0, 1});
}

TEST_CASE("every kind of white space separates words, and ranges count code points") {
  using Words = std::vector<TextWord>;
  struct Row {
    std::string text;
    Words want;
  };
  for (const Row& row : {
           Row{"", {}},
           Row{" \t\n\u3000", {}},
           Row{"The cat.", {{"The", {0, 3}}, {"cat.", {4, 8}}}},
           Row{"  é\u00a0ü\u2028x\u1680y ", {{"é", {2, 3}}, {"ü", {4, 5}}, {"x", {6, 7}}, {"y", {8, 9}}}},
           Row{"a\u200bb \u001c c", {{"a\u200bb", {0, 3}}, {"\u001c", {4, 5}}, {"c", {6, 7}}}},
           Row{"🙂 日本", {{"🙂", {0, 1}}, {"日本", {2, 4}}}},
       }) {
    CAPTURE(row.text);
    CHECK((white_space_words(row.text) == row.want));
    CHECK(tokenizer::unicode::count_code_points(row.text) ==
          (row.text.empty() ? 0 : tokenizer::unicode::count_code_points(row.text + "x") - 1));
  }
}

TEST_CASE("a token belongs to every word that it overlaps") {
  const std::vector<TextWord> words = {
      {"can", {0, 3}}, {"not", {3, 6}}, {"de", {7, 9}}, {"le", {7, 9}}, {"x", {10, 11}}};
  struct Row {
    tokenizer::TextRange token;
    std::pair<std::size_t, std::size_t> want;
  };
  for (const Row& row : {
           Row{{0, 6}, {0, 2}},
           Row{{2, 3}, {0, 1}},
           Row{{3, 4}, {1, 2}},
           Row{{6, 9}, {2, 4}},
           Row{{0, 11}, {0, 5}},
       }) {
    CHECK(words_in(words, row.token) == row.want);
  }
  for (const tokenizer::TextRange none : {tokenizer::TextRange{6, 7}, tokenizer::TextRange{3, 3},
                                          tokenizer::TextRange{0, 0}, tokenizer::TextRange{11, 12}}) {
    const auto [first, last] = words_in(words, none);
    CHECK(first == last);
  }
}

}  // namespace
}  // namespace attnctl::test

namespace attnctl::input {
namespace {

const tokenizer::Vocabulary kVocabulary({"[CLS]", "play", "##ing", "the", "##atre", "[SEP]"}, {0, 5});

Sequence sequence_of(std::vector<std::int64_t> ids) {
  Sequence sequence;
  sequence.id = "x";
  for (const std::int64_t id : ids) {
    sequence.tokens.emplace_back(*kVocabulary.token(id));
    sequence.special.push_back(kVocabulary.is_special(id) ? 1 : 0);
    sequence.separator.push_back(kVocabulary.is_separator(id) ? 1 : 0);
  }
  sequence.ids = std::move(ids);
  return sequence;
}

TEST_CASE("words from the marks of the vocabulary") {
  const Sequence sequence = sequence_of({0, 1, 2, 3, 4, 1, 5});
  const WordUnits units = word_units(sequence, kVocabulary);
  CHECK(units.unit_of_token == std::vector<std::size_t>{0, 1, 1, 2, 2, 3, 4});
  CHECK(units.count == 5);
  const Sequence pooled = pooled_sequence(sequence, units, kVocabulary);
  CHECK(pooled.tokens == std::vector<std::string>{"[CLS]", "playing", "theatre", "play", "[SEP]"});
  CHECK(pooled.special == std::vector<std::uint8_t>{1, 0, 0, 0, 1});
  CHECK(pooled.separator == std::vector<std::uint8_t>{0, 0, 0, 0, 1});
  CHECK(pooled.queries() == 5);
  CHECK(pooled.keys() == 5);
}

TEST_CASE("words from Sequence::words, with white space as separate units") {
  Sequence sequence = sequence_of({0, 1, 3, 3, 2, 5});
  sequence.word_texts = {"play-the", "##ing"};
  sequence.words = {std::nullopt, 0, 0, std::nullopt, 1, std::nullopt};
  const WordUnits units = word_units(sequence, kVocabulary);
  CHECK(units.unit_of_token == std::vector<std::size_t>{0, 1, 1, 2, 3, 4});
  CHECK(pooled_sequence(sequence, units, kVocabulary).tokens ==
        std::vector<std::string>{"[CLS]", "play-the", "the", "##ing", "[SEP]"});
}

TEST_CASE("embeddings have no words") {
  Sequence sequence;
  sequence.embeddings = OwnedMatrix<float>(3, 2);
  CHECK_THROWS_WITH_AS((void)word_units(sequence, kVocabulary), doctest::Contains("has no token strings"),
                       Error);
}

}  // namespace
}  // namespace attnctl::input
