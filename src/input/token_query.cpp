#include "attnctl/input/token_query.hpp"

#include "attnctl/base/parse_number.hpp"

#include <algorithm>
#include <cctype>
#include <functional>

namespace attnctl {
namespace {

bool equal_without_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

/// Groups of positions with the text of each: single tokens as the vocabulary has them, or words as one types
/// them.
struct Group {
  std::string text;
  std::vector<std::size_t> positions;
};

std::vector<Group> token_groups(const Sequence& sequence) {
  std::vector<Group> groups;
  for (std::size_t i = 0; i < sequence.tokens.size(); ++i) groups.push_back({sequence.tokens[i], {i}});
  return groups;
}

std::vector<Group> word_groups(const Sequence& sequence, const Vocabulary& vocabulary) {
  const auto words = vocabulary.words(sequence.tokens, sequence.ids);
  std::vector<Group> groups;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool first = i == 0 || !words[i].has_value() || words[i] != words[i - 1];
    if (first) groups.emplace_back();
    groups.back().text += vocabulary.plain(sequence.tokens[i]);
    groups.back().positions.push_back(i);
  }
  return groups;
}

}  // namespace

std::vector<std::size_t> find_word(const Sequence& sequence, const Vocabulary& vocabulary,
                                   std::string_view word) {
  if (const auto position = parse_number(word)) {
    if (*position < sequence.queries()) return {*position};
    return {};
  }
  std::size_t occurrence = 1;
  const std::size_t hash = word.rfind('#');
  if (hash != std::string_view::npos && hash > 0) {
    const auto number = parse_number(word.substr(hash + 1));
    if (number && *number > 0) {
      occurrence = *number;
      word = word.substr(0, hash);
    }
  }
  const std::vector<Group> tokens = token_groups(sequence);
  const std::vector<Group> words = word_groups(sequence, vocabulary);
  using Same = std::function<bool(std::string_view, std::string_view)>;
  for (const Same& same : {Same(std::equal_to<>()), Same(equal_without_case)}) {
    for (const std::vector<Group>* groups : {&words, &tokens}) {
      std::size_t seen = 0;
      for (const Group& group : *groups) {
        if (same(group.text, word) && ++seen == occurrence) return group.positions;
      }
    }
  }
  return {};
}

}  // namespace attnctl
