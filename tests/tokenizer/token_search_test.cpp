#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tokenizer/models/bpe_merges.hpp"
#include "tokenizer/models/token_model.hpp"
#include "tokenizer/models/token_table.hpp"
#include "tokenizer/models/token_trie.hpp"
#include "tokenizer/models/word_cache.hpp"

namespace attnctl::test {
namespace {

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
  std::vector<TokenTrie::Key> keys;
  std::vector<TokenEntry> entries;
  for (const auto& [word, value] : words) {
    keys.push_back({word, value});
    entries.push_back({word, value, 0});
  }
  const TokenTrie trie(keys);
  const TokenTable table(entries);
  CHECK(table.size() == words.size());
  CHECK(table.longest() == 12);
  const auto found = [&](std::string_view word) {
    const std::uint32_t node = trie.walk(TokenTrie::kRoot, word);
    return node == TokenTrie::kNowhere ? -1 : trie.value(node);
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
  const TokenTrie trie({});
  CHECK(trie.walk(TokenTrie::kRoot, "a") == TokenTrie::kNowhere);
  CHECK(trie.value(TokenTrie::kRoot) == -1);
  const TokenTable table({});
  CHECK_FALSE(table.id("a").has_value());
  CHECK_FALSE(table.id("").has_value());
}

TEST_CASE("a table has the last id of a repeated token") {
  const TokenTable table({{"a", 1, 0}, {"", 2, 0}, {"a", 3, 0}});
  CHECK(table.size() == 2);
  CHECK(table.id("a") == 3);
  CHECK(table.id("") == 2);
}

TEST_CASE("a word cache returns what was put, and starts again when it is full") {
  WordCache cache;
  const auto tokens_of = [](std::size_t i) {
    return std::vector<PieceToken>(1 + i % 3, PieceToken{static_cast<std::int32_t>(i), 0, 1});
  };
  std::size_t known = 0;
  for (std::size_t i = 0; i < 100'000; ++i) {
    const std::string word = "w" + std::to_string(i);
    REQUIRE_FALSE(cache.find(word, hash_of(word)).known);
    cache.put(word, hash_of(word), tokens_of(i));
    const std::string other = "w" + std::to_string(i / 2);
    const auto found = cache.find(other, hash_of(other));
    if (!found.known) continue;
    ++known;
    REQUIRE(found.tokens.size() == 1 + (i / 2) % 3);
    REQUIRE(found.tokens.back().id == static_cast<std::int32_t>(i / 2));
  }
  CHECK(known > 10'000);
  const std::string lengthy(WordCache::kLongest + 1, 'a');
  cache.put(lengthy, hash_of(lengthy), tokens_of(0));
  const std::string word = "w" + std::to_string(99'999);
  CHECK(cache.find(word, hash_of(word)).known);
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
