#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "study/state/state_io.hpp"

namespace attnctl {

/// A row of a corpus, behind the random number that decides whether it is drawn.
struct DrawnKey {
  std::uint64_t drawn = 0, block = 0, row = 0;

  [[nodiscard]] bool operator<(const DrawnKey& other) const {
    return std::tie(drawn, block, row) < std::tie(other.drawn, other.block, other.row);
  }
};

/// So many rows of a whole corpus, each set of them as likely as any other: those with the smallest random
/// numbers, which follow from the seed, the block and the row. So neither shards nor the order of merging
/// change what is drawn (bottom-k sampling: Cohen and Kaplan 2007).
class DrawnRows {
 public:
  using Rows = std::map<DrawnKey, std::vector<float>>;

  void set_most(std::size_t rows) { most_ = rows; }
  [[nodiscard]] const Rows& rows() const { return rows_; }
  /// A row from this key on cannot be drawn any more; nullopt: any can.
  [[nodiscard]] std::optional<DrawnKey> end() const;
  void add(const DrawnKey& key, std::vector<float> row);
  void merge(const DrawnRows& other);

  void save(StateWriter& out) const;
  /// `width`: floats of a row.
  void load(StateReader& in, std::size_t width);

 private:
  [[nodiscard]] bool takes(const DrawnKey& key) const;

  std::size_t most_ = 0;
  Rows rows_;
};

/// Those of one block's rows that may be drawn: no more than can be, chosen before the rows are known.
class BlockDraw {
 public:
  BlockDraw() = default;
  /// `end`: DrawnRows::end() of a sample that the block is to be merged into.
  BlockDraw(std::uint64_t seed, std::uint64_t block, std::size_t rows, std::size_t most,
            const std::optional<DrawnKey>& end);

  /// [rows]; nullopt: the row is not drawn.
  [[nodiscard]] const std::vector<std::optional<DrawnKey>>& keys() const { return keys_; }

 private:
  std::vector<std::optional<DrawnKey>> keys_;
};

}  // namespace attnctl
