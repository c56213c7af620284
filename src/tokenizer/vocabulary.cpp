#include "tokenizer/vocabulary.hpp"

#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>
#include <cstring>
#include <limits>

#include "base/error.hpp"
#include "tokenizer/parts/parts.hpp"
#include "tokenizer/unicode/unicode.hpp"

namespace attnctl::tokenizer {
namespace {

std::uint64_t hash_of(std::string_view bytes) {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15;  // 2^64 divided by the golden ratio
  constexpr std::uint64_t kOther = 0xD6E8FEB86659FD93;
  const auto mixed = [](std::uint64_t a, std::uint64_t b) {
    // __extension__: ISO C++ has no 128-bit integer.
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U);
  };
  std::uint64_t hash = bytes.size() * kOdd;
  while (bytes.size() >= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), 8);
    hash = mixed(hash ^ word ^ kOther, kOdd);
    bytes.remove_prefix(8);
  }
  std::uint64_t rest = 0;
  for (const char c : bytes) rest = rest << 8U | static_cast<unsigned char>(c);
  return mixed(hash ^ rest, kOther);
}

constexpr std::size_t kBytes = 256;

/// A node whose children are still to be added. The tokens below the node are those with the indices [begin,
/// end) in sorted order. They have the same first `depth` bytes.
struct Subtree {
  std::size_t begin;
  std::size_t end;
  std::size_t depth;
  unsigned char byte;      // the last of the first `depth` bytes
  std::uint32_t node = 0;  // index of the node, set when its place is known
};

/// Returns the word mark (see Vocabulary::plain). The limit of 1 % is needed because a few tokens may begin
/// with "▁" by chance.
std::string_view mark_of(const std::vector<std::string>& tokens) {
  std::string_view frequent;
  std::size_t most = 0;
  for (const std::string_view mark : {"##", "\u0120", "\u2581"}) {  // "##", "Ġ", "▁"
    const auto count = static_cast<std::size_t>(std::ranges::count_if(tokens, [&](const std::string& token) {
      return token.starts_with(mark) && token.size() > mark.size();
    }));
    if (count <= most) continue;
    most = count;
    frequent = mark;
  }
  return most * 100 >= tokens.size() ? frequent : "";
}

bool is_word_byte(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || std::isalnum(byte) != 0;
}

}  // namespace

TokenTable::TokenTable(std::size_t tokens) : slots_(std::bit_ceil(std::max<std::size_t>(tokens * 2, 2))) {}

TokenTable::TokenTable(const std::vector<TokenEntry>& entries) : TokenTable(entries.size()) {
  std::size_t bytes = 0;
  for (const auto& entry : entries) bytes += entry.token.size();
  if (bytes > std::numeric_limits<std::uint32_t>::max()) {
    fail(Status::bad_input, "got a vocabulary of {} bytes, need less than 4 GiB", bytes);
  }
  bytes_.reserve(bytes);
  for (const auto& entry : entries) put(entry.token, entry.id);
}

void TokenTable::put(std::string_view token, std::int32_t id) {
  const std::uint64_t hash = hash_of(token);
  StoredToken& slot = slots_[slot_of(token, hash)];
  if (slot.id < 0) {
    slot = {static_cast<std::uint32_t>(hash >> 32), static_cast<std::uint32_t>(bytes_.size()),
            static_cast<std::uint32_t>(token.size()), id};
    bytes_ += token;
    longest_ = std::max(longest_, token.size());
    ++size_;
  }
  slot.id = id;
}

std::size_t TokenTable::slot_of(std::string_view token, std::uint64_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = hash & mask;; i = (i + 1) & mask) {
    const StoredToken& slot = slots_[i];
    if (slot.id < 0) return i;
    if (slot.hash == static_cast<std::uint32_t>(hash >> 32) && slot.length == token.size() &&
        std::memcmp(bytes_.data() + slot.begin, token.data(), token.size()) == 0) {
      return i;
    }
  }
}

std::int32_t TokenTable::find(std::string_view token) const {
  return slots_[slot_of(token, hash_of(token))].id;
}

/// Builds the double array. The children of each node are placed at the first position where all of them fit
/// into free nodes. After a limited number of tries they are placed at the end of the array, which bounds the
/// time of the search.
struct TokenTrie::Builder {
  std::vector<TrieNode>& nodes;
  std::vector<std::uint32_t> next_free, previous_free;  // [nodes], the free nodes as a ring from node 0
  std::vector<std::uint8_t> failures;                   // [nodes], number of failed tries at each node
  std::vector<Subtree> children;

  explicit Builder(std::vector<TrieNode>& all) : nodes(all) { grow(kBytes); }

  void grow(std::size_t size) {
    const std::size_t old = nodes.size();
    nodes.resize(size);
    next_free.resize(size);
    previous_free.resize(size);
    failures.resize(size);
    for (std::size_t i = std::max<std::size_t>(old, 1); i < size; ++i) {
      const auto place = static_cast<std::uint32_t>(i);
      next_free[i] = 0;
      previous_free[i] = previous_free[0];
      next_free[previous_free[0]] = place;
      previous_free[0] = place;
    }
  }

  void take(std::uint32_t place) {
    next_free[previous_free[place]] = next_free[place];
    previous_free[next_free[place]] = previous_free[place];
  }

  static constexpr std::uint8_t kChances = 16;

  [[nodiscard]] bool fits(std::size_t base) const {
    return std::ranges::all_of(children, [&](const Subtree& child) {
      const std::size_t place = base + child.byte;
      return place >= nodes.size() ||
             (place != 0 && nodes[place].parent == kNowhere && failures[place] < kChances);
    });
  }

  /// Returns a base such that the nodes of all `children` are free. Free nodes at which too many tries failed
  /// are not tried again.
  std::uint32_t find_base() {
    constexpr int kTries = 64;
    const std::size_t first = children.front().byte;
    std::uint32_t place = next_free[0];
    for (int i = 0; i < kTries && place != 0; ++i) {
      if (place >= first && fits(place - first)) return static_cast<std::uint32_t>(place - first);
      const std::uint32_t next = next_free[place];
      if (++failures[place] == kChances) take(place);
      place = next;
    }
    return static_cast<std::uint32_t>(nodes.size());
  }

  void list_children(std::span<const std::string_view> keys, const Subtree& parent) {
    children.clear();
    for (std::size_t i = parent.begin; i < parent.end; ++i) {
      const auto byte = static_cast<unsigned char>(keys[i][parent.depth]);
      if (children.empty() || children.back().byte != byte) {
        children.push_back({i, i, parent.depth + 1, byte});
      }
      children.back().end = i + 1;
    }
  }
};

TokenTrie::TokenTrie(const std::vector<TokenEntry>& entries, const TokenTable& table) {
  std::vector<std::string_view> keys;
  keys.reserve(entries.size());
  for (const TokenEntry& entry : entries) {
    if (!entry.token.empty()) keys.push_back(entry.token);
  }
  std::ranges::sort(keys);
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  Builder builder(nodes_);
  std::vector<Subtree> waiting = {{0, keys.size(), 0, 0, kRoot}};
  while (!waiting.empty()) {
    Subtree parent = waiting.back();
    waiting.pop_back();
    if (parent.begin < parent.end && keys[parent.begin].size() == parent.depth) {
      nodes_[parent.node].id = table.find(keys[parent.begin++]);
    }
    if (parent.begin == parent.end) continue;
    builder.list_children(keys, parent);
    const std::uint32_t base = builder.find_base();
    if (base + kBytes > nodes_.size()) builder.grow(base + kBytes);
    nodes_[parent.node].base = base;
    for (Subtree& child : builder.children) {
      child.node = base + child.byte;
      builder.take(child.node);
      nodes_[child.node].parent = parent.node;
      waiting.push_back(child);
    }
  }
}

std::optional<unsigned char> byte_of(std::string_view token) {
  constexpr std::size_t kSize = 6;
  if (token.size() != kSize || !token.starts_with("<0x") || !token.ends_with('>')) return std::nullopt;
  unsigned char byte = 0;
  const char* const stop = token.data() + 5;
  return std::from_chars(stop - 2, stop, byte, 16).ptr == stop ? std::optional(byte) : std::nullopt;
}

Vocabulary::Vocabulary(std::vector<std::string> tokens, std::set<std::int64_t> special,
                       std::vector<std::string> separators, std::string_view mask)
    : tokens_(std::move(tokens)),
      ids_(tokens_.size()),
      special_(std::move(special)),
      mark_(mark_of(tokens_)) {
  // In reverse order, so that the first of several equal tokens sets the id.
  for (std::size_t i = tokens_.size(); i-- > 0;) {
    if (!tokens_[i].empty()) ids_.put(tokens_[i], static_cast<std::int32_t>(i));
  }
  std::set<std::string> unknown = {"[UNK]", "<unk>"};
  for (std::size_t byte = 0x80; byte < kByteCharacters.size(); ++byte) {
    unknown.insert(fmt::format("<0x{:02X}>", byte));
    if (mark_ == "Ġ") unknown.emplace(std::string_view(unicode::Utf8(kByteCharacters.at(byte))));
  }
  for (const std::string& token : tokens_) unknown_.push_back(unknown.contains(token));
  separators.insert(separators.end(), {"[SEP]", "</s>", "<|endoftext|>"});
  for (const std::string& token : separators) {
    if (const auto found = id(token)) separators_.insert(*found);
  }
  special_.insert(separators_.begin(), separators_.end());
  mask_ = id(id(mask) ? mask : id("[MASK]") ? "[MASK]" : "<mask>");
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
  if (token.size() > mark_.size() && token.starts_with(mark_)) token.remove_prefix(mark_.size());
  return std::string(token);
}

std::string Vocabulary::label(std::string_view token, bool strip_markers) const {
  return strip_markers && !is_special(id(token).value_or(-1)) ? plain(token) : std::string(token);
}

std::vector<std::optional<std::size_t>> Vocabulary::words(std::span<const std::string> tokens,
                                                          std::span<const std::int64_t> ids) const {
  const auto continues = [&](std::size_t i) {
    if (mark_.empty()) return false;
    if (mark_ == "##") return tokens[i].starts_with(mark_);
    if (tokens[i].starts_with(mark_) || tokens[i].empty() || tokens[i - 1].empty()) return false;
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
