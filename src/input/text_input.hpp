#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "input/text_blocks.hpp"
#include "input/words.hpp"

namespace attnctl {

enum class InputFormat { json, jsonl, txt, conllu };

/// Where a file of a format may be cut; json, which is one document, may not.
[[nodiscard]] inline BlockEnd block_end(InputFormat format) {
  return format == InputFormat::conllu ? BlockEnd::blank_line : BlockEnd::line;
}

/// One input that is text, not yet tokenized.
struct TextInput {
  std::string id;  // empty: its number among the inputs
  std::string text;
  std::optional<std::string> pair;             // the second text of a pair
  std::optional<std::vector<TextWord>> words;  // of a treebank; nullopt: what white space parts
};

/// Appends the inputs of a file, or of a block of it; returns how many blank lines were skipped.
///
/// - txt: a text a line, LF or CRLF; a line of white space alone is blank;
/// - jsonl: an object a line with "text", and "text_pair" and "id" where it has them;
/// - json: one such object, or an array of them;
/// - conllu: a text a sentence, its sent_id for id.
///
/// A byte order mark at the beginning of a file is no text; JSON may not have one (RFC 8259).
/// Throws Error(bad_input), with the line or JSON pointer: not UTF-8 (the byte), damaged, an object without
/// text.
std::uint64_t read_text_inputs(std::string_view text, InputFormat format, const TextPlace& place,
                               std::vector<TextInput>& inputs);

}  // namespace attnctl
