#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/models/token_hash.hpp"

namespace attnctl {

struct TokenEntry {
  std::string token;
  std::int32_t id = 0;
  double score = 0;  // Unigram
};

/// Finds ids of tokens: a hash table with open addressing over one block of bytes. Shared by workers.
class TokenTable {
 public:
  /// Where a token stands more than once, the last one counts. Throws Error(bad_input) where the tokens are
  /// 4 GiB and more.
  explicit TokenTable(const std::vector<TokenEntry>& entries);

  [[nodiscard]] std::optional<std::int32_t> id(std::string_view token) const {
    const std::int32_t found = find(token);
    return found < 0 ? std::nullopt : std::optional(found);
  }
  /// The same with -1 for none.
  [[nodiscard]] std::int32_t find(std::string_view token) const;
  /// How many different tokens there are.
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t longest() const { return longest_; }  // bytes

 private:
  struct Slot {
    std::uint32_t hash = 0;  // its upper half
    std::uint32_t begin = 0;
    std::uint32_t length = 0;
    std::int32_t id = -1;  // -1: free
  };

  /// The slot of a token, or the free one where it belongs.
  [[nodiscard]] std::size_t slot_of(std::string_view token, std::uint64_t hash) const;

  std::string bytes_;
  std::vector<Slot> slots_;  // a power of two, at most half of them taken
  std::size_t size_ = 0;
  std::size_t longest_ = 0;
};

}  // namespace attnctl
