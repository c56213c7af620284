#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/input_file.hpp"
#include "input/words.hpp"

namespace attnctl {

/// The position of a part of a file, for error texts.
struct TextPlace {
  std::string file;          // escaped
  std::uint64_t offset = 0;  // bytes before the part
  std::uint64_t line = 1;    // line of its first byte, from 1
};

/// Throws Error(bad_input) with the offset in the file if the text is not UTF-8.
void require_utf8(std::string_view text, const TextPlace& place);

/// A part of a file that can be parsed without the rest.
struct TextBlock {
  TextPlace place;
  std::string text;
};

enum class InputFormat { json, jsonl, txt, conllu };

/// Reads a file in blocks of about equal size, in bounded memory. Cuts a treebank after blank lines, other
/// files after any line.
class TextBlocks {
 public:
  static constexpr std::size_t kBlockBytes = std::size_t{128} << 10;

  /// Opens a file, which is not JSON; "-" is standard input. Throws Error(environment) if it cannot be
  /// opened.
  TextBlocks(const std::filesystem::path& path, InputFormat format, std::size_t block_bytes = kBlockBytes);

  /// Reads the next block; returns false at the end of the file. Throws Error(environment) if reading fails,
  /// Error(bad_input) if a line or sentence is longer than 1 GiB.
  [[nodiscard]] bool next(TextBlock& block);

  [[nodiscard]] const InputStream& stream() const { return stream_; }

 private:
  void fill();
  [[nodiscard]] std::size_t find_end(std::size_t searched) const;

  InputStream stream_;
  InputFormat format_;
  std::size_t block_bytes_;
  TextPlace place_;      // of `pending_`
  std::string pending_;  // read, not yet returned
  bool at_end_ = false;
};

/// One input that is text, not yet tokenized.
struct TextInput {
  std::string id;  // empty: use the number of the input
  std::string text;
  std::optional<std::string> pair;             // the second text of a pair
  std::optional<std::vector<TextWord>> words;  // of a treebank; nullopt: split at white space
};

/// Appends the inputs of a file or block; returns the number of skipped blank lines.
///
/// - txt: one text per line, LF or CRLF;
/// - jsonl: one object per line with "text" and optionally "text_pair" and "id";
/// - json: one such object, or an array of them;
/// - conllu: one text per sentence, with sent_id as its id.
///
/// Skips a byte order mark, which JSON may not have (RFC 8259). Throws Error(bad_input), with the line or
/// JSON pointer, if the text is not UTF-8 or is malformed.
std::uint64_t read_text_inputs(std::string_view text, InputFormat format, const TextPlace& place,
                               std::vector<TextInput>& inputs);

}  // namespace attnctl
