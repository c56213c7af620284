#include "tokenizer/token_table.hpp"

#include "attnctl/base/error.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

namespace attnctl {
namespace {

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  // __extension__: ISO C++ has no 128-bit integer.
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

}  // namespace

std::uint64_t hash_of(std::string_view bytes) {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15;  // 2^64 over the golden ratio
  constexpr std::uint64_t kOther = 0xD6E8FEB86659FD93;
  std::uint64_t hash = bytes.size() * kOdd;
  while (bytes.size() >= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), 8);
    hash = mixed(hash ^ word ^ kOther, kOdd);
    bytes.remove_prefix(8);
  }
  std::uint64_t rest = 0;
  for (const char c : bytes) rest = rest << 8 | static_cast<unsigned char>(c);
  return mixed(hash ^ rest, kOther);
}

TokenTable::TokenTable(const std::vector<TokenizerFile::Entry>& entries) {
  std::size_t bytes = 0;
  for (const auto& entry : entries) bytes += entry.token.size();  // they are in memory: no overflow
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
