#include "input/json_inputs.hpp"

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/text.hpp"

namespace attnctl {
namespace {

using nlohmann::ordered_json;

constexpr std::int64_t kLargestInteger = 9'007'199'254'740'991;  // 2^53 - 1: exact in every reader of JSON

/// The keys that an object may have, and which of the three kinds of input each goes with.
struct Key {
  std::string_view name;
  bool text, tokens, ids;
};
constexpr std::array kKeys = {
    Key{"id", true, true, true},
    Key{"text", true, false, false},
    Key{"text_pair", true, false, false},
    Key{"mentions", true, false, false},
    Key{"tokens", false, true, false},
    Key{"ids", false, false, true},
    Key{"token_type_ids", false, true, true},
    Key{"mask", false, true, true},
};

}  // namespace

JsonInput::JsonInput(const ordered_json& object, std::string where)
    : object_(object), where_(std::move(where)) {
  if (!object.is_object())
    fail(Status::bad_input, "{}{}need an object", where_, where_.ends_with(' ') ? "" : ": ");
  const bool text = object.contains("text");
  const bool tokens = object.contains("tokens");
  const bool ids = object.contains("ids");
  if (int{text} + int{tokens} + int{ids} != 1) refuse("", "need either \"text\", \"tokens\" or \"ids\"");
  for (const auto& [name, value] : object.items()) {
    const auto* key = std::find_if(kKeys.begin(), kKeys.end(),
                                   [&wanted = name](const Key& each) { return each.name == wanted; });
    if (key == kKeys.end()) {
      refuse(escaped(name),
             "unsupported key; known: id, text, text_pair, mentions, tokens, ids, token_type_ids, mask");
    }
    const bool goes = text ? key->text : tokens ? key->tokens : key->ids;
    if (!goes)
      refuse(name, fmt::format("does not go with \"{}\"", text ? "text" : tokens ? "tokens" : "ids"));
  }
}

void JsonInput::refuse(std::string_view field, std::string_view what) const {
  fail(Status::bad_input, "{}{}/{}: {}", where_, where_.ends_with(':') ? " " : "", field, what);
}

std::string JsonInput::string(const char* field) const {
  const ordered_json& value = object_.at(field);
  if (!value.is_string()) refuse(field, fmt::format("got {}, need a string", in_quotes(value.dump())));
  return value.get<std::string>();
}

std::string JsonInput::id() const {
  const ordered_json& id = object_.at("id");
  if (id.is_string()) return id.get<std::string>();
  if (id.is_number_integer()) return std::to_string(id.get<std::int64_t>());
  refuse("id", fmt::format("got {}, need a string or an integer", escaped(id.dump())));
}

TextInput JsonInput::text() const {
  TextInput input;
  input.text = string("text");
  if (object_.contains("text_pair")) input.pair = string("text_pair");
  if (has_mentions() && input.pair) refuse("mentions", "does not go with \"text_pair\"");
  if (object_.contains("id")) input.id = id();
  return input;
}

std::vector<std::int64_t> JsonInput::integers(std::string_view field, std::int64_t largest) const {
  const ordered_json& list = object_.at(std::string(field));
  if (!list.is_array()) refuse(field, "need an array of integers");
  std::vector<std::int64_t> values;
  values.reserve(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    const bool fits =
        list[i].is_number_unsigned() && list[i].get<std::uint64_t>() <= static_cast<std::uint64_t>(largest);
    if (!fits) {
      refuse(fmt::format("{}/{}", field, i),
             fmt::format("got {}, need an integer from 0 to {}", escaped(list[i].dump()), largest));
    }
    values.push_back(list[i].get<std::int64_t>());
  }
  return values;
}

std::vector<std::int64_t> JsonInput::ids_of_tokens(const Vocabulary& vocabulary) const {
  const ordered_json& list = object_.at("tokens");
  if (!list.is_array()) refuse("tokens", "need an array of strings");
  if (vocabulary.empty()) {
    refuse("tokens", "the model has no vocabulary (tokenizer.json, vocab.txt or vocab.json); give ids");
  }
  std::vector<std::int64_t> ids;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string field = fmt::format("tokens/{}", i);
    if (!list[i].is_string()) refuse(field, fmt::format("got {}, need a string", escaped(list[i].dump())));
    const auto& token = list[i].get_ref<const std::string&>();
    const auto id = vocabulary.id(token);
    if (!id) {
      refuse(field,
             fmt::format("\"{}\" is not in the model's vocabulary of {}", escaped(token), vocabulary.size()));
    }
    ids.push_back(*id);
  }
  return ids;
}

Sequence JsonInput::sequence(const Vocabulary& vocabulary) const {
  Sequence sequence;
  sequence.ids = object_.contains("ids") ? integers("ids", kLargestInteger) : ids_of_tokens(vocabulary);
  const auto parallel_list = [&](const char* field, std::int64_t largest) {
    std::vector<std::int64_t> list = integers(field, largest);
    if (list.size() != sequence.ids.size()) {
      refuse(field,
             fmt::format("got {} values, need {}, one for each token", list.size(), sequence.ids.size()));
    }
    return list;
  };
  if (object_.contains("token_type_ids"))
    sequence.token_type_ids = parallel_list("token_type_ids", kLargestInteger);
  if (object_.contains("mask")) {
    for (const std::int64_t visible : parallel_list("mask", 1)) {
      sequence.key_visible.push_back(static_cast<std::uint8_t>(visible));
    }
  }
  if (object_.contains("id")) sequence.id = id();
  return sequence;
}

}  // namespace attnctl
