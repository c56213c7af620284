#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/files/input_file.hpp"

namespace attnctl {

/// Where a stretch of a file begins, for errors and numbers of lines.
struct TextPlace {
  std::string file;          // escaped
  std::uint64_t offset = 0;  // bytes before it
  std::uint64_t line = 1;    // of its first byte
};

/// Throws Error(bad_input) with the offset in the file where the text is not UTF-8.
void require_utf8(std::string_view text, const TextPlace& place);

/// A stretch of a file that can be understood without the rest.
struct TextBlock {
  TextPlace place;
  std::string text;
};

/// Where a file may be cut: behind any line, or behind a blank line.
enum class BlockEnd { line, blank_line };

/// Cuts a file into blocks of about one size, so that a file of any length is read in bounded memory.
class TextBlocks {
 public:
  static constexpr std::size_t kBlockBytes = std::size_t{128} << 10;

  /// "-" is standard input. Throws Error(environment) where the file cannot be opened.
  TextBlocks(const std::filesystem::path& path, BlockEnd end, std::size_t block_bytes = kBlockBytes);

  /// False at the end of the file. Throws Error: environment, bad_input where a line (or a sentence) is
  /// longer than 1 GiB.
  [[nodiscard]] bool next(TextBlock& block);

  [[nodiscard]] const InputStream& stream() const { return stream_; }

 private:
  void fill();
  [[nodiscard]] std::size_t find_end(std::size_t searched) const;

  InputStream stream_;
  BlockEnd end_;
  std::size_t block_bytes_;
  TextPlace place_;      // of what is pending
  std::string pending_;  // read and not yet given
  bool at_end_ = false;
};

}  // namespace attnctl
