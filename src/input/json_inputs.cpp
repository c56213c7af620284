#include "input/json_inputs.hpp"

#include <array>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "base/text.hpp"

namespace attnctl {
namespace {

using nlohmann::ordered_json;

/// 2^53 - 1: every JSON reader reads integers up to this one exactly.
constexpr std::int64_t kLargestInteger = 9'007'199'254'740'991;

/// A key of an input object, and whether objects with "text", "tokens" and "ids" may have it.
struct JsonKey {
  std::string_view name;
  bool text, tokens, ids;
};
constexpr std::array kKeys = {
    JsonKey{"id", true, true, true},
    JsonKey{"text", true, false, false},
    JsonKey{"text_pair", true, false, false},
    JsonKey{"mentions", true, false, false},
    JsonKey{"tokens", false, true, false},
    JsonKey{"ids", false, false, true},
    JsonKey{"token_type_ids", false, true, true},
    JsonKey{"mask", false, true, true},
};

/// A mention as the file describes it, with ranges in code points.
struct WrittenMention {
  Mention mention;
  TextRange range, head;
};

std::optional<MentionType> mention_type_of(std::string_view name) {
  if (name == "pronoun") return MentionType::pronoun;
  if (name == "proper") return MentionType::proper;
  return name == "nominal" ? std::optional(MentionType::nominal) : std::nullopt;
}

/// Reads a mention from `item`, which is at the JSON pointer `at` in `object`. `length` is the number of code
/// points of the text.
WrittenMention read_mention(const JsonInput& object, const std::string& at, const ordered_json& item,
                            std::uint32_t length) {
  const auto refuse = [&](std::string_view field, std::string_view what) {
    object.refuse(fmt::format("{}{}", at, field), what);
  };
  const auto range_of = [&](const char* name) {
    const ordered_json& pair = item.at(name);
    const bool numbers =
        pair.is_array() && pair.size() == 2 && pair[0].is_number_unsigned() && pair[1].is_number_unsigned();
    const std::uint64_t begin = numbers ? pair[0].get<std::uint64_t>() : 0;
    const std::uint64_t end = numbers ? pair[1].get<std::uint64_t>() : 0;
    if (begin >= end || end > length) {
      refuse(fmt::format("/{}", name), fmt::format("got {}, need [begin, end) of the text's {} characters",
                                                   shown(pair.dump()), length));
    }
    return TextRange{static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)};
  };
  if (!item.is_object()) refuse("", "need an object");
  for (const auto& [name, value] : item.items()) {
    if (name != "entity" && name != "range" && name != "head" && name != "type")
      refuse("/" + escaped(name), "unsupported key; known: entity, range, head, type");
  }
  if (!item.contains("entity") || !item.contains("range")) refuse("", "need \"entity\" and \"range\"");
  WrittenMention written;
  const ordered_json& entity = item.at("entity");
  if (!entity.is_string() && !entity.is_number_integer())
    refuse("/entity", fmt::format("got {}, need a string or an integer", shown(entity.dump())));
  written.mention.entity = entity.is_string() ? entity.get<std::string>() : entity.dump();
  if (item.contains("type")) {
    const ordered_json& type = item.at("type");
    if (type.is_string()) written.mention.type = mention_type_of(type.get_ref<const std::string&>());
    if (!written.mention.type)
      refuse("/type", fmt::format("unsupported {}; known: pronoun, proper, nominal", shown(type.dump())));
  }
  written.range = range_of("range");
  written.head = item.contains("head") ? range_of("head") : written.range;
  if (written.head.begin < written.range.begin || written.head.end > written.range.end)
    refuse("/head", "is not within the range of the mention");
  return written;
}

/// Splits `word` at the positions `cuts` in the text and appends the parts to `words`.
void append_cut(const TextWord& word, const std::set<std::uint32_t>& cuts, std::vector<ConlluWord>& words) {
  std::string_view rest = word.form;
  std::uint32_t begin = word.range.begin;
  while (begin < word.range.end) {
    const auto cut = cuts.upper_bound(begin);
    const std::uint32_t end = cut == cuts.end() ? word.range.end : std::min(*cut, word.range.end);
    std::size_t bytes = 0;
    for (std::uint32_t i = begin; i < end; ++i) bytes += utf8_sequence_length(rest.substr(bytes));
    words.push_back({{std::string(rest.substr(0, bytes)), {begin, end}}, "", "", std::nullopt});
    rest.remove_prefix(bytes);
    begin = end;
  }
}

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
                                   [&wanted = name](const JsonKey& each) { return each.name == wanted; });
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
  if (vocabulary.empty())
    refuse("tokens", "the model has no vocabulary (tokenizer.json, vocab.txt or vocab.json); give ids");
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
    for (const std::int64_t visible : parallel_list("mask", 1))
      sequence.key_visible.push_back(static_cast<std::uint8_t>(visible));
  }
  if (object_.contains("id")) sequence.id = id();
  return sequence;
}

ConlluSentence mentions_of(const JsonInput& object, TextInput& input) {
  const ordered_json& list = object.object().at("mentions");
  if (!list.is_array()) object.refuse("mentions", "need an array of objects");
  const auto length = static_cast<std::uint32_t>(count_code_points(input.text));
  std::vector<WrittenMention> mentions;
  for (const ordered_json& item : list)
    mentions.push_back(read_mention(object, fmt::format("mentions/{}", mentions.size()), item, length));
  std::set<std::uint32_t> cuts;
  for (const WrittenMention& each : mentions)
    cuts.insert({each.range.begin, each.range.end, each.head.begin, each.head.end});
  ConlluSentence sentence;
  sentence.id = input.id;
  sentence.text = input.text;
  for (const TextWord& word : white_space_words(input.text)) append_cut(word, cuts, sentence.words);
  input.words.emplace();
  for (const ConlluWord& word : sentence.words) input.words->push_back(word.word);
  for (std::size_t i = 0; i < mentions.size(); ++i) {
    const auto [first, last] = words_in(*input.words, mentions[i].range);
    const auto [head, head_end] = words_in(*input.words, mentions[i].head);
    if (first == last || head == head_end)
      object.refuse(fmt::format("mentions/{}", i), "contains only white space");
    for (std::size_t word = first; word < last; ++word) mentions[i].mention.words.push_back(word);
    mentions[i].mention.head = head_end - 1;
    sentence.mentions.push_back(std::move(mentions[i].mention));
  }
  return sentence;
}

}  // namespace attnctl
