#include "attnctl/base/error.hpp"

#include "tokenizer/file_layouts.hpp"
namespace attnctl {
TokenizerFile read_sentencepiece(const std::filesystem::path& path, TokenizerConfig& /*config*/,
                                 Wanted /*wanted*/) {
  fail(Status::bad_input, "{}: unsupported file, supported: tokenizer.json", escaped(path.string()));
}
}  // namespace attnctl
