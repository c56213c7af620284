#include "input/json_mentions.hpp"

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "base/text.hpp"

namespace attnctl {
namespace {

using nlohmann::ordered_json;

/// One mention as it is written.
struct Written {
  Mention mention;
  TextRange range, head;
};

/// Reads "mentions" of one object.
class MentionsReader {
 public:
  MentionsReader(const JsonInput& object, const std::string& text)
      : object_(object), length_(static_cast<std::uint32_t>(count_code_points(text))) {}

  [[nodiscard]] std::vector<Written> read() {
    const ordered_json& list = object_.object().at("mentions");
    if (!list.is_array()) object_.refuse("mentions", "need an array of objects");
    std::vector<Written> mentions;
    for (const ordered_json& item : list) {
      at_ = fmt::format("mentions/{}", mentions.size());
      mentions.push_back(mention(item));
    }
    return mentions;
  }

 private:
  [[noreturn]] void refuse(std::string_view field, std::string_view what) const {
    object_.refuse(fmt::format("{}{}", at_, field), what);
  }
  [[nodiscard]] Written mention(const ordered_json& item) const;
  [[nodiscard]] TextRange range(const ordered_json& item, const char* name) const;
  [[nodiscard]] std::string entity(const ordered_json& item) const;
  [[nodiscard]] std::optional<MentionType> type(const ordered_json& item) const;

  const JsonInput& object_;
  std::uint32_t length_;  // of the text
  std::string at_;        // the mention
};

Written MentionsReader::mention(const ordered_json& item) const {
  if (!item.is_object()) refuse("", "need an object");
  for (const auto& [name, value] : item.items()) {
    if (name != "entity" && name != "range" && name != "head" && name != "type")
      refuse("/" + escaped(name), "unsupported key; known: entity, range, head, type");
  }
  if (!item.contains("entity") || !item.contains("range")) refuse("", "need \"entity\" and \"range\"");
  Written written;
  written.mention.entity = entity(item);
  written.mention.type = type(item);
  written.range = range(item, "range");
  written.head = item.contains("head") ? range(item, "head") : written.range;
  if (written.head.begin < written.range.begin || written.head.end > written.range.end)
    refuse("/head", "is not within the range of the mention");
  return written;
}

TextRange MentionsReader::range(const ordered_json& item, const char* name) const {
  const ordered_json& pair = item.at(name);
  const bool numbers =
      pair.is_array() && pair.size() == 2 && pair[0].is_number_unsigned() && pair[1].is_number_unsigned();
  const std::uint64_t begin = numbers ? pair[0].get<std::uint64_t>() : 0;
  const std::uint64_t end = numbers ? pair[1].get<std::uint64_t>() : 0;
  if (begin >= end || end > length_) {
    refuse(fmt::format("/{}", name),
           fmt::format("got {}, need [begin, end) of the text's {} characters", shown(pair.dump()), length_));
  }
  return {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)};
}

std::string MentionsReader::entity(const ordered_json& item) const {
  const ordered_json& entity = item.at("entity");
  if (entity.is_string()) return entity.get<std::string>();
  if (entity.is_number_integer()) return entity.dump();
  refuse("/entity", fmt::format("got {}, need a string or an integer", shown(entity.dump())));
}

std::optional<MentionType> MentionsReader::type(const ordered_json& item) const {
  if (!item.contains("type")) return std::nullopt;
  const ordered_json& type = item.at("type");
  if (type == "pronoun") return MentionType::pronoun;
  if (type == "proper") return MentionType::proper;
  if (type == "nominal") return MentionType::nominal;
  refuse("/type", fmt::format("unsupported {}; known: pronoun, proper, nominal", shown(type.dump())));
}

/// Appends `word` in pieces that end at the cuts.
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

ConlluSentence mentions_of(const JsonInput& object, TextInput& input) {
  std::vector<Written> mentions = MentionsReader(object, input.text).read();
  std::set<std::uint32_t> cuts;
  for (const Written& each : mentions)
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
      object.refuse(fmt::format("mentions/{}", i), "is white space alone");
    for (std::size_t word = first; word < last; ++word) mentions[i].mention.words.push_back(word);
    mentions[i].mention.head = head_end - 1;
    sentence.mentions.push_back(std::move(mentions[i].mention));
  }
  return sentence;
}

}  // namespace attnctl
