#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "study/state/state_io.hpp"

namespace attnctl {

/// The key of a corpus row: the random number that decides whether the row is drawn, then its position.
struct DrawnKey {
  std::uint64_t drawn = 0, block = 0, row = 0;

  [[nodiscard]] bool operator<(const DrawnKey& other) const {
    return std::tie(drawn, block, row) < std::tie(other.drawn, other.block, other.row);
  }
};

/// A uniform random sample of rows from the whole corpus. It keeps the rows with the smallest random numbers,
/// which depend only on the seed, the block and the row. Shards and the order of merging therefore do not
/// change the sample (bottom-k sampling: Cohen and Kaplan 2007).
class DrawnRows {
 public:
  using Rows = std::map<DrawnKey, std::vector<float>>;

  void set_most(std::size_t rows) { most_ = rows; }
  [[nodiscard]] const Rows& rows() const { return rows_; }
  /// Returns the first key that can no longer be drawn, or nullopt if any row can still be drawn.
  [[nodiscard]] std::optional<DrawnKey> end() const;
  void add(const DrawnKey& key, std::vector<float> row);
  void merge(const DrawnRows& other);

  void save(StateWriter& out) const;
  /// Reads a state. `width` is the number of floats per row.
  void load(StateReader& in, std::size_t width);

 private:
  [[nodiscard]] bool takes(const DrawnKey& key) const;

  std::size_t most_ = 0;
  Rows rows_;
};

/// The rows of one block that may enter the sample. They are chosen before their values are known.
class BlockDraw {
 public:
  BlockDraw() = default;
  /// `most` is the size of the sample. `end` is DrawnRows::end() of the sample into which the block will be
  /// merged.
  BlockDraw(std::uint64_t seed, std::uint64_t block, std::size_t rows, std::size_t most,
            const std::optional<DrawnKey>& end);

  /// Returns the keys of the rows, [rows]; nullopt: the row is not drawn.
  [[nodiscard]] const std::vector<std::optional<DrawnKey>>& keys() const { return keys_; }

 private:
  std::vector<std::optional<DrawnKey>> keys_;
};

}  // namespace attnctl
