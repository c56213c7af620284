#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "tokenizer/encoding.hpp"

/// Texts for tokenizers and what is made of them, as tests/golden/tokenizer_text.py, which says how, has
/// them.
namespace attnctl::test {

/// Makes random text number I of a seed: the same here and in Python.
class RandomTexts {
 public:
  explicit RandomTexts(std::uint64_t seed);
  [[nodiscard]] std::string text(std::uint64_t number) const;

 private:
  std::uint64_t seed_;
  nlohmann::json alphabets_;
};

/// The tokens as a line: ID@BEGIN-END[/WORD][:TYPE][*] each.
[[nodiscard]] std::string encoding_line(const Encoding& encoding);
/// A line, or the count and hash of one of over 16 tokens.
[[nodiscard]] std::string shortened_line(const std::string& line);

/// Texts are hashed in blocks of this many.
inline constexpr std::size_t kGoldenBlock = 50;
/// FNV-1a of lines, each ended by a line feed, as 16 hexadecimal digits.
[[nodiscard]] std::string block_hash(const std::vector<std::string>& lines);

/// What follows `# text = ` in a CoNLL-U file.
[[nodiscard]] std::vector<std::string> treebank_texts(const std::filesystem::path& path);

/// A tokenizer and what the reference made of texts with it (tests/golden/tokenizers/NAME/golden.json).
struct TokenizerGolden {
  std::string name;
  std::filesystem::path directory;  // of the tokenizer
  nlohmann::json expected;
};

/// All whose tokenizer is there: those of other models only beside the project, MiniLM where ATTNCTL_MINILM
/// names its directory. `skipped` gets the names of the others.
[[nodiscard]] std::vector<TokenizerGolden> tokenizer_goldens(std::vector<std::string>& skipped);

/// A file of tests/golden/tokenizers.
[[nodiscard]] nlohmann::json golden_tokenizer_file(const std::string& name);

}  // namespace attnctl::test
