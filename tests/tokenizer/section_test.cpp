// Tokenizers in GGUF files against their sources (tests/golden/make_gguf_tokenizers.py).
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "checkpoint/checkpoint.hpp"
#include "support/refusal.hpp"
#include "support/temp_dir.hpp"
#include "tokenizer/tokenizer.hpp"

namespace attnctl::test {

using namespace tokenizer;

namespace {

using nlohmann::json;
using Type = formats::TokenizerSection::Type;

const std::string kGoldens = ATTNCTL_SOURCE_DIR "/tests/golden/";

std::vector<std::int64_t> ids_of(const Tokenizer& tokenizer, const std::string& text) {
  const auto state = tokenizer.make_state();
  Encoding encoding;
  tokenizer.encode(text, std::nullopt, *state, encoding);
  return encoding.ids;
}

Tokenizer open_section(const std::string& name) {
  const auto section = checkpoint::read_tokenizer_section(kGoldens + "gguf/tokenizers/" + name + ".gguf");
  REQUIRE(section != nullptr);
  return Tokenizer::open(TokenizerOrigin{{}, section});
}

TEST_CASE("a GGUF file's SentencePiece tokenizer gives the ids of the library") {
  const json golden = json::parse(slurp(kGoldens + "sentencepiece/golden.json"));
  for (const char* name : {"bpe-bytes", "bpe-defined"}) {
    CAPTURE(std::string(name));
    const Tokenizer tokenizer = open_section(name);
    for (std::size_t i = 0; i < golden["texts"].size(); ++i) {
      CAPTURE(golden["texts"][i].dump());
      CHECK(json(ids_of(tokenizer, golden["texts"][i])) == golden[name][i]);
    }
  }
}

TEST_CASE("a GGUF file's byte-level tokenizer gives the ids of its tokenizer.json") {
  const json texts = json::parse(slurp(kGoldens + "tokenizers/strings.json"))["strings"];
  const json golden = json::parse(slurp(kGoldens + "gguf/tokenizers/golden.json"));
  CHECK(golden.size() == 4);
  for (const auto& item : golden.items()) {
    const std::string name = item.key();
    const json& rows = item.value();
    CAPTURE(name);
    const Tokenizer tokenizer = open_section(name);
    REQUIRE(rows.size() == texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      CAPTURE(texts[i].dump());
      CHECK(json(ids_of(tokenizer, texts[i]["text"])) == rows[i]);
    }
  }
}

/// Returns a byte-level section.
formats::TokenizerSection bytes_section() {
  formats::TokenizerSection section;
  section.file = "f.gguf";
  section.model = "gpt2";
  section.tokens = {"a", "b", "ab", "<s>"};
  section.types = {Type::normal, Type::normal, Type::normal, Type::control};
  section.merges = {"a b"};
  section.roles = {{"bos_token", 3}};
  return section;
}

/// Returns a SentencePiece section.
formats::TokenizerSection pieces_section() {
  formats::TokenizerSection section = bytes_section();
  section.model = "llama";
  section.tokens = {"a", "b", "ab", "\u2581"};
  section.types = {Type::normal, Type::normal, Type::normal, Type::normal};
  section.scores = {-3, -2, -1, -4};
  section.merges.clear();
  section.roles.clear();
  return section;
}

Tokenizer open_section(const formats::TokenizerSection& section) {
  return Tokenizer::open(TokenizerOrigin{{}, std::make_shared<const formats::TokenizerSection>(section)});
}

TEST_CASE("the section sets the tokens around the text and the space before it") {
  using Ids = std::vector<std::int64_t>;
  formats::TokenizerSection section = bytes_section();
  CHECK(ids_of(open_section(section), "ab") == Ids{2});
  section.add_bos = true;
  section.add_eos = true;
  section.roles.emplace_back("eos_token", 3);
  CHECK(ids_of(open_section(section), "aab<s>") == Ids{3, 0, 2, 3, 3});
  section.pre = "llama-bpe";
  section.add_bos.reset();
  CHECK(ids_of(open_section(section), "ab") == Ids{3, 2, 3});
  formats::TokenizerSection pieces = pieces_section();
  CHECK(ids_of(open_section(pieces), "ab") == Ids{3, 2});
  pieces.add_space_prefix = false;
  CHECK(ids_of(open_section(pieces), "aab") == Ids{0, 2});
}

TEST_CASE("a SentencePiece section may lack types and scores") {
  formats::TokenizerSection section = pieces_section();
  section.add_space_prefix = false;
  section.types[0] = Type::undefined;
  section.scores.clear();
  CHECK(ids_of(open_section(section), "aab") == std::vector<std::int64_t>{0, 2});
}

TEST_CASE("the merge with the better scored piece comes first") {
  formats::TokenizerSection section = pieces_section();
  section.add_space_prefix = false;
  section.tokens = {"a", "b", "c", "ab", "bc"};
  section.types.assign(5, Type::normal);
  section.scores = {-9, -9, -9, -2, -1};
  CHECK(ids_of(open_section(section), "abc") == std::vector<std::int64_t>{0, 4});
  section.scores = {-9, -9, -9, -1, -2};
  CHECK(ids_of(open_section(section), "abc") == std::vector<std::int64_t>{3, 2});
}

TEST_CASE("unsupported sections are errors, but their vocabulary can be read") {
  struct Row {
    formats::TokenizerSection section;
    std::vector<std::string_view> says;
  };
  std::vector<Row> rows = {{bytes_section(), {"tokenizer.ggml.model", "unsupported \"bert\"", "llama, gpt2"}},
                           {bytes_section(), {"tokenizer.ggml.pre", "unsupported \"viking\"", "qwen2"}},
                           {bytes_section(), {"merge 1", "\"ab\"", "two tokens"}},
                           {bytes_section(), {"/model/merges/0", "\"c\"", "vocabulary"}},
                           {pieces_section(), {"UNUSED", "\"ab\""}}};
  rows[0].section.model = "bert";
  rows[1].section.pre = "viking";
  rows[2].section.merges.emplace_back("ab");
  rows[3].section.merges = {"a c"};
  rows[4].section.types[2] = Type::unused;
  for (const Row& row : rows) {
    CAPTURE(row.says[0]);
    check_refusal([&] { (void)open_section(row.section); }, Status::bad_input, row.says);
    const auto section = std::make_shared<const formats::TokenizerSection>(row.section);
    CHECK(read_vocabulary(TokenizerOrigin{{}, section}).id("ab") == 2);
  }
  formats::TokenizerSection twice = bytes_section();
  twice.tokens[1] = "a";
  check_refusal([&] { (void)open_section(twice); }, Status::bad_input, {"\"a\" twice", "f.gguf"});
}

}  // namespace
}  // namespace attnctl::test
