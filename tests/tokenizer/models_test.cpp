#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/error.hpp"
#include "tokenizer/models/token_model.hpp"
#include "tokenizer/vocabulary.hpp"

namespace attnctl::test {

using namespace tokenizer;

namespace {

/// Returns "id:begin-end" of each token, separated by spaces.
std::string tokens_of(const TokenModel& model, TokenModel::ModelState& state, std::string_view piece) {
  std::vector<PieceToken> tokens;
  model.tokenize(piece, state, tokens);
  std::string text;
  for (const PieceToken& token : tokens) {
    text += fmt::format("{}{}:{}-{}", text.empty() ? "" : " ", token.id, token.begin, token.end);
  }
  return text;
}

TokenModelPtr model_of(std::string_view model) {
  TokenizerFile file = parse_tokenizer_json("tokenizer.json", fmt::format("{{\"model\": {}}}", model));
  check_vocabulary(file);
  return make_token_model(file);
}

// Expected tokens are from Model.tokenize of Hugging Face tokenizers 0.23.3. A row without a model uses that
// of the previous row.
TEST_CASE("models give the reference's tokens, also from their caches") {
  struct Row {
    const char* name;
    const char* model;
    const char* piece;
    const char* tokens;
  };
  const std::vector<Row> rows = {
      {"BPE: the lowest rank first, then the leftmost",
       R"({"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "bc": 4, "abc": 5, "aa": 6}, "merges": ["b c", "a b", "a a"]})",
       "abc", "0:0-1 4:1-3"},
      {"", "", "aab", "0:0-1 3:1-3"},
      {"", "", "aaa", "6:0-2 0:2-3"},
      {"", "", "abcb", "0:0-1 4:1-3 1:3-4"},
      {"", "", "aaaaaab", "6:0-2 6:2-4 0:4-5 3:5-7"},
      {"BPE: the last of equal merges counts, merges as pairs",
       R"({"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "bc": 4}, "merges": [["a", "b"], ["b", "c"], ["a", "b"]]})",
       "abc", "0:0-1 4:1-3"},
      {"", "", "ab", "3:0-2"},
      {"BPE without an unknown token drops characters",
       R"({"type": "BPE", "vocab": {"<u>": 0, "a": 1, "<0xC3>": 2, "<0xA9>": 3, "ab": 4, "b": 5, "abb": 6}, "merges": ["a b", "ab b"]})",
       "axb", "4:0-2"},
      {"", "", "axxbb", "6:0-3"},
      {"", "", "x", ""},
      {"", "", "é", ""},
      {"BPE with an unknown token",
       R"({"type": "BPE", "vocab": {"<u>": 0, "a": 1, "<0xC3>": 2, "<0xA9>": 3, "ab": 4, "b": 5, "abb": 6}, "merges": ["a b"], "unk_token": "<u>"})",
       "axxb", "1:0-1 0:1-2 0:2-3 5:3-4"},
      {"", "", "xx", "0:0-1 0:1-2"},
      {"BPE with fused unknown tokens",
       R"({"type": "BPE", "vocab": {"<u>": 0, "a": 1, "<0xC3>": 2, "<0xA9>": 3, "ab": 4, "b": 5, "abb": 6}, "merges": ["a b"], "unk_token": "<u>", "fuse_unk": true})",
       "axxb", "1:0-1 0:1-3 5:3-4"},
      {"", "", "xéx", "0:0-4"},
      {"BPE: byte tokens come before a pending unknown token",
       R"({"type": "BPE", "vocab": {"<u>": 0, "a": 1, "<0xC3>": 2, "<0xA9>": 3, "ab": 4, "b": 5, "abb": 6}, "merges": ["a b"], "unk_token": "<u>", "fuse_unk": true, "byte_fallback": true})",
       "aéb", "1:0-1 2:1-2 3:2-3 5:3-4"},
      {"", "", "ζéa", "2:0-1 3:1-2 0:2-4 1:4-5"},
      {"", "", "aζζéζ", "1:0-1 2:1-2 3:2-3 0:3-9"},
      {"BPE merges byte tokens and unknown tokens",
       R"({"type": "BPE", "vocab": {"<u>": 0, "a": 1, "<0xC3>": 2, "<0xA9>": 3, "<0xC3><0xA9>": 4, "a<0xC3><0xA9>": 5, "<u>a": 6}, "merges": ["<0xC3> <0xA9>", "a <0xC3><0xA9>", "<u> a"], "unk_token": "<u>", "byte_fallback": true})",
       "aéa", "5:0-3 1:3-4"},
      {"", "", "ζaé", "0:0-2 5:2-5"},
      {"BPE takes a known word whole",
       R"({"type": "BPE", "vocab": {"<u>": 0, "a": 1, "<0xC3>": 2, "<0xA9>": 3, "ab": 4, "b": 5, "abb": 6}, "merges": ["a b"], "ignore_merges": true})",
       "abb", "6:0-3"},
      {"", "", "abba", "4:0-2 5:2-3 1:3-4"},
      {"BPE without ignore_merges merges a known word",
       R"({"type": "BPE", "vocab": {"<u>": 0, "a": 1, "<0xC3>": 2, "<0xA9>": 3, "ab": 4, "b": 5, "abb": 6}, "merges": ["a b"]})",
       "abb", "4:0-2 5:2-3"},
      {"BPE with prefix and suffix",
       R"({"type": "BPE", "vocab": {"a": 0, "@@b": 1, "@@c</w>": 2, "ab": 3, "abc</w>": 4, "a</w>": 5, "<u>": 6, "@@c": 7, "@@bc": 8}, "merges": ["a @@b", "ab @@c</w>", "@@b @@c"], "unk_token": "<u>", "continuing_subword_prefix": "@@", "end_of_word_suffix": "</w>"})",
       "abc", "4:0-3"},
      {"", "", "a", "5:0-1"},
      {"", "", "ab", "0:0-1 6:1-2"},
      {"", "", "abcc", "3:0-2 7:2-3 2:3-4"},
      {"", "", "éa", "6:0-2 6:2-3"},
      {"", "", "abéc", "3:0-2 6:2-4 2:4-5"},
      {"WordPiece",
       R"({"type": "WordPiece", "vocab": {"[UNK]": 0, "a": 1, "ab": 2, "##b": 3, "##bb": 4, "b": 5, "é": 6, "##é": 7, "##中": 8}, "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 5})",
       "ab", "2:0-2"},
      {"", "", "abb", "2:0-2 3:2-3"},
      {"", "", "abbb", "2:0-2 4:2-4"},
      {"", "", "abx", "0:0-3"},
      {"", "", "éé", "6:0-2 7:2-4"},
      {"", "", "a中", "1:0-1 8:1-4"},
      {"", "", "中", "0:0-3"},
      {"", "", "ééééé", "6:0-2 7:2-4 7:4-6 7:6-8 7:8-10"},
      {"", "", "éééééé", "0:0-12"},
      {"", "", "##b", "3:0-3"},
      {"", "", "abababab", "0:0-8"},
      {"WordPiece without a prefix",
       R"({"type": "WordPiece", "vocab": {"[UNK]": 0, "a": 1, "ab": 2, "##b": 3, "##bb": 4, "b": 5, "é": 6, "##é": 7, "##中": 8}, "unk_token": "[UNK]", "continuing_subword_prefix": "", "max_input_chars_per_word": 100})",
       "aba", "2:0-2 1:2-3"},
      {"", "", "##bb", "4:0-4"},
      {"WordLevel", R"({"type": "WordLevel", "vocab": {"<u>": 0, "ab": 1, "é": 2}, "unk_token": "<u>"})",
       "ab", "1:0-2"},
      {"", "", "é", "2:0-2"},
      {"", "", "abé", "0:0-4"},
      {"Unigram: ties keep the earlier start",
       R"({"type": "Unigram", "vocab": [["<u>", 0.0], ["a", -1.0], ["aa", -2.0], ["b", -1.5], ["ab", -2.4], ["<0xC3>", -9.0], ["<0xA9>", -9.0], ["abb", -9]], "unk_id": 0})",
       "aaa", "1:0-1 2:1-3"},
      {"", "", "aaaa", "2:0-2 2:2-4"},
      {"", "", "ab", "4:0-2"},
      {"", "", "abb", "4:0-2 3:2-3"},
      {"Unigram joins neighbouring unknown tokens",
       R"({"type": "Unigram", "vocab": [["<u>", 0.0], ["a", -1.0], ["aa", -2.0], ["b", -1.5], ["ab", -2.4], ["<0xC3>", -9.0], ["<0xA9>", -9.0], ["abb", -9]], "unk_id": 0})",
       "axya", "1:0-1 0:1-3 1:3-4"},
      {"", "", "x", "0:0-1"},
      {"", "", "a<u>xb", "1:0-1 0:1-5 3:5-6"},
      {"", "", "<u>", "0:0-3"},
      {"Unigram: byte tokens, or the unknown token if one is missing",
       R"({"type": "Unigram", "vocab": [["<u>", 0.0], ["a", -1.0], ["aa", -2.0], ["b", -1.5], ["ab", -2.4], ["<0xC3>", -9.0], ["<0xA9>", -9.0], ["abb", -9]], "unk_id": 0, "byte_fallback": true})",
       "aéb", "1:0-1 5:1-3 6:1-3 3:3-4"},
      {"", "", "éé", "5:0-4 6:0-4 5:0-4 6:0-4"},
      {"", "", "éx", "0:0-3"},
      {"", "", "ζ", "0:0-2"},
      {"", "", "<u>é", "0:0-5"},
      {"Unigram: a repeated token has the last id",
       R"({"type": "Unigram", "vocab": [["<u>", 0.0], ["a", -1.0], ["aa", -2.0], ["b", -1.5], ["ab", -2.4], ["<0xC3>", -9.0], ["<0xA9>", -9.0], ["abb", -9], ["a", -3.0], ["b", -0.5]], "unk_id": 0})",
       "aab", "2:0-2 9:2-3"},
      {"old BPE without a type",
       R"({"vocab": {"<u>": 0, "a": 1, "<0xC3>": 2, "<0xA9>": 3, "ab": 4, "b": 5, "abb": 6}, "merges": ["#version: 0.2", "a b"]})",
       "ab", "4:0-2"},
      {"old WordPiece without a type",
       R"({"vocab": {"[UNK]": 0, "a": 1, "ab": 2, "##b": 3, "##bb": 4, "b": 5, "é": 6, "##é": 7, "##中": 8}, "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100})",
       "abb", "2:0-2 3:2-3"},
      {"old Unigram without a type",
       R"({"vocab": [["<u>", 0.0], ["a", -1.0], ["aa", -2.0], ["b", -1.5], ["ab", -2.4], ["<0xC3>", -9.0], ["<0xA9>", -9.0], ["abb", -9]], "unk_id": 0})",
       "ab", "4:0-2"},
      {"BPE: positions after a dropped character of a long piece",
       R"({"type": "BPE", "vocab": {"<u>": 0, "a": 1, "<0xC3>": 2, "<0xA9>": 3, "ab": 4, "b": 5, "abb": 6}, "merges": ["a b"]})",
       "abababababababababxéababababababababab",
       "4:0-2 4:2-4 4:4-6 4:6-8 4:8-10 4:10-12 4:12-14 4:14-16 4:16-18 4:18-20 4:20-22 4:22-24 4:24-26 "
       "4:26-28 4:28-30 4:30-32 4:32-34 4:34-36"},
      {"", "", "abababababababababaxbababababababababab",
       "4:0-2 4:2-4 4:4-6 4:6-8 4:8-10 4:10-12 4:12-14 4:14-16 4:16-18 4:18-20 4:20-22 4:22-24 4:24-26 "
       "4:26-28 4:28-30 4:30-32 4:32-34 4:34-36 4:36-38"},
      {"BPE: unknown tokens of a long piece",
       R"({"type": "BPE", "vocab": {"<u>": 0, "a": 1, "<0xC3>": 2, "<0xA9>": 3, "ab": 4, "b": 5, "abb": 6}, "merges": ["a b"], "unk_token": "<u>", "fuse_unk": true})",
       "abababababababababxxéabababababababababx",
       "4:0-2 4:2-4 4:4-6 4:6-8 4:8-10 4:10-12 4:12-14 4:14-16 4:16-18 0:18-22 4:22-24 4:24-26 4:26-28 "
       "4:28-30 4:30-32 4:32-34 4:34-36 4:36-38 4:38-40 0:40-41"},
  };
  TokenModelPtr model;
  std::unique_ptr<TokenModel::ModelState> state;
  for (const Row& row : rows) {
    if (*row.model != '\0') {
      model = model_of(row.model);
      state = std::make_unique<TokenModel::ModelState>();
    }
    CAPTURE(row.name);
    CAPTURE(row.piece);
    CHECK(tokens_of(*model, *state, row.piece) == row.tokens);
    CHECK(tokens_of(*model, *state, row.piece) == row.tokens);
  }
}

/// Returns different words of a few bytes, numbered from 0.
std::map<std::string, std::int32_t> some_words(std::mt19937& random) {
  std::map<std::string, std::int32_t> words;
  const std::string bytes("ab\0\xFF\x80z", 6);
  while (words.size() < 3000) {
    std::string word(1 + random() % 12, 'a');
    for (char& c : word) c = bytes[random() % bytes.size()];
    words.try_emplace(word, static_cast<std::int32_t>(words.size()));
  }
  return words;
}

TEST_CASE("a trie and a table find their words and no others") {
  std::mt19937 random(5);
  const auto words = some_words(random);
  std::vector<TokenEntry> entries;
  for (const auto& [word, value] : words) entries.push_back({word, value, 0});
  const TokenTable table(entries);
  const TokenTrie trie(entries, table);
  CHECK(table.size() == words.size());
  CHECK(table.longest() == 12);
  const auto found = [&](std::string_view word) {
    const std::uint32_t node = trie.walk(word);
    return node == TokenTrie::kNowhere ? -1 : trie.id(node);
  };
  for (const auto& [word, value] : words) {
    REQUIRE(found(word) == value);
    REQUIRE(table.find(word) == value);
    for (std::string other : {word + 'a', word + 'q', word.substr(1), word.substr(0, word.size() - 1)}) {
      const auto known = words.find(other);
      const std::int32_t want = known == words.end() ? -1 : known->second;
      REQUIRE(found(other) == want);
      REQUIRE(table.find(other) == want);
    }
  }
}

TEST_CASE("an empty trie and an empty table find nothing") {
  const TokenTable table({});
  CHECK(table.find("a") == -1);
  CHECK(table.find("") == -1);
  const TokenTrie trie({}, table);
  CHECK(trie.walk("a") == TokenTrie::kNowhere);
  CHECK(trie.id(TokenTrie::kRoot) == -1);
}

TEST_CASE("a table has the last id of a repeated token") {
  const TokenTable table({{"a", 1, 0}, {"", 2, 0}, {"a", 3, 0}});
  CHECK(table.size() == 2);
  CHECK(table.find("a") == 3);
  CHECK(table.find("") == 2);
}

TEST_CASE("a word cache returns what was put, and starts again when it is full") {
  WordCache cache;
  std::vector<PieceToken> tokens;
  const auto tokens_of = [](std::size_t i) {
    return std::vector<PieceToken>(1 + i % 3, PieceToken{static_cast<std::int32_t>(i), 0, 1});
  };
  /// Appends the tokens of a word. Returns whether the cache had them.
  const auto append = [&](const std::string& word, std::size_t i) {
    bool known = true;
    tokens.assign(1, PieceToken{-1, 0, 1});
    cache.append(word, tokens, [&] {
      known = false;
      const auto made = tokens_of(i);
      tokens.insert(tokens.end(), made.begin(), made.end());
    });
    REQUIRE(tokens.size() == 2 + i % 3);
    REQUIRE(tokens.front().id == -1);
    REQUIRE(tokens.back().id == static_cast<std::int32_t>(i));
    return known;
  };
  std::size_t known = 0;
  for (std::size_t i = 0; i < 100'000; ++i) {
    REQUIRE_FALSE(append("w" + std::to_string(2 * i), 2 * i));
    if (append("w" + std::to_string(i / 2 * 2), i / 2 * 2)) ++known;
  }
  CHECK(known > 10'000);
  const std::string lengthy(WordCache::kLongest + 1, 'a');
  CHECK_FALSE(append(lengthy, 0));
  CHECK_FALSE(append(lengthy, 0));
  CHECK(append("w199998", 199'998));
}

/// Merges the pair with the lowest rank, the leftmost first, until there is none.
std::vector<std::int32_t> merged(std::vector<std::int32_t> ids, const MergeTable& merges) {
  for (;;) {
    std::size_t best = ids.size();
    std::uint32_t rank = std::numeric_limits<std::uint32_t>::max();
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const MergeTable::Merge merge = merges.find(ids[i], ids[i + 1]);
      if (merge.exists() && merge.rank < rank) {
        best = i;
        rank = merge.rank;
      }
    }
    if (best == ids.size()) return ids;
    ids[best] = merges.find(ids[best], ids[best + 1]).id;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST_CASE("short and long words merge in the order of the ranks") {
  std::mt19937 random(11);
  const auto draw = [&](std::uint32_t below) { return static_cast<std::uint32_t>(random() % below); };
  BpeMerger merger;
  for (std::uint32_t round = 0; round < 60; ++round) {
    const std::uint32_t characters = 2 + round % 4;
    const std::uint32_t count = 5 + draw(60);
    MergeTable merges(count);
    for (std::uint32_t rank = 0; rank < count; ++rank) {
      const std::uint32_t known = characters + rank;
      merges.put(static_cast<std::int32_t>(draw(known)), static_cast<std::int32_t>(draw(known)),
                 {rank, static_cast<std::int32_t>(known)});
    }
    for (const std::size_t size : {0U, 1U, 2U, 7U, 47U, 48U, 49U, 50U, 300U}) {
      merger.symbols.clear();
      std::vector<std::int32_t> ids;
      for (std::size_t i = 0; i < size; ++i) {
        ids.push_back(static_cast<std::int32_t>(draw(characters)));
        merger.symbols.push_back({ids.back(), 1, {}});
      }
      merger.merge(merges);
      std::vector<std::int32_t> got;
      std::size_t bytes = 0;
      for (const BpeSymbol& symbol : merger.symbols) {
        got.push_back(symbol.id);
        bytes += symbol.size;
      }
      REQUIRE(got == merged(ids, merges));
      REQUIRE(bytes == size);
    }
  }
}

TEST_CASE("a list of merges keeps both sides") {
  MergeList merges;
  merges.reserve(100);
  CHECK(merges.size() == 0);
  merges.add("a", "bc");
  merges.add_side("");
  merges.add_side("d");
  REQUIRE(merges.size() == 2);
  CHECK(merges[0] == std::pair<std::string_view, std::string_view>("a", "bc"));
  CHECK(merges[1] == std::pair<std::string_view, std::string_view>("", "d"));
}

}  // namespace
}  // namespace attnctl::test
