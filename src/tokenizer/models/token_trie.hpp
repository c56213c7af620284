#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace attnctl {

/// A trie of tokens as a double array: one look-up per byte. Safe to share between threads.
class TokenTrie {
 public:
  struct Key {
    std::string_view bytes;  // not empty
    std::int32_t value = 0;  // not negative
  };

  /// `keys` are different and sorted by their bytes.
  explicit TokenTrie(std::span<const Key> keys);

  static constexpr std::uint32_t kRoot = 0;
  static constexpr std::uint32_t kNowhere = 0xFFFFFFFF;

  /// Returns the child of a node for `byte`, or kNowhere.
  [[nodiscard]] std::uint32_t step(std::uint32_t node, char byte) const {
    const std::uint32_t next = nodes_[node].base + static_cast<unsigned char>(byte);
    return nodes_[next].parent == node ? next : kNowhere;
  }
  /// Returns the descendant of a node for `bytes`, or kNowhere.
  [[nodiscard]] std::uint32_t walk(std::uint32_t node, std::string_view bytes) const;
  /// Returns the value of the key that ends at a node, or -1.
  [[nodiscard]] std::int32_t value(std::uint32_t node) const { return nodes_[node].value; }

 private:
  struct Node {
    std::uint32_t base = 0;  // index of the child for byte 0; base + 255 is inside
    std::uint32_t parent = kNowhere;
    std::int32_t value = -1;
  };
  struct Builder;

  std::vector<Node> nodes_;
};

}  // namespace attnctl
