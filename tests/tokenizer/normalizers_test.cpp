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
#include "tokenizer/parts/parts.hpp"
#include "tokenizer/parts_golden.hpp"
#include "tokenizer/unicode/unicode.hpp"

namespace attnctl::test {

using namespace tokenizer;

namespace {

using Json = PartConfig::Json;

TextStep make(const Json& config) {
  return make_normalizer(PartConfig("tokenizer.json", "/normalizer", config));
}

const Json& golden() {
  static const Json document = parts_golden("normalizers.json");
  return document;
}

std::vector<std::uint32_t> origins_of_characters(const PieceText& text) {
  std::vector<std::uint32_t> all;
  for (std::size_t i = 0; i < text.text().size();) {
    const TextRange origin = text.origin()[i];
    all.insert(all.end(), {origin.begin, origin.end});
    unicode::next(text.text(), i);
  }
  return all;
}

TEST_CASE("normalized texts and the origins of their characters match the reference") {
  for (const Json& row : golden().at("normalizers")) {
    const std::string config = row.at("config").dump();
    CAPTURE(config);
    const TextStep normalizer = make(row.at("config"));
    PieceText text;
    for (const Json& each : row.at("cases")) {
      const auto original = each.at("text").get<std::string>();
      CAPTURE(original);
      text.assign(original);
      normalizer(text);
      CHECK(text.text() == each.at("result").get<std::string>());
      CHECK(origins_of_characters(text) == each.at("origins").get<std::vector<std::uint32_t>>());
    }
  }
}

TEST_CASE("every code point normalizes as in the reference") {
  for (const Json& row : golden().at("normalizers")) {
    if (!row.contains("code_points")) continue;
    const std::string config = row.at("config").dump();
    CAPTURE(config);
    const TextStep normalizer = make(row.at("config"));
    Hash hash;
    PieceText text;
    for (char32_t c = 0; c < 0x110000; ++c) {
      if (is_surrogate(c)) continue;
      text.assign(unicode::Utf8(c));
      normalizer(text);
      hash.add(text.text());
    }
    CHECK(hash.hex() == row.at("code_points").get<std::string>());
  }
}

TEST_CASE("pairs of a character and a mark normalize as in the reference") {
  const auto marks = golden().at("marks").get<std::string>();
  for (const Json& row : golden().at("normalizers")) {
    if (!row.contains("pairs")) continue;
    const std::string config = row.at("config").dump();
    CAPTURE(config);
    const TextStep normalizer = make(row.at("config"));
    Hash hash;
    PieceText text;
    for (char32_t c = 0; c < 0x2FA20 + 0x800; ++c) {
      if (is_surrogate(c)) continue;
      for (std::size_t i = 0; i < marks.size();) {
        std::string pair(unicode::Utf8{c});
        pair += unicode::Utf8(unicode::next(marks, i));
        text.assign(pair);
        normalizer(text);
        hash.add(text.text());
      }
    }
    CHECK(hash.hex() == row.at("pairs").get<std::string>());
  }
}

TEST_CASE("normalizers change text pieces and keep added tokens") {
  PieceText text;
  text.assign("A<T>B");
  text.cut([](std::string_view, PieceText::Cuts& cuts) {
    cuts.add(0, 1);
    cuts.add(1, 4, 7);
    cuts.add(4, 5);
  });
  const Json config = Json::parse(R"({"type":"Sequence","normalizers":[{"type":"Lowercase"},
      {"type":"Prepend","prepend":"_"},{"type":"Replace","pattern":{"Regex":"^_a"},"content":""}]})");
  make(config)(text);
  CHECK(text.text() == "<T>_b");
  REQUIRE(text.pieces().size() == 2);
  CHECK(text.pieces()[0].token == 7);
  CHECK(text.origin()[3] == TextRange{4, 5});
}

TEST_CASE("unsupported normalizers are errors that name them") {
  check_refused(
      {{R"({"type":"Foo"})", {"tokenizer.json: /normalizer/type: unsupported \"Foo\", supported: ", "NFKC"}},
       // The reference has no Append.
       {R"({"type":"Append","append":"x"})", {"/normalizer/type: unsupported \"Append\""}},
       {R"({})", {"/normalizer/type", "expected a string, found nothing"}},
       {R"({"type":"Strip","strip_left":true})", {"/normalizer/strip_right", "true or false"}},
       {R"({"type":"Prepend"})", {"/normalizer/prepend"}},
       {R"({"type":"BertNormalizer","clean_text":true,"lowercase":true})",
        {"/normalizer/handle_chinese_chars"}},
       {R"({"type":"Replace","pattern":"a","content":""})", {"/normalizer/pattern", "expected an object"}},
       {R"({"type":"Replace","pattern":{"Glob":"a"},"content":""})",
        {"/normalizer/pattern", "unsupported", "Regex"}},
       {R"({"type":"Replace","pattern":{"Regex":"("},"content":""})", {"/normalizer/pattern/Regex", "\"(\""}},
       {R"({"type":"Sequence"})", {"/normalizer/normalizers"}},
       {R"({"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"X"}]})",
        {"/normalizer/normalizers/1/type: unsupported \"X\""}}},
      [](std::string_view json) { return make(Json::parse(json)); });
}

TEST_CASE("Sequences can be nested") {
  Json config = {{"type", "NFC"}};
  for (int i = 0; i < 32; ++i) {
    Json outer = {{"type", "Sequence"}};
    outer["normalizers"] = Json::array({config});
    config = outer;
  }
  CHECK(make(config));
}

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

std::string charsmap_bytes(const std::vector<std::uint32_t>& units, std::string_view replacements) {
  std::string bytes = little_endian(static_cast<std::uint32_t>(units.size() * 4));
  for (const std::uint32_t unit : units) bytes += little_endian(unit);
  return bytes += replacements;
}

std::string charsmap(const std::vector<std::uint32_t>& units, std::string_view replacements) {
  return base64(charsmap_bytes(units, replacements));
}

Charsmap map_of(const Json& node) {
  return Charsmap(PartConfig("tokenizer.json", "/normalizer/precompiled_charsmap", node));
}

TEST_CASE("the shortest prefix in the map is found") {
  using namespace std::string_view_literals;
  const Charsmap map = map_of(charsmap(small_trie(), "xyz\0"sv));
  CHECK(map.find("a") == "xyz"sv);
  CHECK(map.find("ab") == "xyz"sv);
  CHECK(!map.find("b"));
  CHECK(!map.find(""));
  CHECK(!map.find("\0a"sv));
  CHECK(!map.find("\xF4\x8F\xBF\xBF"));
}

TEST_CASE("a charsmap may be bytes") {
  const std::string bytes = charsmap_bytes(small_trie(), "xyz");
  CHECK(map_of(Json::binary({bytes.begin(), bytes.end()})).find("a") == std::string_view("xyz"));
}

TEST_CASE("a replacement may be empty, or end with the map") {
  CHECK(map_of(charsmap(small_trie(), "")).find("a") == std::string_view());
  CHECK(map_of(charsmap(small_trie(), "xy")).find("a") == std::string_view("xy"));
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
      {base64(little_endian(0)),
       "got a trie of 0 bytes; need a multiple of 4, at least 4 and at most the 0 bytes"},
      {base64(little_endian(8) + little_endian(0)),
       "got a trie of 8 bytes; need a multiple of 4, at least 4 and at most the 4 bytes"},
      {base64(little_endian(0xFFFFFFFF) + little_endian(0)), "got a trie of 4294967295 bytes"},
      {base64(little_endian(6) + little_endian(0) + "ab"), "got a trie of 6 bytes"},
      {base64(one_unit + "\xFF"), "are not UTF-8"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    check_refusal([&] { map_of(row.text); }, Status::bad_input,
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
    const Charsmap map = map_of(charsmap(units, "\u00E9"));
    CHECK(!map.find("b"));
    check_refusal([&] { (void)map.find("a"); }, Status::bad_input,
                  {"tokenizer.json", "an offset that is too large"});
  }
  const Charsmap short_map = map_of(charsmap({1U << 10U}, ""));
  check_refusal([&] { (void)short_map.find("a"); }, Status::bad_input, {"an offset that is too large"});
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
