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

namespace attnctl::input {

/// The position in a file of a part of its text, for errors.
struct TextPlace {
  std::string file;          // file name, escaped
  std::uint64_t offset = 0;  // number of bytes of the file before the part
  std::uint64_t line = 1;    // line number of the part's first byte, from 1
};

inline bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

/// Throws Error(bad_input) if the text is not UTF-8. The message has the line and the byte offset in the
/// file.
void require_utf8(std::string_view text, const TextPlace& place);

/// Removes a byte order mark at the beginning of `text` if the text starts the file (place.offset is 0).
void skip_byte_order_mark(std::string_view& text, const TextPlace& place);

/// A part of a file's text that can be parsed without the rest of the file.
struct TextBlock {
  TextPlace place;
  std::string text;
};

/// Reads a whole file of inputs, at most 1 GiB (unpacked); "-" is standard input.
[[nodiscard]] TextBlock read_whole(const std::filesystem::path& path);

enum class InputFormat { json, jsonl, txt, conllu };

/// Returns the format `given` by name ("jsonl") or, if it is empty, the one of the extension of `path` before
/// .gz or .zst. Throws Error(bad_input) for any other name or extension.
[[nodiscard]] InputFormat format_of_file(const std::string& path, const std::string& given = "");

/// Returns the format of a text with this first line: jsonl if the line begins with "{"; json if the line is
/// only "{", or begins with "["; conllu for a comment such as "# text = ..." or a row of CoNLL-U; otherwise
/// txt.
[[nodiscard]] InputFormat guess_format(std::string_view first_line);

/// Reads a file in blocks of whole lines. A block of a CoNLL-U file ends after a blank line, a block of
/// another file after any line; the last block ends at the end of the file. A block is longer than about
/// `block_bytes` only if a single line or sentence is.
class TextBlocks {
 public:
  static constexpr std::size_t kBlockBytes = std::size_t{128} << 10;

  /// Opens a file; "-" is standard input. `format` must not be InputFormat::json. Throws Error(environment)
  /// if the file cannot be opened.
  TextBlocks(const std::filesystem::path& path, InputFormat format, std::size_t block_bytes = kBlockBytes);

  /// Reads the next block into `block`. Returns false at the end of the file. Throws the errors of
  /// InputStream::read(), and Error(bad_input) if a line or a sentence is too long: up to 64 MiB is always
  /// allowed, more than 128 MiB never.
  [[nodiscard]] bool next(TextBlock& block);

  [[nodiscard]] const InputStream& stream() const { return stream_; }

 private:
  void fill();
  [[nodiscard]] std::size_t find_end() const;

  InputStream stream_;
  InputFormat format_;
  std::size_t block_bytes_;
  TextPlace place_;      // position of `pending_` in the file
  std::string pending_;  // text that was read but not yet returned
  bool at_end_ = false;
};

/// An input that is a text and is not yet encoded.
struct TextInput {
  std::string id;  // empty: the input's number is its id
  std::string text;
  std::optional<std::string> pair;  // second text, for a pair of texts
  /// Words of `text` from a treebank or from mentions_of(); nullopt: words are separated by white space.
  std::optional<std::vector<TextWord>> words;
};

/// Appends the inputs in the text of a file or block to `inputs`. Returns the number of skipped lines of
/// white space in the format txt, and 0 for the other formats. The formats are:
///
/// - txt: one text per line; lines end in LF or CRLF;
/// - jsonl: one object per line with "text" and optionally "text_pair" and "id"; "mentions" is ignored, but
///   must not occur together with "text_pair";
/// - json: one object as in jsonl, or an array of these objects;
/// - conllu: one text per sentence; its id is sent_id.
///
/// Skips a byte order mark, except in json and jsonl, where it is an error (RFC 8259). Throws
/// Error(bad_input) with the byte offset if the text is not UTF-8, with the line number if a line of txt is
/// longer than tokenizer::kLongestText, and with the line number or JSON pointer if the text does not have
/// the format.
std::uint64_t read_text_inputs(std::string_view text, InputFormat format, const TextPlace& place,
                               std::vector<TextInput>& inputs);

}  // namespace attnctl::input
