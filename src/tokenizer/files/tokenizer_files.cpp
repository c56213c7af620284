#include <string_view>

#include "tokenizer/files/file_layouts.hpp"
#include "tokenizer/files/tokenizer_file.hpp"
#include "tokenizer/files/vocabulary_check.hpp"

namespace attnctl {
namespace {

TokenizerFile read_json(const std::filesystem::path& path, TokenizerConfig& config, Wanted /*wanted*/) {
  TokenizerFile file = parse_tokenizer_json(path);
  add_tokens(file, config);
  check_vocabulary(file);
  return file;
}

struct Layout {
  std::string_view file;
  TokenizerFile (*read)(const std::filesystem::path& path, TokenizerConfig& config, Wanted wanted);
};

/// The first that is there counts.
constexpr Layout kLayouts[] = {
    {"tokenizer.json", read_json},        {"vocab.txt", read_vocab_txt},
    {"vocab.json", read_vocab_json},      {"tokenizer.model", read_sentencepiece},
    {"spiece.model", read_sentencepiece}, {"sentencepiece.bpe.model", read_sentencepiece},
};

std::optional<TokenizerFile> read(const std::filesystem::path& directory, Wanted wanted) {
  for (const Layout& layout : kLayouts) {
    const std::filesystem::path path = directory / layout.file;
    if (!std::filesystem::exists(path)) continue;
    TokenizerConfig config(directory);
    return layout.read(path, config, wanted);
  }
  return std::nullopt;
}

}  // namespace

std::optional<TokenizerFile> read_tokenizer_files(const std::filesystem::path& directory) {
  return read(directory, Wanted::tokenizer);
}

TokenizerFile read_section(const TokenizerSection& section) {
  return read_section(section, Wanted::tokenizer);
}

Vocabulary read_vocabulary(const TokenizerOrigin& origin) {
  if (origin.section == nullptr) return read_vocabulary(origin.directory);
  return make_vocabulary(read_section(*origin.section, Wanted::vocabulary));
}

Vocabulary read_vocabulary(const std::filesystem::path& directory) {
  const auto file = read(directory, Wanted::vocabulary);
  return file ? make_vocabulary(*file) : Vocabulary();
}

}  // namespace attnctl
