#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <unistd.h>

#include "fuzz.hpp"
#include "tokenizer/tokenizer.hpp"
#include "tokenizer/unicode/unicode.hpp"
#include "tokenizer/vocabulary.hpp"

namespace attnctl::fuzz {

/// A folder of files that are replaced for every input. It is in $TMPDIR, which should be in memory.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "attnctl-fuzz-XXXXXX").string();
    require(mkdtemp(name.data()) != nullptr, "a folder can be made");
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Writes a file, or removes it without content.
  void put(std::string_view name, std::optional<std::string_view> content) const {
    const std::filesystem::path file = path_ / name;
    if (!content) {
      std::filesystem::remove(file);
    } else {
      std::ofstream(file, std::ios::binary) << *content;
    }
  }

 private:
  std::filesystem::path path_;
};

/// Opens a tokenizer and tokenizes two texts. Ranges of tokens lie inside of their texts. If the tokenizer is
/// not supported, reads only its vocabulary.
inline void tokenize(const tokenizer::TokenizerOrigin& origin) {
  std::optional<tokenizer::Tokenizer> opened;
  if (!attempt([&] { opened = tokenizer::Tokenizer::open(origin); })) {
    (void)tokenizer::read_vocabulary(origin);
    return;
  }
  const tokenizer::Tokenizer& tokenizer = *opened;
  const auto state = tokenizer.make_state();
  const std::array<std::string_view, 2> texts = {
      "The quick\u00e9 <s>\u2581brown  fox's\n12345 [MASK]caf\u0065\u0301",
      "\U0001F600\u4e2d\u6587 ABC aaaa"};
  tokenizer::Encoding encoding;
  for (const bool pair : {false, true}) {
    attempt([&] {
      tokenizer.encode(texts[0], pair ? std::optional(texts[1]) : std::nullopt, *state, encoding);
      for (std::size_t i = 0; i < encoding.size(); ++i) {
        const tokenizer::TextRange range = encoding.offsets[i];
        const std::size_t length = tokenizer::unicode::count_code_points(texts.at(encoding.sequence[i]));
        require(range.begin <= range.end && range.end <= length, "a token lies inside of its text");
        require(encoding.ids[i] >= 0, "an id is not negative");
      }
    });
  }
}

}  // namespace attnctl::fuzz
