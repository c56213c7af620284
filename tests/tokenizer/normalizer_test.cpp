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
#include "tokenizer/parts/piece_text.hpp"
#include "tokenizer/parts_golden.hpp"
#include "tokenizer/unicode/unicode.hpp"

namespace attnctl::test {
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
  struct Row {
    const char* config;
    std::vector<std::string_view> parts;
  };
  const Row rows[] = {
      {R"({"type":"Foo"})", {"tokenizer.json: /normalizer/type: unsupported \"Foo\", supported: ", "NFKC"}},
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
       {"/normalizer/normalizers/1/type: unsupported \"X\""}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.config);
    const Json config = Json::parse(row.config);
    check_refusal([&] { make(config); }, Status::bad_input, row.parts);
  }
}

TEST_CASE("nested Sequences have a limit") {
  const auto nested = [](std::size_t levels) {
    Json config = {{"type", "NFC"}};
    for (std::size_t i = 0; i < levels; ++i) {
      Json outer = {{"type", "Sequence"}};
      outer["normalizers"] = Json::array({config});
      config = outer;
    }
    return config;
  };
  const Json deepest = nested(32);
  CHECK(make(deepest));
  const Json deeper = nested(33);
  check_refusal([&] { make(deeper); }, Status::bad_input, {"a Sequence in 32 others", "at most 32"});
}

}  // namespace
}  // namespace attnctl::test
