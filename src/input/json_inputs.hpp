#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "formats/json.hpp"
#include "input/batch.hpp"
#include "input/conllu.hpp"
#include "input/text_input.hpp"
#include "tokenizer/vocabulary.hpp"

namespace attnctl {

/// One input object of a JSON document.
class JsonInput {
 public:
  /// Checks the keys of an object at `where` ("FILE: ", "FILE: line 3: " or "FILE: /2"). Throws
  /// Error(bad_input) if it does not have exactly one of "text", "tokens" and "ids", or has other keys than
  /// these allow.
  JsonInput(const nlohmann::ordered_json& object, std::string where);

  [[nodiscard]] bool has_text() const { return object_.contains("text"); }
  [[nodiscard]] bool has_mentions() const { return object_.contains("mentions"); }
  [[nodiscard]] const nlohmann::ordered_json& object() const { return object_; }
  /// Returns the text of an object with "text". Throws Error(bad_input).
  [[nodiscard]] TextInput text() const;
  /// Returns the sequence of an object with "tokens" or "ids". Throws Error(bad_input).
  [[nodiscard]] Sequence sequence(const Vocabulary& vocabulary) const;

  [[noreturn]] void refuse(std::string_view field, std::string_view what) const;

 private:
  [[nodiscard]] std::string string(const char* field) const;
  [[nodiscard]] std::string id() const;
  [[nodiscard]] std::vector<std::int64_t> integers(std::string_view field, std::int64_t largest) const;
  [[nodiscard]] std::vector<std::int64_t> ids_of_tokens(const Vocabulary& vocabulary) const;

  const nlohmann::ordered_json& object_;
  std::string where_;
};

/// Returns the annotation of a text with "mentions": a list of {"entity": text or number, "range": [begin,
/// end)} with optional "head": [begin, end) and "type": "pronoun", "proper" or "nominal". Ranges count code
/// points. Splits the text at white space and at the ends of mentions and heads, and stores these words in
/// `input`. A mention's head is the last word of "head" or of the mention. Throws Error(bad_input).
[[nodiscard]] ConlluSentence mentions_of(const JsonInput& object, TextInput& input);

/// Calls visit(JsonInput) for every object of a document.
template <typename Visit>
void for_each_json_input(std::string_view text, InputFormat format, const TextPlace& place, Visit&& visit) {
  using nlohmann::ordered_json;
  if (format == InputFormat::json) {
    const ordered_json document = parse_json(place.file, text);
    if (!document.is_array()) return visit(JsonInput(document, place.file + ": "));
    for (std::size_t i = 0; i < document.size(); ++i)
      visit(JsonInput(document[i], fmt::format("{}: /{}", place.file, i)));
    return;
  }
  for (std::uint64_t line_number = place.line; !text.empty(); ++line_number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = fmt::format("{}: line {}", place.file, line_number);
    const ordered_json object = parse_json(where, line);
    visit(JsonInput(object, where + ": "));
  }
}

}  // namespace attnctl
