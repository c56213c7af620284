#include "attnctl/input/sequences.hpp"

#include "attnctl/base/error.hpp"
#include "attnctl/base/json_document.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <set>
#include <system_error>
#include <utility>

namespace attnctl {
namespace {

using nlohmann::ordered_json;

/// One object of a document, and where it stands.
struct Item {
  const ordered_json& object;
  std::string where;  // "FILE: line 3" or "FILE: /2"
};

[[noreturn]] void refuse(const Item& item, std::string_view field, std::string_view what) {
  fail(Status::bad_input, "{}{}/{}: {}", item.where, item.where.ends_with(':') ? " " : "", field, what);
}

std::vector<std::int64_t> integers(const Item& item, std::string_view field, std::int64_t largest) {
  const ordered_json& list = item.object.at(std::string(field));
  if (!list.is_array()) refuse(item, field, "need an array of integers");
  std::vector<std::int64_t> values;
  values.reserve(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    const bool fits =
        list[i].is_number_unsigned() && list[i].get<std::uint64_t>() <= static_cast<std::uint64_t>(largest);
    if (!fits) {
      refuse(item, fmt::format("{}/{}", field, i),
             fmt::format("got {}, need an integer from 0 to {}", escaped(list[i].dump()), largest));
    }
    values.push_back(list[i].get<std::int64_t>());
  }
  return values;
}

std::vector<std::int64_t> ids_of_tokens(const Item& item, const Vocabulary& vocabulary) {
  const ordered_json& list = item.object.at("tokens");
  if (!list.is_array()) refuse(item, "tokens", "need an array of strings");
  if (vocabulary.empty()) {
    refuse(item, "tokens", "the model has no vocabulary (tokenizer.json, vocab.txt or vocab.json); give ids");
  }
  std::vector<std::int64_t> ids;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string field = fmt::format("tokens/{}", i);
    if (!list[i].is_string())
      refuse(item, field, fmt::format("got {}, need a string", escaped(list[i].dump())));
    const auto& token = list[i].get_ref<const std::string&>();
    const auto id = vocabulary.id(token);
    if (!id) {
      refuse(item, field,
             fmt::format("\"{}\" is not in the model's vocabulary of {}", escaped(token), vocabulary.size()));
    }
    ids.push_back(*id);
  }
  return ids;
}

std::string id_of(const Item& item) {
  const ordered_json& id = item.object.at("id");
  if (id.is_string()) return id.get<std::string>();
  if (id.is_number_integer()) return std::to_string(id.get<std::int64_t>());
  refuse(item, "id", fmt::format("got {}, need a string or an integer", escaped(id.dump())));
}

constexpr std::int64_t kLargestInteger = 9'007'199'254'740'991;  // 2^53 - 1: exact in every reader of JSON

Sequence make_sequence(const Item& item, const Vocabulary& vocabulary) {
  if (!item.object.is_object()) fail(Status::bad_input, "{}: need an object", item.where);
  const std::set<std::string_view> known = {"id", "text", "tokens", "ids", "token_type_ids", "mask"};
  for (const auto& [key, value] : item.object.items()) {
    if (!known.contains(key))
      refuse(item, escaped(key), "unsupported key; known: id, tokens, ids, token_type_ids, mask");
  }
  if (item.object.contains("text")) {
    refuse(item, "text", "unsupported without a tokenizer; give \"tokens\" or \"ids\"");
  }
  if (item.object.contains("tokens") == item.object.contains("ids"))
    refuse(item, "", "need either \"tokens\" or \"ids\"");

  Sequence sequence;
  sequence.ids =
      item.object.contains("ids") ? integers(item, "ids", kLargestInteger) : ids_of_tokens(item, vocabulary);
  const auto parallel_list = [&](const char* field, std::int64_t largest) {
    std::vector<std::int64_t> list = integers(item, field, largest);
    if (list.size() != sequence.ids.size()) {
      refuse(item, field,
             fmt::format("got {} values, need {}, one for each token", list.size(), sequence.ids.size()));
    }
    return list;
  };
  if (item.object.contains("token_type_ids"))
    sequence.token_type_ids = parallel_list("token_type_ids", kLargestInteger);
  if (item.object.contains("mask")) {
    for (const std::int64_t visible : parallel_list("mask", 1)) {
      sequence.key_visible.push_back(static_cast<std::uint8_t>(visible));
    }
  }
  if (item.object.contains("id")) sequence.id = id_of(item);
  return sequence;
}

}  // namespace

std::vector<std::int64_t> parse_ids(std::string_view list) {
  std::vector<std::int64_t> ids;
  std::string_view rest = list;
  while (true) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    std::string_view word = rest.substr(0, end);
    while (word.starts_with(' ')) word.remove_prefix(1);
    while (word.ends_with(' ')) word.remove_suffix(1);
    std::int64_t id = 0;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || stop != word.data() + word.size() || id < 0) {
      fail(Status::bad_input, "--ids: got \"{}\" at place {}, need integers from 0 with commas between",
           escaped(word), ids.size());
    }
    ids.push_back(id);
    if (end == rest.size()) return ids;
    rest.remove_prefix(end + 1);
  }
}

void read_sequences(std::string_view text, InputFormat format, const std::string& name,
                    const Vocabulary& vocabulary, Batch& batch) {
  const std::string file = escaped(name);
  if (format == InputFormat::json) {
    const ordered_json document = parse_json(name, text);
    if (!document.is_array()) {
      batch.sequences.push_back(make_sequence({document, file + ": "}, vocabulary));
      return;
    }
    for (std::size_t i = 0; i < document.size(); ++i) {
      batch.sequences.push_back(make_sequence({document[i], fmt::format("{}: /{}", file, i)}, vocabulary));
    }
    return;
  }
  std::size_t line_number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++line_number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = fmt::format("{}: line {}", name, line_number);
    const ordered_json object = parse_json(where, line);
    batch.sequences.push_back(make_sequence({object, escaped(where) + ": "}, vocabulary));
  }
}

void finish_batch(Batch& batch, const Vocabulary& vocabulary) {
  std::set<std::string_view> seen;
  for (std::size_t s = 0; s < batch.sequences.size(); ++s) {
    Sequence& sequence = batch.sequences[s];
    if (sequence.id.empty()) sequence.id = std::to_string(s);
    if (!seen.insert(sequence.id).second) {
      fail(Status::bad_input, "input {}: the id \"{}\" is given twice; ids tell inputs apart in the results",
           s, escaped(sequence.id));
    }
    if (sequence.queries() == 0) {
      fail(Status::bad_input, "input \"{}\": an empty sequence; need at least one token",
           escaped(sequence.id));
    }
    for (const std::int64_t id : sequence.ids) {
      sequence.special.push_back(vocabulary.is_special(id) ? 1 : 0);
      sequence.separator.push_back(vocabulary.is_separator(id) ? 1 : 0);
      if (vocabulary.empty()) continue;
      const auto token = vocabulary.token(id);
      sequence.tokens.push_back(token ? std::string(*token) : fmt::format("#{}", id));
    }
  }
}

}  // namespace attnctl
