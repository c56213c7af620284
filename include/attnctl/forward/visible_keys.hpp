#pragma once

#include "attnctl/input/batch.hpp"
#include "attnctl/model/config.hpp"

#include <array>
#include <cstddef>
#include <vector>

namespace attnctl {

/// Which keys a query of a sequence's own attention may attend to, and how many: what even weights would be.
/// The sequence brings no score mask, and keys that are its own.
class VisibleKeys {
 public:
  VisibleKeys() = default;
  VisibleKeys(const AttentionConfig& config, const Sequence& sequence);

  [[nodiscard]] std::size_t count(std::size_t query) const { return rows_[query].count; }
  [[nodiscard]] bool shows(std::size_t query, std::size_t key) const;
  /// How many of the keys [first, last) are shown.
  [[nodiscard]] std::size_t count(std::size_t query, std::size_t first, std::size_t last) const;

 private:
  struct Steps {
    std::size_t first = 0, step = 1, count = 0;
  };
  struct Row {
    std::array<Steps, 3> steps;
    std::size_t count = 0;
  };
  /// Keys of `steps` within [first, last) that the sequence does not hide.
  [[nodiscard]] std::size_t count(const Steps& steps, std::size_t first, std::size_t last) const;

  std::vector<Row> rows_;              // [n]
  std::vector<std::size_t> shown_;     // [n + 1], of the keys before; empty: the sequence hides none
  std::vector<std::uint8_t> visible_;  // [n] or empty
};

}  // namespace attnctl
