#include "input/mentions.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"

namespace attnctl {
namespace {

/// Splits "e1[2/3]" into the entity and 1 for the first part, 2 for later parts, 0 for a whole mention.
std::pair<std::string, std::size_t> split_label(const std::string& label) {
  const std::size_t bracket = label.find('[');
  if (bracket == std::string::npos) return {label, 0};
  const std::string_view number = std::string_view(label).substr(bracket + 1);
  return {label.substr(0, bracket), number.starts_with("1/") ? 1 : 2};
}

}  // namespace

std::optional<MentionType> mention_type(std::string_view upos) {
  if (upos.empty() || upos == "_") return std::nullopt;
  if (upos == "PRON" || upos == "DET") return MentionType::pronoun;
  return upos == "PROPN" ? MentionType::proper : MentionType::nominal;
}

std::string EntityBrackets::read(std::string_view value, std::size_t next, std::size_t end) {
  if (value.find_first_of("()") == std::string_view::npos) return {};
  while (!value.empty()) {
    const bool opens = value.starts_with('(');
    if (opens) value.remove_prefix(1);
    const std::size_t stop = std::min(value.find_first_of("()"), value.size());
    const std::string_view name = value.substr(0, std::min(value.find('-'), stop));
    const bool closes = stop < value.size() && value[stop] == ')';
    if (name.empty()) return "a bracket without an entity";
    if (!opens && !closes) return fmt::format("{} neither opens nor closes", in_quotes(value));
    value.remove_prefix(closes ? stop + 1 : stop);
    if (opens) open_.push_back({std::string(name), next});
    if (!closes) continue;
    const auto open = std::ranges::find(open_.rbegin(), open_.rend(), name, &Open::label);
    if (open == open_.rend()) return fmt::format("{} is closed and was not opened", in_quotes(name));
    const Open closed = *open;
    open_.erase(std::next(open).base());
    if (std::string wrong = close(closed, end); !wrong.empty()) return wrong;
  }
  return {};
}

std::string EntityBrackets::close(const Open& open, std::size_t end) {
  auto [entity, part] = split_label(open.label);
  Mention* mention = nullptr;
  if (part > 1) {
    const auto before = std::ranges::find(mentions_.rbegin(), mentions_.rend(), entity, &Mention::entity);
    if (before == mentions_.rend()) return fmt::format("{} has no first part", in_quotes(open.label));
    mention = &*before;
  } else {
    mention = &mentions_.emplace_back();
    mention->entity = std::move(entity);
  }
  for (std::size_t word = open.first; word < end; ++word) mention->words.push_back(word);
  return {};
}

std::vector<Mention> EntityBrackets::finish(std::string& wrong) {
  wrong = open_.empty() ? "" : fmt::format("{} is not closed in its sentence", in_quotes(open_.back().label));
  std::vector<Mention> mentions = std::move(mentions_);
  open_.clear();
  mentions_.clear();
  std::erase_if(mentions, [](const Mention& mention) { return mention.words.empty(); });
  for (Mention& mention : mentions) std::ranges::sort(mention.words);
  std::ranges::stable_sort(mentions, [](const Mention& a, const Mention& b) {
    return a.words.front() != b.words.front() ? a.words.front() < b.words.front()
                                              : a.words.back() > b.words.back();
  });
  return mentions;
}

}  // namespace attnctl
