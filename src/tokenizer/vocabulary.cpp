#include "tokenizer/vocabulary.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <utility>

namespace attnctl::tokenizer {
namespace {

// The word mark of each WordMark, in the order of the enumerators.
constexpr std::array<std::string_view, 4> kPrefixes = {"", "##", "\u0120", "\u2581"};  // Ġ, ▁

std::string_view prefix_of(WordMark mark) {
  return kPrefixes[static_cast<std::size_t>(mark)];
}

/// Returns the most frequent word mark if at least 1 % of the tokens have it, otherwise WordMark::none. The
/// limit is needed because a few tokens may begin with "▁" by chance.
WordMark mark_of(const std::vector<std::string>& tokens) {
  std::array<std::size_t, kPrefixes.size()> counts{};
  for (const std::string& token : tokens) {
    for (std::size_t i = 1; i < kPrefixes.size(); ++i) {
      if (token.starts_with(kPrefixes[i]) && token.size() > kPrefixes[i].size()) ++counts[i];
    }
  }
  const auto most = std::max_element(counts.begin(), counts.end());
  return *most * 100 >= tokens.size() ? static_cast<WordMark>(most - counts.begin()) : WordMark::none;
}

/// Returns whether a byte is an ASCII letter, an ASCII digit or a byte of a non-ASCII character.
bool is_word_byte(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || std::isalnum(byte) != 0;
}

}  // namespace

Vocabulary::Vocabulary(std::vector<std::string> tokens, std::set<std::int64_t> special)
    : tokens_(std::move(tokens)),
      ids_(tokens_.size()),
      special_(std::move(special)),
      mark_(mark_of(tokens_)) {
  // In reverse order, so that the first of several equal tokens sets the id.
  for (std::size_t i = tokens_.size(); i-- > 0;) {
    if (!tokens_[i].empty()) ids_.put(tokens_[i], static_cast<std::int32_t>(i));
  }
  for (const std::string_view token : {"[SEP]", "</s>", "<|endoftext|>"}) {
    if (const auto found = id(token)) mark_separator(*found);
  }
}

std::optional<std::int64_t> Vocabulary::id(std::string_view token) const {
  const std::int32_t found = ids_.find(token);
  return found < 0 ? std::nullopt : std::optional<std::int64_t>(found);
}

std::optional<std::string_view> Vocabulary::token(std::int64_t id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= tokens_.size()) return std::nullopt;
  const std::string& token = tokens_[static_cast<std::size_t>(id)];
  if (token.empty()) return std::nullopt;
  return token;
}

std::string Vocabulary::plain(std::string_view token) const {
  const std::string_view prefix = prefix_of(mark_);
  if (token.size() > prefix.size() && token.starts_with(prefix)) token.remove_prefix(prefix.size());
  return std::string(token);
}

std::vector<std::optional<std::size_t>> Vocabulary::words(std::span<const std::string> tokens,
                                                          std::span<const std::int64_t> ids) const {
  const std::string_view prefix = prefix_of(mark_);
  const auto continues = [&](std::size_t i) {
    if (mark_ == WordMark::none) return false;
    if (mark_ == WordMark::continuation) return tokens[i].starts_with(prefix);
    if (tokens[i].starts_with(prefix) || tokens[i].empty() || tokens[i - 1].empty()) return false;
    return is_word_byte(tokens[i].front()) && is_word_byte(tokens[i - 1].back());
  };
  std::vector<std::optional<std::size_t>> words(tokens.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i < ids.size() && is_special(ids[i])) continue;
    const bool same = i > 0 && words[i - 1].has_value() && continues(i);
    words[i] = same ? words[i - 1] : std::optional<std::size_t>(next++);
  }
  return words;
}

}  // namespace attnctl::tokenizer
