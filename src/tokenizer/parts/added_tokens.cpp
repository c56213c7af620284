#include "tokenizer/parts/added_tokens.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "tokenizer/unicode/unicode.hpp"

namespace attnctl {
namespace {

/// The contents of tokens, sorted by their bytes. Finds the longest token at a position by narrowing the
/// range of tokens that share a prefix with the text, starting from a table by the first byte.
class Contents {
 public:
  struct Found {
    std::size_t token;  // index in the list of tokens
    std::size_t size;
  };

  void add(std::string content, std::size_t token) {
    if (content.empty()) {
      if (!empty_token_) empty_token_ = token;
    } else {
      sorted_.push_back({std::move(content), token});
    }
  }

  /// Sorts the contents after the last add(). Keeps the first of equal contents.
  void finish() {
    std::stable_sort(sorted_.begin(), sorted_.end(),
                     [](const Entry& a, const Entry& b) { return a.content < b.content; });
    const auto same = [](const Entry& a, const Entry& b) { return a.content == b.content; };
    sorted_.erase(std::unique(sorted_.begin(), sorted_.end(), same), sorted_.end());
    for (std::size_t i = sorted_.size(); i-- > 0;) {
      auto& [first, last] = by_first_byte_[byte_at(sorted_[i].content, 0)];
      first = i;
      if (last == 0) last = i + 1;
      may_begin_[byte_at(sorted_[i].content, 0)] = true;
    }
  }

  [[nodiscard]] bool empty() const { return sorted_.empty() && !empty_token_; }

  /// Returns the first position from `begin` on where a token may start.
  [[nodiscard]] std::size_t next_candidate(std::string_view text, std::size_t begin) const {
    if (empty_token_) return begin;
    while (begin < text.size() && !may_begin_[byte_at(text, begin)]) ++begin;
    return begin;
  }

  /// Returns the longest token that `text` starts with.
  [[nodiscard]] std::optional<Found> longest(std::string_view text) const {
    std::optional<Found> found;
    if (empty_token_) found = Found{*empty_token_, 0};
    if (text.empty()) return found;
    auto [first, last] = by_first_byte_[byte_at(text, 0)];
    for (std::size_t depth = 1; first < last; ++depth) {
      if (last - first == 1) {  // compares the rest at once
        const Entry& entry = sorted_[first];
        if (text.starts_with(entry.content)) found = Found{entry.token, entry.content.size()};
        break;
      }
      if (sorted_[first].content.size() == depth) {
        found = Found{sorted_[first].token, depth};
        ++first;
      }
      if (first == last || depth == text.size()) break;
      narrow(first, last, depth, byte_at(text, depth));
    }
    return found;
  }

 private:
  struct Entry {
    std::string content;
    std::size_t token;
  };

  static unsigned char byte_at(std::string_view text, std::size_t i) {
    return static_cast<unsigned char>(text[i]);
  }

  /// Narrows the range to the tokens whose byte at `depth` is `byte`. All tokens in the range are longer than
  /// `depth` and equal before it.
  void narrow(std::size_t& first, std::size_t& last, std::size_t depth, unsigned char byte) const {
    // If the first and last byte are equal, all are.
    const unsigned char least = byte_at(sorted_[first].content, depth);
    const unsigned char most = byte_at(sorted_[last - 1].content, depth);
    if (least == most) {
      if (least != byte) last = first;
      return;
    }
    const auto begin = sorted_.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = sorted_.begin() + static_cast<std::ptrdiff_t>(last);
    const auto low = std::partition_point(
        begin, end, [=](const Entry& entry) { return byte_at(entry.content, depth) < byte; });
    const auto high = std::partition_point(
        low, end, [=](const Entry& entry) { return byte_at(entry.content, depth) == byte; });
    last = static_cast<std::size_t>(high - sorted_.begin());
    first = static_cast<std::size_t>(low - sorted_.begin());
  }

  std::vector<Entry> sorted_;
  std::optional<std::size_t> empty_token_;  // a token that normalizes to nothing and so matches everywhere
  std::array<std::pair<std::size_t, std::size_t>, 256> by_first_byte_{};
  std::array<bool, 256> may_begin_{};
};

bool begins_with_word(std::string_view text) {
  std::size_t i = 0;
  return !text.empty() && unicode::is(unicode::next(text, i), unicode::word);
}

bool ends_with_word(std::string_view text) {
  std::size_t i = text.size();
  return !text.empty() && unicode::is(unicode::previous(text, i), unicode::word);
}

std::size_t after_code_point(std::string_view text, std::size_t place) {
  if (place >= text.size()) return place + 1;
  unicode::next(text, place);
  return place;
}

void cut_piece(std::string_view text, const Contents& contents, const std::vector<AddedToken>& tokens,
               PieceText::Cuts& cuts) {
  std::size_t done = 0;
  std::size_t matched = std::string_view::npos;  // end of the last match
  for (std::size_t place = 0; (place = contents.next_candidate(text, place)) <= text.size();) {
    const auto found = contents.longest(text.substr(place));
    if (!found) {
      ++place;
      continue;
    }
    const AddedToken& token = tokens[found->token];
    std::size_t begin = place;
    std::size_t end = place + found->size;
    if (begin == end && begin == matched) {  // no empty match right after a match
      place = after_code_point(text, place);
      continue;
    }
    // The search continues after a match even if it is rejected, and ignores the white space it takes.
    place = matched = end;
    if (token.single_word && (ends_with_word(text.substr(0, begin)) || begins_with_word(text.substr(end)))) {
      continue;
    }
    // White space that the previous token took is not taken again.
    if (token.lstrip) begin = std::max(unicode::white_space_begin(text, begin, done), done);
    if (token.rstrip) end = unicode::white_space_end(text, end);
    if (end < begin) continue;  // the reference panics here
    if (done < begin) cuts.add(done, begin);
    cuts.add(begin, end, token.id);
    done = end;
  }
  if (done < text.size()) cuts.add(done, text.size());
}

std::string normalized(const std::string& content, const TextStep& normalizer) {
  if (!normalizer) return content;
  PieceText text;
  text.assign(content);
  normalizer(text);
  return std::string(text.text());
}

}  // namespace

struct AddedTokens::Matchers {
  std::vector<AddedToken> tokens;
  Contents raw;
  Contents after_normalizer;

  void cut(PieceText& text, const Contents& contents) const {
    if (contents.empty()) return;
    text.cut(
        [&](std::string_view piece, PieceText::Cuts& cuts) { cut_piece(piece, contents, tokens, cuts); });
  }
};

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const TextStep& normalizer) {
  const auto matchers = std::make_shared<Matchers>();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const AddedToken& token = tokens[i];
    std::string content = token.normalized ? normalized(token.content, normalizer) : token.content;
    (token.normalized ? matchers->after_normalizer : matchers->raw).add(std::move(content), i);
  }
  matchers->raw.finish();
  matchers->after_normalizer.finish();
  matchers->tokens = std::move(tokens);
  matchers_ = matchers;
}

const std::vector<AddedToken>& AddedTokens::tokens() const {
  return matchers_->tokens;
}

void AddedTokens::cut_raw(PieceText& text) const {
  matchers_->cut(text, matchers_->raw);
}

void AddedTokens::cut_normalized(PieceText& text) const {
  matchers_->cut(text, matchers_->after_normalizer);
}

std::vector<AddedToken> read_added_tokens(const PartConfig& document) {
  std::vector<AddedToken> tokens;
  std::unordered_map<std::string, std::size_t> places;
  if (!document.has("added_tokens")) return tokens;
  for (const PartConfig& part : document.objects("added_tokens")) {
    const std::int64_t id = part.integer("id");
    if (id < 0 || id > std::numeric_limits<std::int32_t>::max()) {
      part.refuse("id",
                  fmt::format("expected 0 to {}, found {}", std::numeric_limits<std::int32_t>::max(), id));
    }
    AddedToken token;
    token.id = static_cast<std::int32_t>(id);
    token.content = part.string("content");
    token.special = part.boolean("special");
    token.normalized = part.boolean("normalized");
    token.lstrip = part.boolean("lstrip");
    token.rstrip = part.boolean("rstrip");
    token.single_word = part.boolean("single_word");
    if (token.content.empty()) continue;
    const auto [place, is_new] = places.try_emplace(token.content, tokens.size());
    if (is_new) {
      tokens.push_back(std::move(token));
    } else {  // the last of equal contents counts
      tokens[place->second] = std::move(token);
    }
  }
  return tokens;
}

}  // namespace attnctl
