// Ids, offsets, words, token types and added tokens against the `tokenizers` library of Python
// (tests/golden/make_tokenizers.py).
#include <algorithm>
#include <sstream>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/error.hpp"
#include "support/tokenizer_golden.hpp"
#include "tokenizer/tokenizer.hpp"

using attnctl::test::block_hash;
using attnctl::test::kGoldenBlock;
using attnctl::test::TokenizerGolden;
using attnctl::tokenizer::Encoding;
using attnctl::tokenizer::Tokenizer;

namespace {

namespace fs = std::filesystem;

/// A tokenizer that prints the encoding of a text as one line.
class Liner {
 public:
  explicit Liner(const fs::path& directory)
      : tokenizer_(Tokenizer::open({directory})), state_(tokenizer_.make_state()) {}

  std::string line(const std::string& text, std::optional<std::string_view> pair = std::nullopt) {
    tokenizer_.encode(text, pair, *state_, encoding_);
    return attnctl::test::encoding_line(encoding_);
  }

 private:
  Tokenizer tokenizer_;
  Tokenizer::StatePtr state_;
  Encoding encoding_;
};

std::string escaped(const nlohmann::json& text) {
  return text.dump(-1, ' ', true);
}

/// Returns a readable report of the first line that differs; an empty string if there is none.
std::string first_difference(Liner& liner, const nlohmann::json& texts, const nlohmann::json& expected) {
  if (texts.size() != expected.size()) return "the goldens belong to another list of texts; make them again";
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const bool pair = texts[i].is_array();
    const nlohmann::json& text = pair ? texts[i][0] : texts[i]["text"];
    const std::string line =
        pair ? liner.line(text, texts[i][1].get_ref<const std::string&>()) : liner.line(text);
    if (attnctl::test::shortened_line(line) == expected[i]) continue;
    return fmt::format("text {}: {}\n  expected {}\n  found    {}", i, escaped(texts[i]),
                       expected[i].get<std::string>(), line);
  }
  return {};
}

/// Returns a report of the first block of texts whose hash differs; an empty string if there is none.
template <typename TextOf>
std::string first_block_difference(Liner& liner, std::size_t count, const TextOf& text_of,
                                   const std::string& expected) {
  std::istringstream hashes(expected);
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < count; begin += kGoldenBlock) {
    const std::size_t end = std::min(begin + kGoldenBlock, count);
    lines.clear();
    for (std::size_t i = begin; i < end; ++i) lines.push_back(liner.line(text_of(i)));
    std::string hash;
    if (hashes >> hash && hash == block_hash(lines)) continue;
    std::string report =
        fmt::format("texts {} to {} (check_tokenizer.py shows which): expected {}", begin, end - 1, hash);
    for (std::size_t i = begin; i < end; ++i) {
      report += fmt::format("\n  {}: {}: {}", i, escaped(text_of(i)), lines[i - begin]);
    }
    return report;
  }
  if (std::string more; hashes >> more) return "the goldens have more texts; make them again";
  return {};
}

/// Checks that `difference(golden, liner)` returns an empty report for every tokenizer that is there.
template <typename Difference>
void check_all(const Difference& difference) {
  std::vector<std::string> skipped;
  const auto goldens = attnctl::test::tokenizer_goldens(skipped);
  CHECK(goldens.size() >= 28);  // those of the repository
  for (const TokenizerGolden& golden : goldens) {
    std::string found;
    try {
      Liner liner(golden.directory);
      found = difference(golden, liner);
    } catch (const attnctl::Error& error) {
      found = error.what();
    }
    CHECK_MESSAGE(found.empty(), golden.name << ": " << found);
  }
  if (!skipped.empty()) MESSAGE("missing: " << fmt::format("{}", fmt::join(skipped, ", ")));
}

}  // namespace

TEST_CASE("tokenizers: difficult texts give the reference's tokens") {
  const nlohmann::json texts = attnctl::test::golden_tokenizer_file("strings.json")["strings"];
  REQUIRE(texts.size() >= 150);
  check_all([&](const TokenizerGolden& golden, Liner& liner) {
    return first_difference(liner, texts, golden.expected["strings"]);
  });
}

TEST_CASE("tokenizers: pairs of texts give the reference's tokens") {
  const nlohmann::json pairs = attnctl::test::golden_tokenizer_file("strings.json")["pairs"];
  check_all([&](const TokenizerGolden& golden, Liner& liner) {
    return first_difference(liner, pairs, golden.expected["pairs"]);
  });
}

TEST_CASE("tokenizers: 20,000 random texts give the reference's tokens") {
  std::vector<std::string> texts;
  check_all([&](const TokenizerGolden& golden, Liner& liner) {
    const nlohmann::json& random = golden.expected["random"];
    if (texts.empty()) {
      const attnctl::test::RandomTexts made(random["seed"].get<std::uint64_t>());
      for (std::uint64_t i = 0; i < random["count"].get<std::uint64_t>(); ++i) texts.push_back(made.text(i));
    }
    return first_block_difference(
        liner, texts.size(), [&](std::size_t i) { return texts[i]; },
        random["hashes"].get_ref<const std::string&>());
  });
  CHECK(texts.size() == 20000);
}

TEST_CASE("tokenizers: every sentence of the treebanks gives the reference's tokens") {
  for (const std::string name : {"en_ewt-ud-dev", "en_ewt-ud-test"}) {
    const fs::path path = fs::path(ATTNCTL_SHARED_DIR) / "corpora" / (name + ".conllu");
    if (!fs::exists(path)) {
      MESSAGE(name << ".conllu is missing");
      continue;
    }
    const std::vector<std::string> texts = attnctl::test::treebank_texts(path);
    check_all([&](const TokenizerGolden& golden, Liner& liner) {
      return first_block_difference(
          liner, texts.size(), [&](std::size_t i) { return texts[i]; },
          golden.expected["treebanks"][name].get_ref<const std::string&>());
    });
  }
}
