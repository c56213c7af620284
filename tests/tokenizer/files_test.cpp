#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "support/refusal.hpp"
#include "support/temp_dir.hpp"
#include "tokenizer/files/tokenizer_file.hpp"
#include "tokenizer/models/token_model.hpp"
#include "tokenizer/tokenizer.hpp"
#include "tokenizer/vocabulary.hpp"

namespace attnctl::test {

using namespace tokenizer;

namespace {

using nlohmann::json;

/// A damaged file, and what the error says besides its name.
struct Damaged {
  std::string kind;
  std::string bytes;
  std::vector<std::string_view> says;
  std::string file = "tokenizer.json";
};

void check_damaged(const std::vector<Damaged>& rows, std::string_view tokenizer_json,
                   const std::function<void(const std::filesystem::path&)>& read) {
  for (const Damaged& row : rows) {
    CAPTURE(row.kind);
    const TempDir dir;
    if (!tokenizer_json.empty()) dir.write("tokenizer.json", tokenizer_json);
    dir.write(row.file, row.bytes);
    std::vector<std::string_view> says = row.says;
    says.push_back(row.file);
    check_refusal([&] { read(dir.path()); }, Status::bad_input, says);
  }
}

std::string model(const std::string& body) {
  return fmt::format("{{\"model\": {{{}}}}}", body);
}

TEST_CASE("impossible vocabularies and merges are errors") {
  const std::string bpe = R"("type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, )";
  const auto read = [](const std::filesystem::path& path) {
    auto file = read_tokenizer_file({path});
    REQUIRE(file.has_value());
    (void)make_token_model(*file);
  };
  check_damaged(
      {{"94: a merge longer than any entry",
        model(bpe + "\"merges\": [\"a b\", \"a " + std::string(1 << 20, 'b') + "\"]"),
        {"/model/merges/1", "1048576 bytes", "longest has 2"}},
       {"94: a merge to a token that the vocabulary lacks",
        model(bpe + R"("merges": ["a b", "b a"])"),
        {"/model/merges/1", "\"ba\""}},
       {"95: a missing side of a merge",
        model(bpe + R"("merges": ["a b", "c b"])"),
        {"/model/merges/1", "\"c\""}},
       {"95: one side only", model(bpe + R"("merges": ["ab"])"), {"/model/merges/0"}},
       {"95: three sides", model(bpe + R"("merges": ["a b c"])"), {"/model/merges/0"}},
       {"95: an array of one", model(bpe + R"("merges": [["a"]])"), {"/model/merges/0"}},
       {"95: an array of three", model(bpe + R"("merges": [["a", "b", "c"]])"), {"/model/merges/0"}},
       {"95: a number", model(bpe + R"("merges": [["a", 1]])"), {"/model/merges/0/1"}},
       {"95: an empty side", model(bpe + R"("merges": ["a "])"), {"/model/merges/0"}},
       {"96: id 2^32",
        model(R"("type": "WordLevel", "unk_token": "a", "vocab": {"a": 4294967296})"),
        {"/model/vocab/a", "4294967296"}},
       {"97: sparse id 4e9",
        model(R"("type": "WordLevel", "unk_token": "a", "vocab": {"a": 4000000000})"),
        {"/model/vocab/a", "4000000000"}},
       {"97: an id far beyond the number of tokens",
        model(R"("type": "WordLevel", "unk_token": "a", "vocab": {"a": 0, "b": 16000000})"),
        {"/model/vocab", "16000000", "\"b\""}},
       {"98: duplicate id",
        model(R"("type": "WordLevel", "unk_token": "a", "vocab": {"a": 0, "b": 1, "c": 0})"),
        {"/model/vocab", "id 0", "\"a\"", "\"c\""}},
       {"98: a token twice",
        model(R"("type": "WordLevel", "unk_token": "a", "vocab": {"a": 0, "b": 1, "a": 2})"),
        {"/model/vocab", "\"a\" twice"}},
       {"99: byte fallback without bytes or an unknown token",
        model(bpe + R"("merges": [], "byte_fallback": true)"),
        {"/model/byte_fallback", "<0x00>"}},
       {"99: the same in a Unigram model",
        model(R"("type": "Unigram", "vocab": [["a", -1]], "byte_fallback": true)"),
        {"/model/byte_fallback", "<0x00>"}},
       {"a score that is not a number",
        model(R"("type": "Unigram", "vocab": [["a", "-1"]])"),
        {"/model/vocab/0/1"}},
       {"a token without a score", model(R"("vocab": [["a"]])"), {"/model/vocab/0"}},
       {"a vocabulary of numbers", model(R"("vocab": [1])"), {"/model/vocab/0"}},
       {"no vocabulary", model(R"("type": "BPE", "merges": [])"), {"/model/vocab"}},
       {"no merges", model(R"("type": "BPE", "vocab": {"a": 0})"), {"/model/merges"}},
       {"an array for a model of ids",
        model(R"("type": "WordPiece", "vocab": [["a", -1]])"),
        {"/model/vocab", "WordPiece"}},
       {"dropout", model(bpe + R"("merges": [], "dropout": 0.1)"), {"/model/dropout", "unsupported 0.1"}},
       {"an unknown model",
        model(R"("type": "Neural", "vocab": {"a": 0})"),
        {"/model/type", "unsupported \"Neural\"", "WordPiece, BPE, Unigram, WordLevel"}},
       {"no type and no hint", model(R"("vocab": {"a": 0})"), {"/model/type"}},
       {"a vocabulary twice",
        model(R"("type": "WordLevel", "vocab": {"a": 0}, "vocab": {"a": 0})"),
        {"/model/vocab", "\"vocab\" twice"}},
       {"an object of merges",
        model(R"("type": "BPE", "vocab": {"a": 0}, "merges": {})"),
        {"/model/merges", "got an object, need an array of merges"}},
       {"an object for an id", model(R"("vocab": {"a": {}})"), {"/model/vocab/a", "need a token's id"}},
       {"an object for a piece",
        model(R"("vocab": [{"a": 0}])"),
        {"/model/vocab/0", "a token and its score"}},
       {"an array for a score",
        model(R"("vocab": [["a", [1]]])"),
        {"/model/vocab/0/1", "a token and its score"}},
       {"an object for a list of pieces",
        model(R"("type": "Unigram", "vocab": {"a": 0})"),
        {"/model/vocab", "got an object, need an array for Unigram"}},
       {"a right side without the prefix of words",
        model(bpe + R"("merges": ["a b"], "continuing_subword_prefix": "##")"),
        {"/model/merges/0", "got \"b\", need a token that begins with continuing_subword_prefix"}},
       {"byte fallback with a prefix",
        model(bpe + R"("merges": [], "byte_fallback": true, "continuing_subword_prefix": "##")"),
        {"/model/byte_fallback", "unsupported together with continuing_subword_prefix"}},
       {"a negative number of characters",
        model(R"("type": "WordPiece", "vocab": {"a": 0}, "max_input_chars_per_word": -1)"),
        {"/model/max_input_chars_per_word", "got -1, need at least 0"}},
       {"a number of characters beyond 64 bits",
        model(R"("type": "WordPiece", "vocab": {"a": 0}, "max_input_chars_per_word": 18446744073709551615)"),
        {"/model/max_input_chars_per_word", "a signed 64-bit integer, found 18446744073709551615"}},
       {"a type that is an array",
        model(R"("type": [], "vocab": {"a": 0})"),
        {"/model/type", "found an array"}},
       {"a type that is an object",
        model(R"("type": {}, "vocab": {"a": 0})"),
        {"/model/type", "found an object"}},
       {"a document that is an array", "[]", {"/model: expected an object, found nothing"}},
       {"a negative unk_id",
        model(R"("type": "Unigram", "vocab": [["a", -1]], "unk_id": -1)"),
        {"/model/unk_id", "got -1, need an id below 1"}},
       {"an unk_id that is not a token",
        model(R"("type": "Unigram", "vocab": [["a", -1]], "unk_id": 1)"),
        {"/model/unk_id"}},
       {"100,000 brackets", std::string(100'000, '['), {"@byte"}},
       {"vocab.json of arrays", R"({"a": [0]})", {"/a"}, "vocab.json"},
       {"vocab.txt of 16,777,217 lines",
        std::string(kLargestTokenId + 2, '\n'),
        {"got more than 16777216 tokens, one per line"},
        "vocab.txt"},
       {"vocab.txt that is not UTF-8", "a\n\xC3\n", {"@byte 2"}, "vocab.txt"}},
      "", read);
}

TEST_CASE("a damaged file next to tokenizer.json is an error that names it") {
  const std::string good = model(R"("type": "WordLevel", "unk_token": "a", "vocab": {"a": 0})");
  check_damaged(
      {{"not JSON", "{", {"@byte"}, "tokenizer_config.json"},
       {"an array", "[]", {"an object"}, "tokenizer_config.json"},
       {"a role that is a number", R"({"eos_token": 3})", {"/eos_token"}, "tokenizer_config.json"},
       {"a key that is not an id", R"({"added_tokens_decoder": {"x": {}}})", {"/x"}, "tokenizer_config.json"},
       {"a token without content",
        R"({"added_tokens_decoder": {"3": {"special": true}}})",
        {"/added_tokens_decoder/3/content"},
        "tokenizer_config.json"},
       {"an id that is not a number", R"({"b": "1"})", {"/b"}, "added_tokens.json"},
       {"a list of numbers", R"({"additional_special_tokens": [1]})", {"/0"}, "special_tokens_map.json"}},
      good, [](const std::filesystem::path& path) { (void)read_tokenizer_file({path}); });
}

TEST_CASE("files of an unsupported class are errors that name it") {
  struct Case {
    const char* file;
    const char* bytes;
    const char* name;
    const char* says;
  };
  for (const Case& each :
       {Case{"vocab.txt", "a\n", "EsmTokenizer", "unsupported \"EsmTokenizer\""},
        Case{"vocab.json", "{\"a\": 0}", "CLIPTokenizer", "unsupported \"CLIPTokenizer\""}}) {
    const TempDir dir;
    dir.write(each.file, each.bytes);
    dir.write("merges.txt", "");
    dir.write("tokenizer_config.json", fmt::format(R"({{"tokenizer_class": "{}"}})", each.name));
    check_refusal([&] { (void)read_tokenizer_file({dir.path()}); }, Status::bad_input, {each.says});
    CHECK(read_vocabulary({dir.path()}).id("a") == 0);  // the vocabulary needs no class
  }
}

TEST_CASE("vocab.json needs merges.txt for texts, but not for its vocabulary") {
  const TempDir dir;
  dir.write("vocab.json", R"({"a": 0})");
  CHECK_THROWS_WITH_AS((void)read_tokenizer_file({dir.path()}), doctest::Contains("merges.txt"), Error);
  CHECK(read_vocabulary({dir.path()}).id("a") == 0);
}

TEST_CASE("a line of merges.txt without two tokens is an error that names it") {
  const TempDir dir;
  dir.write("vocab.json", R"({"a": 0, "b": 1, "ab": 2})");
  dir.write("merges.txt", "#version: 0.2\na b\nab\n");
  check_refusal([&] { (void)read_tokenizer_file({dir.path()}); }, Status::bad_input,
                {"merges.txt: line 3: got \"ab\", need two tokens with a space between"});
}

TEST_CASE("a tokenizer.json of more than 256 MiB is an error") {
  const TempDir dir;
  const auto path = dir.write("tokenizer.json", "{");
  std::filesystem::resize_file(path, kLargestTokenizerFile + 1);
  check_refusal([&] { (void)read_tokenizer_file({dir.path()}); }, Status::bad_input,
                {"tokenizer.json: got 268435457 bytes, need at most 268435456"});
}

TEST_CASE("a text that needs an unknown token that the model lacks is an error") {
  struct Row {
    std::string model;
    std::string_view says;
  };
  for (const Row& row :
       {Row{R"("unk_token": "?", "vocab": {"a": 0})",  // no type, so that of a WordLevel model
            "/model/unk_token: the text needs the unknown token \"?\", which is not in the vocabulary"},
        Row{R"("type": "WordPiece", "unk_token": "?", "vocab": {"a": 0})", "unknown token \"?\""},
        Row{R"("type": "Unigram", "vocab": [["a", -1]])",
            "/model/unk_id: missing, but the text has a character without a token"}}) {
    const TempDir dir;
    dir.write("tokenizer.json", model(row.model));
    const Tokenizer tokenizer = Tokenizer::open({dir.path()});
    const auto state = tokenizer.make_state();
    Encoding encoding;
    tokenizer.encode("a", std::nullopt, *state, encoding);
    CHECK(encoding.ids == std::vector<std::int64_t>{0});
    check_refusal([&] { tokenizer.encode("b", std::nullopt, *state, encoding); }, Status::bad_input,
                  {"tokenizer.json", row.says});
    check_refusal([&] { tokenizer.encode("a\xFF", std::nullopt, *state, encoding); }, Status::bad_input,
                  {"text: @byte 1: not UTF-8; convert the text to UTF-8"});
    check_refusal([&] { tokenizer.encode("a", "\xC3", *state, encoding); }, Status::bad_input,
                  {"text: @byte 0: not UTF-8"});
  }
}

TEST_CASE("a chat template is never evaluated") {
  const TempDir dir;
  dir.write("tokenizer.json", model(R"("type": "WordLevel", "unk_token": "a", "vocab": {"a": 0})"));
  dir.write(
      "tokenizer_config.json",
      R"({"chat_template": "{% for x in range(10**12) %}{{ self.__init__.__globals__.os.abort() }}{% endfor %}"})");
  const auto file = read_tokenizer_file({dir.path()});
  REQUIRE(file.has_value());
  CHECK(file->parts.dump().find("__globals__") == std::string::npos);
}

// The reference accepts both.
TEST_CASE("unused ids, and byte fallback with an unknown token, are accepted") {
  const TempDir dir;
  dir.write("tokenizer.json", model(R"("type": "BPE", "vocab": {"a": 0, "b": 9, "ab": 20}, "merges": ["a b"],
                                       "byte_fallback": true, "unk_token": "b")"));
  auto file = read_tokenizer_file({dir.path()});
  REQUIRE(file.has_value());
  CHECK(make_vocabulary(*file).size() == 21);
  const TokenModelPtr made = make_token_model(*file);
  const auto state = std::make_unique<TokenModel::ModelState>();
  std::vector<PieceToken> tokens;
  made->tokenize("abx", *state, tokens);
  REQUIRE(tokens.size() == 2);
  CHECK(tokens[0].id == 20);
  CHECK(tokens[1].id == 9);
}

/// Returns the added tokens sorted by id.
json added_tokens(const TokenizerFile& file) {
  json tokens = json::array();
  for (const AddedToken& token : file.added_tokens) {
    tokens.push_back({{"id", token.id},
                      {"content", token.content},
                      {"special", token.special},
                      {"normalized", token.normalized},
                      {"lstrip", token.lstrip},
                      {"rstrip", token.rstrip},
                      {"single_word", token.single_word}});
  }
  std::sort(tokens.begin(), tokens.end(),
            [](const json& a, const json& b) { return a.at("id") < b.at("id"); });
  return tokens;
}

// Expected parts are from transformers (tests/golden/make_tokenizer_files.py).
TEST_CASE("each layout of files gives the same parts as in transformers") {
  const json rows = json::parse(slurp(ATTNCTL_SOURCE_DIR "/tests/golden/tokenizer_files.json"));
  for (const json& row : rows) {
    CAPTURE(row.at("name").get<std::string>());
    const TempDir dir;
    for (const auto& [name, text] : row.at("files").items()) dir.write(name, text.get<std::string>());
    const auto file = read_tokenizer_file({dir.path()});
    REQUIRE(file.has_value());
    CHECK(added_tokens(*file) == row.at("added_tokens"));
    if (!row.contains("parts")) continue;
    for (const auto& [key, want] : row.at("parts").items()) {
      const std::string part = key;  // Clang 14 cannot capture a structured binding
      CAPTURE(part);
      CHECK(json::parse(file->parts.value(part, nlohmann::ordered_json()).dump()) == want);
    }
  }
}

TEST_CASE("a directory without a tokenizer has none") {
  CHECK_FALSE(read_tokenizer_file({TempDir().path()}).has_value());
  const TempDir dir;
  check_refusal([&] { (void)Tokenizer::open({dir.path()}); }, Status::bad_input,
                {dir.path().native(), ": no tokenizer; a text needs a model directory with tokenizer.json"});
}

TEST_CASE("word marks, plain tokens, and words of several tokens") {
  struct Row {
    std::vector<std::string> tokens;  // by id
    std::vector<std::int64_t> words;  // of each token; -1: none
    std::string plain_of_last;
  };
  for (const Row& row : {
           Row{{"[CLS]", "play", "##ing", "cat", "[SEP]", "##s"}, {-1, 0, 0, 1, -1, 2}, "s"},
           Row{{"</s>", "\u0120an", "imal", ".", "\u0120it"}, {-1, 0, 0, 1, 2}, "it"},
           Row{{"\u2581an", "imal", "'", "s", "\u2581it"}, {0, 0, 1, 2, 3}, "it"},
           Row{{"A", "C", "G", "T"}, {0, 1, 2, 3}, "T"},
       }) {
    std::set<std::int64_t> special;
    std::vector<std::int64_t> ids;
    for (std::size_t i = 0; i < row.tokens.size(); ++i) {
      ids.push_back(static_cast<std::int64_t>(i));
      if (row.words[i] < 0) special.insert(ids.back());
    }
    const Vocabulary vocabulary(row.tokens, special);
    CAPTURE(row.tokens.back());
    CHECK(vocabulary.plain(row.tokens.back()) == row.plain_of_last);
    const auto words = vocabulary.words(row.tokens, ids);
    for (std::size_t i = 0; i < row.tokens.size(); ++i) {
      CAPTURE(row.tokens[i]);
      CHECK((words[i] ? static_cast<std::int64_t>(*words[i]) : -1) == row.words[i]);
    }
  }
}

TEST_CASE("a label has the word mark, unless markers are stripped, special tokens keep it") {
  struct Row {
    std::vector<std::string> tokens;    // by id; token 0 is special
    std::vector<std::string> stripped;  // their labels without markers
  };
  for (const Row& row : {
           Row{{"[CLS]", "play", "##ful", "##"}, {"[CLS]", "play", "ful", "##"}},
           Row{{"▁<PRE>", "▁the", "é", "▁"}, {"▁<PRE>", "the", "é", "▁"}},
           Row{{"<s>", "Ġthe", "Ã©", "Ġ"}, {"<s>", "the", "Ã©", "Ġ"}},
       }) {
    const Vocabulary vocabulary(row.tokens, {0});
    for (std::size_t i = 0; i < row.tokens.size(); ++i) {
      CHECK(vocabulary.label(row.tokens[i], false) == row.tokens[i]);
      CHECK(vocabulary.label(row.tokens[i], true) == row.stripped[i]);
    }
  }
}

TEST_CASE("a rare mark in a vocabulary of characters is not a word mark") {
  std::vector<std::string> tokens;
  for (int i = 0; i < 500; ++i) tokens.push_back("t" + std::to_string(i));
  tokens.emplace_back("##C");
  CHECK(Vocabulary(tokens, {}).plain("##C") == "##C");
}

TEST_CASE("vocabularies are read from each kind of file") {
  TempDir dir;
  SUBCASE("tokenizer.json, BPE with added tokens") {
    dir.write("tokenizer.json", R"({"added_tokens": [{"id": 3, "content": "<s>", "special": true},
      {"id": 4, "content": "zz", "special": false}], "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2},
      "merges": [["a", "b"]]}, "decoder": {"vocab": {"no": 9}}})");
    const Vocabulary vocabulary = read_vocabulary({dir.path()});
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
    const Vocabulary vocabulary = read_vocabulary({dir.path()});
    CHECK(vocabulary.size() == 3);
    CHECK(vocabulary.id("b") == 2);
  }
  SUBCASE("vocab.txt with CRLF, and the map of special tokens") {
    dir.write("vocab.txt", "[PAD]\r\n[UNK]\r\nend\r\nword\r\n");
    dir.write("special_tokens_map.json", R"({"eos_token": {"content": "end"}, "cls_token": "word"})");
    const Vocabulary vocabulary = read_vocabulary({dir.path()});
    CHECK(vocabulary.id("word") == 3);
    CHECK(vocabulary.is_special(0));
    CHECK(vocabulary.is_separator(2));
    CHECK(vocabulary.is_special(3));
    CHECK_FALSE(vocabulary.is_separator(3));
    CHECK_FALSE(vocabulary.is_mask(3));
  }
  SUBCASE("the mask token") {
    dir.write("vocab.txt", "[PAD]\n[MASK]\nhidden\n");
    CHECK(read_vocabulary({dir.path()}).is_mask(1));
    dir.write("tokenizer_config.json", R"({"mask_token": "hidden"})");
    CHECK(read_vocabulary({dir.path()}).is_mask(2));
    CHECK_FALSE(read_vocabulary({dir.path()}).is_mask(1));
  }
  SUBCASE("vocab.json") {
    dir.write("vocab.json", R"({"a": 1, "b": 0})");
    CHECK(read_vocabulary({dir.path()}).token(0) == "b");
  }
  SUBCASE("none") {
    CHECK(read_vocabulary({dir.path()}).empty());
  }
}

TEST_CASE("a text that is too long is an error") {
  const TempDir dir;
  dir.write("tokenizer.json", model(R"("type": "WordLevel", "unk_token": "a", "vocab": {"a": 0})"));
  const Tokenizer tokenizer = Tokenizer::open({dir.path()});
  const auto state = tokenizer.make_state();
  Encoding encoding;
  std::string text(kLongestText, 'a');
  tokenizer.encode(text, std::nullopt, *state, encoding);
  CHECK(encoding.size() == 1);
  text += 'a';
  check_refusal([&] { tokenizer.encode(text, std::nullopt, *state, encoding); }, Status::bad_input,
                {"the text has 16777217 bytes, need at most 16777216; split it"});
}

TEST_CASE("very many added tokens and roles keep their order and ids") {
  constexpr int kTokens = 20'000;
  const TempDir dir;
  dir.write("tokenizer.json", model(R"("type": "WordLevel", "unk_token": "a", "vocab": {"a": 0})"));
  std::string members;
  const auto add = [&](int i, std::string_view key, std::string_view value) {
    members += fmt::format("{}\"{}\": {}", members.empty() ? "" : ", ", fmt::format(fmt::runtime(key), i),
                           fmt::format(fmt::runtime(value), i));
  };
  SUBCASE("added_tokens_decoder") {
    for (int i = kTokens; i > 0; --i) add(i, "{}", R"({{"content": "<{}>"}})");
    dir.write("tokenizer_config.json", "{\"added_tokens_decoder\": {" + members + "}}");
  }
  SUBCASE("added_tokens.json") {
    for (int i = kTokens; i > 0; --i) add(i, "<{}>", "{}");
    dir.write("added_tokens.json", "{" + members + "}");
  }
  SUBCASE("roles") {
    for (int i = 1; i <= kTokens; ++i) add(i, "{}_token", R"("<{}>")");
    dir.write("tokenizer_config.json", "{" + members + "}");
  }
  SUBCASE("extra special tokens") {
    for (int i = 1; i <= kTokens; ++i) add(i, "role {}", R"("<{}>")");
    dir.write("tokenizer_config.json", "{\"extra_special_tokens\": {" + members + "}}");
  }
  const auto file = read_tokenizer_file({dir.path()});
  REQUIRE(file.has_value());
  REQUIRE(file->added_tokens.size() == kTokens);
  bool equal = true;
  for (int i = 1; i <= kTokens; ++i) {
    const AddedToken& token = file->added_tokens[static_cast<std::size_t>(i - 1)];
    equal = equal && token.id == i && token.content == fmt::format("<{}>", i);
  }
  CHECK(equal);
}

TEST_CASE("a damaged vocabulary is an error that names its file") {
  check_damaged({{"an id of 2^32", R"({"model": {"vocab": {"a": 4294967296}}})", {"id"}},
                 {"an id of -1", R"({"model": {"vocab": {"a": -1}}})", {"id"}},
                 {"an id of 1.5", R"({"model": {"vocab": {"a": 1.5}}})", {"1.5"}},
                 {"an open object", "{\"a\": ", {"@byte"}, "vocab.json"},
                 {"100,000 brackets", std::string(100'000, '['), {"@byte"}}},
                "", [](const std::filesystem::path& path) { (void)read_vocabulary({path}); });
}

// Expected bits are those of Hugging Face tokenizers 0.23.3 for a Unigram vocabulary with these scores. Some
// are not the nearest double.
TEST_CASE("scores are rounded as in the reference") {
  struct Row {
    std::string digits;
    std::uint64_t bits;
  };
  for (const Row& row : {
           Row{"0.0", 0x0000000000000000},
           Row{"-0.0", 0x8000000000000000},
           Row{"0.1", 0x3FB999999999999A},
           Row{"-7.2389896778605625", 0xC01CF4B9B5C9F885},
           Row{"-7.2897727006421835", 0xC01D28BA2CC2208B},
           Row{"-13.52988338470459", 0xC02B0F4CE0000000},
           Row{"1.5", 0x3FF8000000000000},
           Row{"2.5e-3", 0x3F647AE147AE147B},
           Row{"123456789012345678901234567890.5", 0x45F8EE90FF6C373E},
           Row{"18446744073709551616", 0x43F0000000000000},
           Row{"18446744073709551615.99", 0x43F0000000000000},
           Row{"1844674407370955161600.05", 0x4459000000000000},
           Row{"-1e-7", 0xBE7AD7F29ABCAF48},
           Row{"4.35E+2", 0x407B300000000000},
           Row{"0.30000000000000004", 0x3FD3333333333334},
           Row{"1e-320", 0x00000000000007E8},
           Row{"3e-308", 0x00159283684DBA76},
           Row{"1.7976931348623157e308", 0x7FEFFFFFFFFFFFFF},
           Row{"9007199254740993.0", 0x4340000000000001},
           Row{"0.000000000000000000000000000001234567890123456789012345", 0x39B90A3E33C69AC3},
           Row{"123456789012345678.123456789012345678", 0x437B69B4BA630F34},
           Row{"5e-324", 0x0000000000000001},
           Row{"1e22", 0x4480F0CF064DD592},
           Row{"1e23", 0x44B52D02C7E14AF6},
           Row{"-2.2250738585072011e-308", 0x8010000000000000},
           Row{"1E-400", 0x0000000000000000},
           Row{"-12.3456789012345678901", 0xC028B0FCD32F707A},
           Row{"-3.5407213460615177", 0xC00C5365B68CAAA2},
           Row{"-1.5474905134607368", 0xBFF8C28569A2F220},
           Row{"-5.940873639160215", 0xC017C3746117724F},
           Row{"-2.324584062036154", 0xC00298BF8759FC25},
           Row{"-0.9977264351938486", 0xBFEFED5FFD30644C},
           Row{"-6.023865217276122", 0xC01818701F9ED9FD},
           Row{"-13.769325646315783", 0xC02B89E50D15CCFB},
           Row{"-12.006785272437128", 0xC02803795BF66C80},
           Row{"-11.477439037581577", 0xC026F472E3B87E40},
           Row{"-3.3289226353547647", 0xC00AA1A230CE1A50},
           Row{"-6.0974965372762036e-04", 0xBF43FAF369272800},
           Row{"-4.2359285904403007339e-03", 0xBF7159B16C39E2F8},
           Row{"-5.33550e-15", 0xBCF80769A5E8DC96},
           Row{"-8.4e-02", 0xBFB5810624DD2F1B},
           Row{"9.94943965679901907606e+02", 0x408F178D3DE0DDCD},
           Row{"2.95996166337133555e+13", 0x42BAEBB2A28B715B},
           Row{"-7.0987448100e+12", 0xC299D338A6A84000},
           Row{"-8.671231e+27", 0xC5BC04AC966A8AF2},
           Row{"2.700382e-03", 0x3F661F1C8C0DFBFD},
           Row{"-6.32592703e-04", 0xBF44BA927C4C20C2},
           Row{"-3.586621935005160776e+04", 0xC0E1834704EA6641},
           Row{"8.086302e-25", 0x3AEF48491DE5A4FC},
           Row{"4.2e-14", 0x3D27A4D6808FA0FC},
           Row{"2.308641502573942797e-16", 0x3CB0A2B12011CE60},
           Row{"-3.379e-20", 0xBBE3F2334F6B6C7B},
       }) {
    CAPTURE(row.digits);
    CHECK(std::bit_cast<std::uint64_t>(read_score(row.digits)) == row.bits);
  }
}

TEST_CASE("a score out of range becomes infinite") {
  CHECK(std::isinf(read_score("1e309")));
  CHECK(read_score("-1e99999999999999999999") < 0);
  CHECK(std::isinf(read_score("-1e99999999999999999999")));
  CHECK(read_score("0e99999999999999999999") == 0);
}

}  // namespace
}  // namespace attnctl::test
