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

/// One input, as an object of a JSON or JSON Lines file.
class JsonInput {
 public:
  /// Checks the keys of an object. `where` names its position for errors: "FILE: ", "FILE: line 3: " or
  /// "FILE: /2". Throws Error(bad_input) unless the object has exactly one of the keys "text", "tokens" and
  /// "ids", or if another key is not allowed together with that key.
  JsonInput(const nlohmann::ordered_json& object, std::string where);

  [[nodiscard]] bool has_text() const { return object_.contains("text"); }
  [[nodiscard]] bool has_mentions() const { return object_.contains("mentions"); }
  [[nodiscard]] const nlohmann::ordered_json& object() const { return object_; }
  /// Returns the text of an object that has the key "text". Throws Error(bad_input) if a value is invalid.
  [[nodiscard]] TextInput text() const;
  /// Returns the sequence of an object that has the key "tokens" or "ids". Throws Error(bad_input) if a value
  /// is invalid.
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

/// Returns the annotation of an object that has the keys "text" and "mentions". "mentions" is a list of
/// {"entity": text or number, "range": [begin, end)}. A mention may also have "head": [begin, end), and
/// "type": "pronoun", "proper" or "nominal". Ranges count code points. Splits the text into words at white
/// space and at both ends of each mention and head, and stores the words in `input`. The head word of a
/// mention is the last word of "head", or of "range" if there is no "head". Throws Error(bad_input) if a
/// value is invalid.
[[nodiscard]] ConlluSentence mentions_of(const JsonInput& object, TextInput& input);

/// Calls visit(JsonInput) for every input object of a JSON or JSON Lines file.
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
