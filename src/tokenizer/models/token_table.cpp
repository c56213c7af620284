#include "tokenizer/models/token_table.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "base/error.hpp"

namespace attnctl {

TokenTable::TokenTable(const std::vector<TokenEntry>& entries) {
  std::size_t bytes = 0;
  for (const auto& entry : entries) bytes += entry.token.size();
  if (bytes > std::numeric_limits<std::uint32_t>::max()) {
    fail(Status::bad_input, "got a vocabulary of {} bytes, need less than 4 GiB", bytes);
  }
  bytes_.reserve(bytes);
  slots_.resize(std::bit_ceil(std::max<std::size_t>(entries.size() * 2, 2)));
  for (const auto& entry : entries) {
    const std::uint64_t hash = hash_of(entry.token);
    Slot& slot = slots_[slot_of(entry.token, hash)];
    if (slot.id < 0) {
      slot = {static_cast<std::uint32_t>(hash >> 32), static_cast<std::uint32_t>(bytes_.size()),
              static_cast<std::uint32_t>(entry.token.size()), entry.id};
      bytes_ += entry.token;
      longest_ = std::max(longest_, entry.token.size());
      ++size_;
    }
    slot.id = entry.id;
  }
}

std::size_t TokenTable::slot_of(std::string_view token, std::uint64_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = hash & mask;; i = (i + 1) & mask) {
    const Slot& slot = slots_[i];
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

}  // namespace attnctl
