#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace attnctl {

/// Walks over tokens byte by byte: a double array, whose step is one look-up. Shared by workers.
class TokenTrie {
 public:
  struct Key {
    std::string_view bytes;  // not empty
    std::int32_t value = 0;  // not negative
  };

  /// `keys` are sorted by their bytes, each there once.
  explicit TokenTrie(std::span<const Key> keys);

  static constexpr std::uint32_t kRoot = 0;
  static constexpr std::uint32_t kNowhere = 0xFFFFFFFF;

  /// The node behind `byte`, or kNowhere.
  [[nodiscard]] std::uint32_t step(std::uint32_t node, char byte) const {
    const std::uint32_t next = nodes_[node].base + static_cast<unsigned char>(byte);
    return nodes_[next].parent == node ? next : kNowhere;
  }
  /// The node behind all of `bytes`, or kNowhere.
  [[nodiscard]] std::uint32_t walk(std::uint32_t node, std::string_view bytes) const;
  /// The value of the key that ends at a node; -1 where none does.
  [[nodiscard]] std::int32_t value(std::uint32_t node) const { return nodes_[node].value; }

 private:
  struct Node {
    std::uint32_t base = 0;  // where its children begin; base + 255 is inside
    std::uint32_t parent = kNowhere;
    std::int32_t value = -1;
  };
  struct Builder;

  std::vector<Node> nodes_;
};

}  // namespace attnctl
