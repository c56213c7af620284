#include "tokenizer/tokenizer_file.hpp"

namespace attnctl {

std::optional<TokenizerFile> read_tokenizer_files(const std::filesystem::path& directory) {
  const std::filesystem::path json = directory / "tokenizer.json";
  if (std::filesystem::exists(json)) return read_tokenizer_json(json);
  return std::nullopt;
}

}  // namespace attnctl
