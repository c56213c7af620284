#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "study/state/state_io.hpp"

namespace attnctl::study {

/// The key of a row (query) of the corpus: a random number, then the position of the row. The rows with the
/// smallest keys are drawn.
struct DrawnKey {
  std::uint64_t drawn = 0, block = 0, row = 0;

  [[nodiscard]] auto operator<=>(const DrawnKey&) const = default;  // NOLINT(modernize-use-nullptr)
  auto parts() { return std::tie(drawn, block, row); }
};

/// A uniform random sample of rows from the whole corpus, with the outputs of all heads. The sample keeps the
/// rows with the smallest random numbers. A random number depends only on the seed, the block and the row, so
/// shards and the order of merging do not change the sample (bottom-k sampling: Cohen and Kaplan 2007).
class DrawnRows {
 public:
  using Rows = std::map<DrawnKey, std::vector<float>>;

  void set_capacity(std::size_t rows) { capacity_ = rows; }
  [[nodiscard]] const Rows& rows() const { return rows_; }
  /// Returns the largest key of a full sample: a row with a larger key can no longer be drawn. Returns
  /// nullopt if the sample is not full.
  [[nodiscard]] std::optional<DrawnKey> end() const {
    if (capacity_ == 0 || rows_.size() < capacity_) return std::nullopt;
    return std::prev(rows_.end())->first;
  }
  /// Adds the row if it belongs to the sample so far, and returns whether it was added.
  bool add(const DrawnKey& key, std::vector<float> row);
  void merge(const DrawnRows& other) {
    capacity_ = std::max(capacity_, other.capacity_);
    for (const auto& [key, row] : other.rows_) {
      if (!add(key, row)) return;  // the rows that follow have larger keys
    }
  }
  void save(StateWriter& out) const {
    out.number(capacity_);
    out.number(rows_.size());
    for (const auto& [key, row] : rows_) {
      save_state(out, key);
      out.floats(row);
    }
  }
  /// Reads a state. `width` is the number of floats per row.
  void load(StateReader& in, std::size_t width);

 private:
  std::size_t capacity_ = 0;
  Rows rows_;
};

/// Returns for each row of a block the key with which the row may enter the sample, or nullopt if the row is
/// not drawn, [rows]. Does not need the values of the rows. `capacity` is the size of the sample. `end` is
/// DrawnRows::end() of the sample into which the block will be merged.
[[nodiscard]] std::vector<std::optional<DrawnKey>> draw_rows(std::uint64_t seed, std::uint64_t block,
                                                             std::size_t rows, std::size_t capacity,
                                                             const std::optional<DrawnKey>& end);

/// A selection of evenly spaced rows of a block that fit into a workspace: every s-th row, from row s / 2 on.
/// s is the smallest integer, not below (elements of all rows) / capacity, for which these rows fit. No row
/// is selected if there is no such s.
struct RowSample {
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  RowSample() = default;
  /// `widths` is the number of elements of each row; `capacity` is the number of elements of the workspace.
  RowSample(std::span<const std::size_t> widths, std::size_t capacity);

  /// [rows of the block], index of each row's first element in the workspace; kNone: not selected.
  std::vector<std::size_t> offsets;
  std::size_t size = 0;  // elements of all selected rows
  std::size_t rows = 0;  // number of selected rows
};

}  // namespace attnctl::study
