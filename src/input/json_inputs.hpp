#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/text.hpp"
#include "formats/json.hpp"
#include "input/batch.hpp"
#include "input/conllu.hpp"
#include "input/text_input.hpp"
#include "tokenizer/parts/part_config.hpp"
#include "tokenizer/vocabulary.hpp"

namespace attnctl::input {

/// One input, as an object of a JSON or JSON Lines file.
struct JsonInput {
  /// Checks the keys of an input. Throws Error(bad_input) if `input` is not a JSON object, if it does not
  /// have exactly one of the keys "text", "tokens" and "ids", if another key is not allowed together with
  /// that key, or if it has both "target" and "target_ids".
  explicit JsonInput(tokenizer::PartConfig input);

  [[nodiscard]] bool contains(const char* key) const { return object.node().contains(key); }
  /// Returns the text of an object that has the key "text". Throws Error(bad_input) if a value is invalid or
  /// the object has both "mentions" and "text_pair".
  [[nodiscard]] TextInput text() const;
  /// Returns the sequence of an object that has the key "tokens" or "ids". Throws Error(bad_input) if a value
  /// is invalid or if `vocabulary` does not contain a token.
  [[nodiscard]] Sequence sequence(const tokenizer::Vocabulary& vocabulary) const;
  /// Return the value of the key "target" or "target_ids", which an object of any kind may have: the text of
  /// the target, or the ids that the decoder reads. Throw Error(bad_input) if the value is invalid.
  [[nodiscard]] std::string target_text() const { return object.string("target"); }
  [[nodiscard]] std::vector<std::int64_t> target_ids() const;

  tokenizer::PartConfig object;
};

/// Returns the annotation of an object that has the keys "text" and "mentions". "mentions" is a list of
/// {"entity": text or integer, "range": [begin, end)}. A mention may also have "head": [begin, end), a part
/// of "range", and "type": "pronoun", "proper" or "nominal". Ranges count code points. `text` must be
/// input.text(). Splits the text into words at white space and at both ends of each mention and head, and
/// stores the words in text.words. The head word of a mention is the last word of "head", or of "range" if
/// there is no "head". Throws Error(bad_input) if a value is invalid.
[[nodiscard]] ConlluSentence mentions_of(const JsonInput& input, TextInput& text);

/// Calls visit(JsonInput) for every input object of a JSON file, or of a JSON Lines file or block. Skips
/// blank lines of JSON Lines. Throws Error(bad_input) if the text is not UTF-8 or not JSON, or if
/// JsonInput() rejects an object.
template <typename Visit>
void for_each_json_input(std::string_view text, InputFormat format, const TextPlace& place, Visit&& visit) {
  using nlohmann::ordered_json;
  require_utf8(text, place);
  if (format == InputFormat::json) {
    const ordered_json document = formats::parse_json(place.file, text);
    const tokenizer::PartConfig whole(place.file, "", document);
    if (!document.is_array()) return visit(JsonInput(whole));
    for (const tokenizer::PartConfig& item : whole.elements()) visit(JsonInput(item));
    return;
  }
  for (std::uint64_t line_number = place.line; !text.empty(); ++line_number) {
    const std::string_view line = take_line(text);
    if (is_blank(line)) continue;
    const std::string where = fmt::format("{}: line {}", place.file, line_number);
    const ordered_json object = formats::parse_json(where, line);
    visit(JsonInput({where, "", object}));
  }
}

}  // namespace attnctl::input
