#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/error.hpp"
#include "support/temp_dir.hpp"
#include "tokenizer/files/tokenizer_file.hpp"
#include "tokenizer/models/token_model.hpp"

namespace attnctl::test {
namespace {

struct Row {
  std::string kind;
  std::string file;
  std::string bytes;
  std::vector<std::string> says;
};

void check_refused(const Row& row) {
  CAPTURE(row.kind);
  const TempDir dir;
  dir.write(row.file, row.bytes);
  try {
    auto file = read_tokenizer_files(dir.path());
    REQUIRE(file.has_value());
    (void)make_token_model(*file);
    FAIL_CHECK("accepted");
  } catch (const Error& error) {
    const std::string what = error.what();
    CHECK(error.status() == Status::bad_input);
    CHECK(what.find(row.file) != std::string::npos);
    CHECK(what.find('\n') == std::string::npos);
    CHECK(what.size() < 600);
    for (const std::string& each : row.says) {
      CAPTURE(what);
      CHECK(what.find(each) != std::string::npos);
    }
  }
}

std::string model(const std::string& body) {
  return fmt::format("{{\"model\": {{{}}}}}", body);
}

TEST_CASE("impossible vocabularies and merges are errors") {
  const std::string bpe = R"("type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, )";
  for (const Row& row : {
           Row{"94: a merge longer than any entry",
               "tokenizer.json",
               model(bpe + "\"merges\": [\"a b\", \"a " + std::string(1 << 20, 'b') + "\"]"),
               {"/model/merges/1", "1048576 bytes", "longest has 2"}},
           Row{"94: a merge to a token that the vocabulary lacks",
               "tokenizer.json",
               model(bpe + R"("merges": ["a b", "b a"])"),
               {"/model/merges/1", "\"ba\""}},
           Row{"95: a missing side of a merge",
               "tokenizer.json",
               model(bpe + R"("merges": ["a b", "c b"])"),
               {"/model/merges/1", "\"c\""}},
           Row{"95: one side only",
               "tokenizer.json",
               model(bpe + R"("merges": ["ab"])"),
               {"/model/merges/0"}},
           Row{"95: three sides",
               "tokenizer.json",
               model(bpe + R"("merges": ["a b c"])"),
               {"/model/merges/0"}},
           Row{"95: an array of one",
               "tokenizer.json",
               model(bpe + R"("merges": [["a"]])"),
               {"/model/merges/0"}},
           Row{"95: an array of three",
               "tokenizer.json",
               model(bpe + R"("merges": [["a", "b", "c"]])"),
               {"/model/merges/0"}},
           Row{"95: a number",
               "tokenizer.json",
               model(bpe + R"("merges": [["a", 1]])"),
               {"/model/merges/0/1"}},
           Row{"95: an empty side",
               "tokenizer.json",
               model(bpe + R"("merges": ["a "])"),
               {"/model/merges/0"}},
           Row{"96: id 2^32",
               "tokenizer.json",
               model(R"("type": "WordLevel", "unk_token": "a", "vocab": {"a": 4294967296})"),
               {"/model/vocab/a", "4294967296"}},
           Row{"97: sparse id 4e9",
               "tokenizer.json",
               model(R"("type": "WordLevel", "unk_token": "a", "vocab": {"a": 4000000000})"),
               {"/model/vocab/a", "4000000000"}},
           Row{"97: an id far beyond the number of tokens",
               "tokenizer.json",
               model(R"("type": "WordLevel", "unk_token": "a", "vocab": {"a": 0, "b": 16000000})"),
               {"/model/vocab", "16000000", "\"b\""}},
           Row{"98: duplicate id",
               "tokenizer.json",
               model(R"("type": "WordLevel", "unk_token": "a", "vocab": {"a": 0, "b": 1, "c": 0})"),
               {"/model/vocab", "id 0", "\"a\"", "\"c\""}},
           Row{"98: a token twice",
               "tokenizer.json",
               model(R"("type": "WordLevel", "unk_token": "a", "vocab": {"a": 0, "b": 1, "a": 2})"),
               {"/model/vocab", "\"a\" twice"}},
           Row{"99: byte fallback without bytes or an unknown token",
               "tokenizer.json",
               model(bpe + R"("merges": [], "byte_fallback": true)"),
               {"/model/byte_fallback", "<0x00>"}},
           Row{"99: the same in a Unigram model",
               "tokenizer.json",
               model(R"("type": "Unigram", "vocab": [["a", -1]], "byte_fallback": true)"),
               {"/model/byte_fallback", "<0x00>"}},
           Row{"a score that is not a number",
               "tokenizer.json",
               model(R"("type": "Unigram", "vocab": [["a", "-1"]])"),
               {"/model/vocab/0/1"}},
           Row{"a token without a score", "tokenizer.json", model(R"("vocab": [["a"]])"), {"/model/vocab/0"}},
           Row{"a vocabulary of numbers", "tokenizer.json", model(R"("vocab": [1])"), {"/model/vocab/0"}},
           Row{"no vocabulary", "tokenizer.json", model(R"("type": "BPE", "merges": [])"), {"/model/vocab"}},
           Row{"no merges",
               "tokenizer.json",
               model(R"("type": "BPE", "vocab": {"a": 0})"),
               {"/model/merges"}},
           Row{"an array for a model of ids",
               "tokenizer.json",
               model(R"("type": "WordPiece", "vocab": [["a", -1]])"),
               {"/model/vocab", "WordPiece"}},
           Row{"dropout",
               "tokenizer.json",
               model(bpe + R"("merges": [], "dropout": 0.1)"),
               {"/model/dropout", "unsupported 0.1"}},
           Row{"an unknown model",
               "tokenizer.json",
               model(R"("type": "Neural", "vocab": {"a": 0})"),
               {"/model/type", "unsupported \"Neural\"", "WordPiece, BPE, Unigram, WordLevel"}},
           Row{"no type and no hint", "tokenizer.json", model(R"("vocab": {"a": 0})"), {"/model/type"}},
           Row{"an unk_id that is not a token",
               "tokenizer.json",
               model(R"("type": "Unigram", "vocab": [["a", -1]], "unk_id": 1)"),
               {"/model/unk_id"}},
           Row{"100,000 brackets", "tokenizer.json", std::string(100'000, '['), {"@byte"}},
           Row{"vocab.json of arrays", "vocab.json", R"({"a": [0]})", {"/a"}},
           Row{"vocab.txt that is not UTF-8", "vocab.txt", "a\n\xC3\n", {"@byte 2"}},
       }) {
    check_refused(row);
  }
}

TEST_CASE("a damaged file next to tokenizer.json is an error that names it") {
  const std::string good = model(R"("type": "WordLevel", "unk_token": "a", "vocab": {"a": 0})");
  for (const Row& row : {
           Row{"not JSON", "tokenizer_config.json", "{", {"@byte"}},
           Row{"an array", "tokenizer_config.json", "[]", {"an object"}},
           Row{"a role that is a number", "tokenizer_config.json", R"({"eos_token": 3})", {"/eos_token"}},
           Row{"a key that is not an id",
               "tokenizer_config.json",
               R"({"added_tokens_decoder": {"x": {}}})",
               {"/x"}},
           Row{"a token without content",
               "tokenizer_config.json",
               R"({"added_tokens_decoder": {"3": {"special": true}}})",
               {"/added_tokens_decoder/3/content"}},
           Row{"an id that is not a number", "added_tokens.json", R"({"b": "1"})", {"/b"}},
           Row{"a list of numbers",
               "special_tokens_map.json",
               R"({"additional_special_tokens": [1]})",
               {"/0"}},
       }) {
    CAPTURE(row.kind);
    const TempDir dir;
    dir.write("tokenizer.json", good);
    dir.write(row.file, row.bytes);
    try {
      (void)read_tokenizer_files(dir.path());
      FAIL_CHECK("accepted");
    } catch (const Error& error) {
      const std::string what = error.what();
      CAPTURE(what);
      CHECK(error.status() == Status::bad_input);
      CHECK(what.find(row.file) != std::string::npos);
      for (const std::string& each : row.says) CHECK(what.find(each) != std::string::npos);
    }
  }
}

TEST_CASE("files of an unsupported class are errors that name it") {
  struct Case {
    const char* file;
    const char* bytes;
    const char* name;
  };
  for (const Case& each :
       {Case{"vocab.txt", "a\n", "EsmTokenizer"}, Case{"vocab.json", "{\"a\": 0}", "CLIPTokenizer"}}) {
    const TempDir dir;
    dir.write(each.file, each.bytes);
    dir.write("merges.txt", "");
    dir.write("tokenizer_config.json", fmt::format(R"({{"tokenizer_class": "{}"}})", each.name));
    try {
      (void)read_tokenizer_files(dir.path());
      FAIL_CHECK("accepted");
    } catch (const Error& error) {
      const std::string what = error.what();
      CHECK(what.find(fmt::format("unsupported \"{}\"", each.name)) != std::string::npos);
    }
    CHECK(read_vocabulary(dir.path()).id("a") == 0);  // the vocabulary needs no class
  }
}

TEST_CASE("vocab.json needs merges.txt for texts, but not for its vocabulary") {
  const TempDir dir;
  dir.write("vocab.json", R"({"a": 0})");
  CHECK_THROWS_WITH_AS((void)read_tokenizer_files(dir.path()), doctest::Contains("merges.txt"), Error);
  CHECK(read_vocabulary(dir.path()).id("a") == 0);
}

TEST_CASE("a chat template is never evaluated") {
  const TempDir dir;
  dir.write("tokenizer.json", model(R"("type": "WordLevel", "unk_token": "a", "vocab": {"a": 0})"));
  dir.write(
      "tokenizer_config.json",
      R"({"chat_template": "{% for x in range(10**12) %}{{ self.__init__.__globals__.os.abort() }}{% endfor %}"})");
  const auto file = read_tokenizer_files(dir.path());
  REQUIRE(file.has_value());
  CHECK(file->parts.dump().find("__globals__") == std::string::npos);
}

// The reference accepts both.
TEST_CASE("unused ids, and byte fallback with an unknown token, are accepted") {
  const TempDir dir;
  dir.write("tokenizer.json", model(R"("type": "BPE", "vocab": {"a": 0, "b": 9, "ab": 20}, "merges": ["a b"],
                                       "byte_fallback": true, "unk_token": "b")"));
  auto file = read_tokenizer_files(dir.path());
  REQUIRE(file.has_value());
  CHECK(make_vocabulary(*file).size() == 21);
  const TokenModelPtr made = make_token_model(*file);
  const auto state = made->make_state();
  std::vector<PieceToken> tokens;
  made->tokenize("abx", *state, tokens);
  REQUIRE(tokens.size() == 2);
  CHECK(tokens[0].id == 20);
  CHECK(tokens[1].id == 9);
}

}  // namespace
}  // namespace attnctl::test
