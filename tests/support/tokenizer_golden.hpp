#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "tokenizer/tokenizer.hpp"

/// Texts for tokenizer tests and their expected encodings. tests/golden/tokenizer_text.py defines and
/// explains the same formats.
namespace attnctl::test {

/// A generator of random texts, identified by seed and number, with the same texts as the Python generator.
class RandomTexts {
 public:
  explicit RandomTexts(std::uint64_t seed);
  [[nodiscard]] std::string text(std::uint64_t number) const;

 private:
  std::uint64_t seed_;
  nlohmann::json alphabets_;
};

/// Formats the tokens as one line: ID@BEGIN-END[/WORD][:TYPE][*] per token.
[[nodiscard]] std::string encoding_line(const tokenizer::Encoding& encoding);
/// Returns the line, or its token count and hash if it has more than 16 tokens.
[[nodiscard]] std::string shortened_line(const std::string& line);

/// Number of texts per hashed block.
inline constexpr std::size_t kGoldenBlock = 50;
/// Returns the FNV-1a hash of lines, each with a line feed at its end, as 16 hexadecimal digits.
[[nodiscard]] std::string block_hash(const std::vector<std::string>& lines);

/// Returns the texts after `# text = ` in a CoNLL-U file.
[[nodiscard]] std::vector<std::string> treebank_texts(const std::filesystem::path& path);

/// A tokenizer and the reference encodings of texts (tests/golden/tokenizers/NAME/golden.json).
struct TokenizerGolden {
  std::string name;
  std::filesystem::path directory;  // folder of the tokenizer
  nlohmann::json expected;
};

/// Returns all goldens whose tokenizer is available. Those of other models need their folders next to the
/// project; MiniLM needs its folder in ATTNCTL_MINILM. Adds the names of the others to `skipped`.
[[nodiscard]] std::vector<TokenizerGolden> tokenizer_goldens(std::vector<std::string>& skipped);

/// Reads a JSON file in tests/golden/tokenizers.
[[nodiscard]] nlohmann::json golden_tokenizer_file(const std::string& name);

}  // namespace attnctl::test
