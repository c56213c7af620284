#include "input/json_inputs.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "tokenizer/unicode/unicode.hpp"

namespace attnctl::input {
namespace {

using nlohmann::ordered_json;

/// 2^53 - 1, the largest id or token type. JSON readers with doubles read integers up to it exactly.
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
    JsonKey{"target", true, true, true},
    JsonKey{"target_ids", true, true, true},
};

/// A mention as the file describes it, with ranges in code points.
struct WrittenMention {
  Mention mention;
  tokenizer::TextRange range, head;
};

std::string read_label(const tokenizer::PartConfig& object, std::string_view key) {
  const ordered_json& label = object.at(key).node();
  if (label.is_string()) return label.get<std::string>();
  if (!label.is_number_integer())
    object.refuse(key, fmt::format("got {}, need a string or an integer", shown(label.dump())));
  return label.dump();
}

/// Returns the range [begin, end) under a key. `length` is the number of code points of the text.
tokenizer::TextRange read_range(const tokenizer::PartConfig& mention, std::string_view key,
                                std::uint32_t length) {
  const ordered_json& pair = mention.at(key).node();
  const bool numbers =
      pair.is_array() && pair.size() == 2 && pair[0].is_number_unsigned() && pair[1].is_number_unsigned();
  const std::uint64_t begin = numbers ? pair[0].get<std::uint64_t>() : 0;
  const std::uint64_t end = numbers ? pair[1].get<std::uint64_t>() : 0;
  if (begin >= end || end > length) {
    mention.refuse(key, fmt::format("got {}, need [begin, end) with begin < end <= {}, the number of "
                                    "code points of the text",
                                    shown(pair.dump()), length));
  }
  return {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)};
}

WrittenMention read_mention(const tokenizer::PartConfig& item, std::uint32_t length) {
  constexpr std::string_view kTypes[] = {"pronoun", "proper", "nominal"};  // in the order of MentionType
  for (const auto& [name, value] : item.node().items()) {
    if (name != "entity" && name != "range" && name != "head" && name != "type")
      item.refuse(name, "unsupported key; supported: entity, range, head, type");
  }
  WrittenMention written;
  written.mention.entity = read_label(item, "entity");
  if (item.node().contains("type"))
    written.mention.type = static_cast<MentionType>(item.choice("type", kTypes));
  written.range = read_range(item, "range", length);
  written.head = item.node().contains("head") ? read_range(item, "head", length) : written.range;
  if (written.head.begin < written.range.begin || written.head.end > written.range.end)
    item.refuse("head", "the head is not within the range of the mention");
  return written;
}

/// Appends the parts of `word` between the positions `cuts`, which count code points of the text.
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

std::vector<std::int64_t> read_integers(const tokenizer::PartConfig& object, std::string_view key,
                                        std::int64_t largest) {
  const tokenizer::PartConfig list = object.at(key);
  if (!list.node().is_array()) list.refuse("", "need an array of integers");
  std::vector<std::int64_t> values;
  values.reserve(list.node().size());
  for (const ordered_json& item : list.node()) {
    if (!item.is_number_unsigned() || item.get<std::uint64_t>() > static_cast<std::uint64_t>(largest)) {
      list.refuse(std::to_string(values.size()),
                  fmt::format("got {}, need an integer from 0 to {}", shown(item.dump()), largest));
    }
    values.push_back(item.get<std::int64_t>());
  }
  return values;
}

std::vector<std::int64_t> read_tokens(const tokenizer::PartConfig& list,
                                      const tokenizer::Vocabulary& vocabulary) {
  if (!list.node().is_array()) list.refuse("", "need an array of strings");
  if (vocabulary.empty())
    list.refuse("", "the model has no vocabulary, so tokens have no ids; give \"ids\" instead of \"tokens\"");
  std::vector<std::int64_t> ids;
  for (const ordered_json& item : list.node()) {
    const std::string index = std::to_string(ids.size());
    if (!item.is_string()) list.refuse(index, fmt::format("got {}, need a string", shown(item.dump())));
    const auto& token = item.get_ref<const std::string&>();
    const auto id = vocabulary.id(token);
    if (!id) {
      list.refuse(index, fmt::format("{} is not in the model's vocabulary of {} tokens", in_quotes(token),
                                     vocabulary.size()));
    }
    ids.push_back(*id);
  }
  return ids;
}

}  // namespace

JsonInput::JsonInput(tokenizer::PartConfig input) : object(std::move(input)) {
  if (!object.node().is_object()) object.refuse("", "need an object");
  constexpr const char* kKinds[] = {"text", "tokens", "ids"};
  const auto present = [&](const char* kind) { return contains(kind); };
  if (std::ranges::count_if(kKinds, present) != 1)
    object.refuse("", "need exactly one of the keys \"text\", \"tokens\" and \"ids\"");
  const std::string_view kind = *std::ranges::find_if(kKinds, present);
  for (const auto& member : object.node().items()) {
    const auto* const key = std::ranges::find(kKeys, member.key(), &JsonKey::name);
    if (key == kKeys.end()) {
      object.refuse(member.key(), "unsupported key; supported: " + join_texts(kKeys, &JsonKey::name));
    }
    const bool goes = kind == "text" ? key->text : kind == "tokens" ? key->tokens : key->ids;
    if (!goes) object.refuse(member.key(), fmt::format("cannot be used together with \"{}\"", kind));
  }
  if (contains("target") && contains("target_ids"))
    object.refuse("target_ids", "cannot be used together with \"target\"");
}

TextInput JsonInput::text() const {
  TextInput input;
  input.text = object.string("text");
  if (contains("text_pair")) input.pair = object.string("text_pair");
  if (contains("mentions") && input.pair)
    object.refuse("mentions", "cannot be used together with \"text_pair\"");
  if (contains("id")) input.id = read_label(object, "id");
  return input;
}

Sequence JsonInput::sequence(const tokenizer::Vocabulary& vocabulary) const {
  Sequence sequence;
  sequence.ids = contains("ids") ? read_integers(object, "ids", kLargestInteger)
                                 : read_tokens(object.at("tokens"), vocabulary);
  const auto parallel_list = [&](std::string_view key, std::int64_t largest) {
    std::vector<std::int64_t> list = read_integers(object, key, largest);
    if (list.size() != sequence.ids.size()) {
      object.refuse(key, fmt::format("got {}, need {}, one for each token", counted(list.size(), "value"),
                                     sequence.ids.size()));
    }
    return list;
  };
  if (contains("token_type_ids")) sequence.token_type_ids = parallel_list("token_type_ids", kLargestInteger);
  if (contains("mask")) {
    for (const std::int64_t visible : parallel_list("mask", 1))
      sequence.key_visible.push_back(static_cast<std::uint8_t>(visible));
  }
  if (contains("id")) sequence.id = read_label(object, "id");
  return sequence;
}

std::vector<std::int64_t> JsonInput::target_ids() const {
  return read_integers(object, "target_ids", kLargestInteger);
}

ConlluSentence mentions_of(const JsonInput& input, TextInput& text) {
  const std::vector<tokenizer::PartConfig> list = input.object.objects("mentions");
  const auto length = static_cast<std::uint32_t>(tokenizer::unicode::count_code_points(text.text));
  std::vector<WrittenMention> mentions;
  for (const tokenizer::PartConfig& item : list) mentions.push_back(read_mention(item, length));
  std::set<std::uint32_t> cuts;
  for (const WrittenMention& each : mentions)
    cuts.insert({each.range.begin, each.range.end, each.head.begin, each.head.end});
  ConlluSentence sentence;
  sentence.id = text.id;
  sentence.text = text.text;
  for (const TextWord& word : white_space_words(text.text)) append_cut(word, cuts, sentence.words);
  text.words = text_of(sentence).words;
  for (std::size_t i = 0; i < mentions.size(); ++i) {
    const auto [first, last] = words_in(*text.words, mentions[i].range);
    const auto [head, head_end] = words_in(*text.words, mentions[i].head);
    if (first == last || head == head_end)
      list[i].refuse("", "the mention or its head contains only white space");
    for (std::size_t word = first; word < last; ++word) mentions[i].mention.words.push_back(word);
    mentions[i].mention.head = head_end - 1;
    sentence.mentions.push_back(std::move(mentions[i].mention));
  }
  return sentence;
}

}  // namespace attnctl::input
