#include <algorithm>

#include "tokenize.hpp"

// The files of a tokenizer without tokenizer.json, separated by bytes 0xff: the vocabulary (vocab.json if it
// begins with
// "{", otherwise vocab.txt), then the others. A file is missing if the bytes end before it.
ATTNCTL_FUZZ_TARGET(vocab) {
  using namespace attnctl;
  static const fuzz::Folder folder;
  std::optional<std::string_view> rest = bytes;
  const auto next = [&] {
    const auto file = rest;
    if (!rest) return file;
    const std::size_t end = rest->find('\xff');
    rest = end == std::string_view::npos ? std::nullopt : std::optional(rest->substr(end + 1));
    return std::optional(file->substr(0, end));
  };
  const bool json = bytes.starts_with('{');
  folder.put(json ? "vocab.txt" : "vocab.json", std::nullopt);
  for (const char* const name : {json ? "vocab.json" : "vocab.txt", "merges.txt", "tokenizer_config.json",
                                 "special_tokens_map.json", "added_tokens.json"})
    folder.put(name, next());
  fuzz::tokenize({folder.path()});
}
