#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "forward/observer.hpp"
#include "input/batch.hpp"
#include "model/config/config.hpp"

namespace attnctl {

/// Which keys a query of a sequence's own attention may attend to, and how many: what even weights would be.
/// The sequence brings no score mask, and keys that are its own.
class VisibleKeys {
 public:
  VisibleKeys() = default;
  VisibleKeys(const AttentionConfig& config, const Sequence& sequence);

  [[nodiscard]] std::size_t count(std::size_t query) const { return rows_[query].count; }
  [[nodiscard]] bool shows(std::size_t query, std::size_t key) const {
    const Row& row = rows_[query];
    return runs_ ? key >= row.run.first && key < row.run.last : finds(row, key);
  }
  /// How many of the keys [first, last) are shown.
  [[nodiscard]] std::size_t count(std::size_t query, std::size_t first, std::size_t last) const {
    const Row& row = rows_[query];
    if (!runs_) return count_among(row, first, last);
    first = std::max(first, row.run.first);
    last = std::min(last, row.run.last);
    return first < last ? last - first : 0;
  }

 private:
  struct Steps {
    std::size_t first = 0, step = 1, count = 0;
  };
  struct Row {
    KeyRange run;                // of kinds that see one
    std::vector<Steps> strides;  // of those that do not
    std::size_t count = 0;
  };
  [[nodiscard]] bool finds(const Row& row, std::size_t key) const;
  [[nodiscard]] std::size_t count_among(const Row& row, std::size_t first, std::size_t last) const;

  bool runs_ = true;                   // each query sees all keys of one range
  std::vector<Row> rows_;              // [n]
  std::vector<std::size_t> shown_;     // [n + 1], of the keys before; empty: the sequence hides none
  std::vector<std::uint8_t> visible_;  // [n] or empty
};

}  // namespace attnctl
