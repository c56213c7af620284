#include "input/sequences.hpp"

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "input/token_query.hpp"

using namespace attnctl;

namespace {

Vocabulary small_vocabulary() {
  return {{"[CLS]", "[SEP]", "the", "an", "##imal", "it", "IT", "7"}, {0}};
}

/// For documents without text.
void read(const std::string& text, InputFormat format, const std::string& name, Batch& batch) {
  const Vocabulary vocabulary = small_vocabulary();
  TextEncoder encoder({}, "model.npz");
  read_sequences(text, format, name, {vocabulary, encoder}, batch);
}

}  // namespace

TEST_CASE("sequences come from JSON and JSON Lines, ids or tokens") {
  Batch batch;
  read(R"({"ids": [0, 2, 1]})", InputFormat::json, "a.json", batch);
  read(R"([{"tokens": ["the", "an", "##imal"], "id": "x", "mask": [1, 1, 0]}, {"ids": [5], "id": 9}])",
       InputFormat::json, "b.json", batch);
  read("\n{\"ids\": [2, 3], \"token_type_ids\": [0, 1]}\r\n\n{\"tokens\": [\"it\"]}", InputFormat::jsonl,
       "c.jsonl", batch);
  finish_batch(batch, small_vocabulary());
  REQUIRE(batch.sequences.size() == 5);
  CHECK(batch.sequences[0].id == "0");
  CHECK(batch.sequences[0].ids == std::vector<std::int64_t>{0, 2, 1});
  CHECK(batch.sequences[0].tokens == std::vector<std::string>{"[CLS]", "the", "[SEP]"});
  CHECK(batch.sequences[0].special == std::vector<std::uint8_t>{1, 0, 1});
  CHECK(batch.sequences[0].separator == std::vector<std::uint8_t>{0, 0, 1});
  CHECK(batch.sequences[1].id == "x");
  CHECK(batch.sequences[1].ids == std::vector<std::int64_t>{2, 3, 4});
  CHECK(batch.sequences[1].key_visible == std::vector<std::uint8_t>{1, 1, 0});
  CHECK(batch.sequences[2].id == "9");
  CHECK(batch.sequences[3].token_type_ids == std::vector<std::int64_t>{0, 1});
  CHECK(batch.sequences[4].id == "4");
}

TEST_CASE("bad sequences are refused with file and position") {
  struct Row {
    int kind;  // of the list of bad inputs; 0: not in it
    std::string text;
    std::string says;
  };
  for (const Row& row : {
           Row{102, R"({"ids": [3, -1]})", "line 1: /ids/1: got -1"},
           Row{104, R"({"ids": [3.0]})", "line 1: /ids/0: got 3.0"},
           Row{104, "{\"ids\": [3]}\n{\"ids\": [\"3\"]}", "line 2: /ids/0"},
           Row{0, R"({"tokens": ["the", "cat"]})", "\"cat\" is not in the model's vocabulary"},
           Row{0, R"({"tokens": ["the", "an", 3]})", "/tokens/2"},
           Row{0, R"({"ids": [1], "tokens": ["the"]})", "either"},
           Row{0, R"({"id": "x"})", "either"},
           Row{0, R"({"ids": [1], "masks": [1]})", "unsupported key"},
           Row{114, R"({"ids": [1, 2], "mask": [1]})", "got 1 values, need 2"},
           Row{115, R"({"ids": [1, 2], "mask": [1, 2]})", "/mask/1: got 2"},
           Row{0, R"([1])", "need an object"},
           Row{0, R"({"text": "a", "ids": [1]})", "either"},
           Row{0, R"({"text": "a", "mask": [1]})", "/mask: does not go with \"text\""},
           Row{0, R"({"ids": [1], "text_pair": "a"})", "/text_pair: does not go with \"ids\""},
           Row{0, R"({"text_pair": "a"})", "either"},
           Row{0, R"({"text": 1})", "line 1: /text: got \"1\", need a string"},
           Row{85, R"({"text": "\ud800"})", "line 1"},
           Row{0, "{\"text\": \"\xff\"}", "@byte 10: got 0xff"},
           Row{86, R"({"ids": [1], "ids": [2]})", "ids"},
           Row{82, std::string(100'000, '['), "line 1"},
       }) {
    CAPTURE(row.kind);
    CAPTURE(row.text.substr(0, 80));
    Batch batch;
    try {
      read(row.text, InputFormat::jsonl, "x.jsonl", batch);
      FAIL("accepted");
    } catch (const Error& error) {
      CHECK(error.status() == Status::bad_input);
      CHECK_MESSAGE(std::string(error.what()).find("x.jsonl") == 0, error.what());
      CHECK_MESSAGE(std::string(error.what()).find(row.says) != std::string::npos, error.what());
    }
  }
}

TEST_CASE("an empty sequence and a repeated id are refused") {
  Batch batch;
  batch.sequences.emplace_back();
  CHECK_THROWS_WITH_AS(finish_batch(batch, {}), doctest::Contains("empty sequence"), Error);
  batch.sequences.clear();
  for (int i = 0; i < 2; ++i) {
    batch.sequences.emplace_back().ids = {1};
    batch.sequences.back().id = "same";
  }
  CHECK_THROWS_WITH_AS(finish_batch(batch, {}), doctest::Contains("occurs twice"), Error);
}

TEST_CASE("--ids takes integers separated by commas") {
  CHECK(parse_ids("101,7592, 102") == std::vector<std::int64_t>{101, 7592, 102});
  for (const char* bad : {"", "1,", ",1", "-1", "1.5", "1,a", "99999999999999999999", "1 2"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS((void)parse_ids(bad), Error);
  }
}

TEST_CASE("find_word finds words, tokens and positions") {
  Batch batch;
  read(R"({"tokens": ["[CLS]", "the", "an", "##imal", "it", "the", "IT", "[SEP]"]})", InputFormat::json, "a",
       batch);
  finish_batch(batch, small_vocabulary());
  struct Row {
    std::string word;
    std::vector<std::size_t> want;
  };
  for (const Row& row : {
           Row{"the", {1}},
           Row{"the#2", {5}},
           Row{"the#3", {}},
           Row{"animal", {2, 3}},
           Row{"##imal", {3}},
           Row{"Animal", {2, 3}},
           Row{"it", {4}},
           Row{"IT", {6}},
           Row{"[SEP]", {7}},
           Row{"3", {3}},
           Row{"8", {}},
           Row{"cat", {}},
       }) {
    CAPTURE(row.word);
    CHECK(find_word(batch.sequences[0], small_vocabulary(), row.word) == row.want);
  }
}

TEST_CASE("text without a tokenizer is refused, and the error names the alternatives") {
  Batch batch;
  CHECK_THROWS_WITH_AS(read(R"({"text": "the animal"})", InputFormat::jsonl, "x.jsonl", batch),
                       "model.npz: has no tokenizer for text; give --ids, or tokens by --input", Error);
}

TEST_CASE("truncation cuts ids, token types and masks together") {
  Batch batch;
  read(R"([{"ids": [0, 2, 1], "token_type_ids": [0, 0, 1], "mask": [1, 0, 1]}, {"ids": [2, 3]}])",
       InputFormat::json, "a.json", batch);
  truncate_ids(batch, 2);
  CHECK(batch.sequences[0].ids == std::vector<std::int64_t>{0, 2});
  CHECK(batch.sequences[0].token_type_ids.size() == 2);
  CHECK(batch.sequences[0].key_visible.size() == 2);
  CHECK(batch.sequences[0].truncated == 1);
  CHECK(batch.sequences[1].truncated == 0);
}
