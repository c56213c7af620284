#include "tokenizer/vocabulary.hpp"

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "support/temp_dir.hpp"

using attnctl::read_vocabulary;
using attnctl::Vocabulary;
using attnctl::WordMark;
using attnctl::test::TempDir;

TEST_CASE("word marks, plain tokens, and words of several tokens") {
  struct Row {
    std::vector<std::string> tokens;  // by id
    WordMark mark;
    std::vector<std::int64_t> words;  // of each token; -1: none
    std::string plain_of_last;
  };
  for (const Row& row : {
           Row{{"[CLS]", "play", "##ing", "cat", "[SEP]", "##s"},
               WordMark::continuation,
               {-1, 0, 0, 1, -1, 2},
               "s"},
           Row{{"</s>", "\u0120an", "imal", ".", "\u0120it"}, WordMark::byte_level, {-1, 0, 0, 1, 2}, "it"},
           Row{{"\u2581an", "imal", "'", "s", "\u2581it"}, WordMark::metaspace, {0, 0, 1, 2, 3}, "it"},
           Row{{"A", "C", "G", "T"}, WordMark::none, {0, 1, 2, 3}, "T"},
       }) {
    std::set<std::int64_t> special;
    std::vector<std::int64_t> ids;
    for (std::size_t i = 0; i < row.tokens.size(); ++i) {
      ids.push_back(static_cast<std::int64_t>(i));
      if (row.words[i] < 0) special.insert(ids.back());
    }
    const Vocabulary vocabulary(row.tokens, special);
    CAPTURE(row.tokens.back());
    CHECK(vocabulary.mark() == row.mark);
    CHECK(vocabulary.plain(row.tokens.back()) == row.plain_of_last);
    const auto words = vocabulary.words(row.tokens, ids);
    for (std::size_t i = 0; i < row.tokens.size(); ++i) {
      CAPTURE(row.tokens[i]);
      CHECK((words[i] ? static_cast<std::int64_t>(*words[i]) : -1) == row.words[i]);
    }
  }
}

TEST_CASE("a rare mark in a vocabulary of characters is not a word mark") {
  std::vector<std::string> tokens;
  for (int i = 0; i < 500; ++i) tokens.push_back("t" + std::to_string(i));
  tokens.emplace_back("##C");
  CHECK(Vocabulary(tokens, {}).mark() == WordMark::none);
}

TEST_CASE("vocabularies are read from each kind of file") {
  TempDir dir;
  SUBCASE("tokenizer.json, BPE with added tokens") {
    dir.write("tokenizer.json", R"({"added_tokens": [{"id": 3, "content": "<s>", "special": true},
      {"id": 4, "content": "zz", "special": false}], "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2},
      "merges": [["a", "b"]]}, "decoder": {"vocab": {"no": 9}}})");
    const Vocabulary vocabulary = read_vocabulary(dir.path());
    CHECK(vocabulary.size() == 5);
    CHECK(vocabulary.id("ab") == 2);
    CHECK(vocabulary.token(4) == "zz");
    CHECK(vocabulary.is_special(3));
    CHECK_FALSE(vocabulary.is_special(4));
    CHECK_FALSE(vocabulary.id("no").has_value());
  }
  SUBCASE("tokenizer.json, Unigram") {
    dir.write("tokenizer.json",
              R"({"model": {"type": "Unigram", "vocab": [["<unk>", 0.0], ["a", -1.5], ["b", -2]]}})");
    const Vocabulary vocabulary = read_vocabulary(dir.path());
    CHECK(vocabulary.size() == 3);
    CHECK(vocabulary.id("b") == 2);
  }
  SUBCASE("vocab.txt with CRLF, and the map of special tokens") {
    dir.write("vocab.txt", "[PAD]\r\n[UNK]\r\nend\r\nword\r\n");
    dir.write("special_tokens_map.json", R"({"eos_token": {"content": "end"}, "cls_token": "word"})");
    const Vocabulary vocabulary = read_vocabulary(dir.path());
    CHECK(vocabulary.id("word") == 3);
    CHECK(vocabulary.is_special(0));
    CHECK(vocabulary.is_separator(2));
    CHECK(vocabulary.is_special(3));
    CHECK_FALSE(vocabulary.is_separator(3));
  }
  SUBCASE("vocab.json") {
    dir.write("vocab.json", R"({"a": 1, "b": 0})");
    CHECK(read_vocabulary(dir.path()).token(0) == "b");
  }
  SUBCASE("none") {
    CHECK(read_vocabulary(dir.path()).empty());
  }
}

TEST_CASE("a damaged vocabulary is an error that names its file") {
  struct Row {
    std::string file;
    std::string bytes;
    std::string says;
  };
  for (const Row& row : {
           Row{"tokenizer.json", R"({"model": {"vocab": {"a": 4294967296}}})", "id"},
           Row{"tokenizer.json", R"({"model": {"vocab": {"a": -1}}})", "id"},
           Row{"tokenizer.json", R"({"model": {"vocab": {"a": 1.5}}})", "1.5"},
           Row{"vocab.json", "{\"a\": ", "@byte"},
           Row{"tokenizer.json", std::string(100'000, '['), "@byte"},
       }) {
    TempDir dir;
    dir.write(row.file, row.bytes);
    CAPTURE(row.bytes.substr(0, 60));
    try {
      (void)read_vocabulary(dir.path());
      FAIL("accepted");
    } catch (const attnctl::Error& error) {
      CHECK(error.status() == attnctl::Status::bad_input);
      CHECK(std::string(error.what()).find(row.file) != std::string::npos);
      CHECK(std::string(error.what()).find(row.says) != std::string::npos);
    }
  }
}
