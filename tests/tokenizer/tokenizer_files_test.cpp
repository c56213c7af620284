#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "support/temp_dir.hpp"
#include "tokenizer/files/tokenizer_file.hpp"

namespace attnctl::test {
namespace {

using nlohmann::json;

/// Returns the added tokens in the order of their ids.
json added_tokens(const TokenizerFile& file) {
  json tokens = json::parse(file.parts.at("added_tokens").dump());
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
    const auto file = read_tokenizer_files(dir.path());
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
  CHECK_FALSE(read_tokenizer_files(TempDir().path()).has_value());
}

}  // namespace
}  // namespace attnctl::test
