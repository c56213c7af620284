#include "tokenizer/parts/charsmap.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "support/refusal.hpp"
#include "tokenizer/parts/part_config.hpp"
#include "tokenizer/unicode/unicode.hpp"

namespace attnctl::test {
namespace {

using Json = PartConfig::Json;

std::string base64(std::string_view bytes) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      bits = bits << 8U | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    }
    for (const unsigned shift : {18U, 12U, 6U, 0U}) text += digits[bits >> shift & 63U];
  }
  const std::size_t padding = (3 - bytes.size() % 3) % 3;
  return text.replace(text.size() - padding, padding, padding, '=');
}

std::string little_endian(std::uint32_t value) {
  std::string bytes;
  for (const unsigned shift : {0U, 8U, 16U, 24U}) bytes += static_cast<char>(value >> shift & 0xFFU);
  return bytes;
}

/// Returns a trie of 256 units with "a" (replacement 0); "ab" is never reached, because "a" is shorter.
std::vector<std::uint32_t> small_trie() {
  std::vector<std::uint32_t> units(256, 0);
  units[0] = 1U << 10U;                                         // children of the root at 1
  units[1U ^ 'a'] = 'a' | 1U << 8U | ((1U ^ 'a') ^ 2U) << 10U;  // children at 2, with a leaf
  units[2] = 1U << 31U;                                         // the leaf: replacement at 0
  return units;
}

std::string charsmap(const std::vector<std::uint32_t>& units, std::string_view replacements) {
  std::string bytes = little_endian(static_cast<std::uint32_t>(units.size() * 4));
  for (const std::uint32_t unit : units) bytes += little_endian(unit);
  return base64(bytes += replacements);
}

Charsmap make(const std::string& text) {
  static const Json nothing = Json::object();
  return {PartConfig("tokenizer.json", "/normalizer/precompiled_charsmap", nothing), text};
}

TEST_CASE("the shortest prefix in the map is found") {
  using namespace std::string_view_literals;
  const Charsmap map = make(charsmap(small_trie(), "xyz\0"sv));
  CHECK(map.find("a") == "xyz"sv);
  CHECK(map.find("ab") == "xyz"sv);
  CHECK(!map.find("b"));
  CHECK(!map.find(""));
  CHECK(!map.find("\0a"sv));
  CHECK(!map.find("\xF4\x8F\xBF\xBF"));
}

TEST_CASE("a replacement may be empty, or end with the map") {
  CHECK(make(charsmap(small_trie(), "")).find("a") == std::string_view());
  CHECK(make(charsmap(small_trie(), "xy")).find("a") == std::string_view("xy"));
}

TEST_CASE("a damaged charsmap is an error") {
  const std::string one_unit = little_endian(4) + little_endian(0);
  struct Row {
    std::string text;
    const char* what;
  };
  const Row rows[] = {
      {"", "expected a charsmap, found 0 bytes"},
      {"A", "expected base64"},
      {"AAA!", "expected base64"},
      {"A===", "expected base64"},
      {base64("abc"), "expected a charsmap, found 3 bytes"},
      {base64(little_endian(0)), "the trie needs 0 bytes, but 0 bytes follow"},
      {base64(little_endian(8) + little_endian(0)), "the trie needs 8 bytes, but 4 bytes follow"},
      {base64(little_endian(0xFFFFFFFF) + little_endian(0)), "the trie needs 4294967295 bytes"},
      {base64(little_endian(6) + little_endian(0) + "ab"), "the trie needs 6 bytes"},
      {base64(one_unit + "\xFF"), "are not UTF-8"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    check_refusal([&] { make(row.text); }, Status::bad_input,
                  {"tokenizer.json: /normalizer/precompiled_charsmap: ", row.what});
  }
}

TEST_CASE("a trie with an offset outside of itself, or inside of a character, is an error") {
  std::vector<std::uint32_t> far = small_trie();
  far[1U ^ 'a'] |= 0x1FFFFFU << 10U;
  std::vector<std::uint32_t> past_end = small_trie();
  past_end[2] = 1U << 31U | 100U;
  std::vector<std::uint32_t> inside = small_trie();
  inside[2] = 1U << 31U | 1U;
  for (const auto& units : {far, past_end, inside}) {
    const Charsmap map = make(charsmap(units, "\u00E9"));
    CHECK(!map.find("b"));
    check_refusal([&] { (void)map.find("a"); }, Status::bad_input,
                  {"tokenizer.json", "an offset outside of itself"});
  }
  const Charsmap short_map = make(charsmap({1U << 10U}, ""));
  check_refusal([&] { (void)short_map.find("a"); }, Status::bad_input, {"an offset outside of itself"});
}

TEST_CASE("extended grapheme clusters") {
  // The bar marks the end of the first cluster.
  const char* const rows[] = {
      "a|b",
      "\r\n|a",
      "\n|\r",
      "\r|\u0301",
      "e\u0301\u0308|x",
      "e\u200D|x",
      "e\u0903|x",  // SpacingMark
      "\u0600a|b",  // Prepend
      "\u0600|\n",
      "\u1100\u1161\u11A8|\u1100",
      "\uAC00\u11A8|\u1161",
      "\uAC01|\u1161",
      "\u00A9\u200D\u00A9|x",  // an emoji sequence
      "\u00A9\u0301\u200D\u00A9|x",
      "a\u200D|\u00A9",
      "\u0915\u094D\u0915|\u0915",  // a conjunct
      "\u0915\u093C\u094D\u200D\u0915\u094D|x",
      "\u0915\u094D\u200C|\u0915",
      "\u0915\u093C|\u0915",
      "\uA999\uA9C0\uA99E|x",
      "\u1021\u1039\u1021|x",
      "a\u1ACF|x",  // Mn since Unicode 17
  };
  for (const char* row : rows) {
    CAPTURE(row);
    std::string text(row);
    const std::size_t end = text.find('|');
    text.erase(end, 1);
    CHECK(unicode::cluster_end(text, 0, text.size()) == end);
    CHECK(unicode::cluster_end(text, 0, end) == end);
  }
}

}  // namespace
}  // namespace attnctl::test
