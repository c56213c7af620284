#include "study/measures/drawn_rows.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/random.hpp"

namespace attnctl {

std::optional<DrawnKey> DrawnRows::end() const {
  if (most_ == 0 || rows_.size() < most_) return std::nullopt;
  return std::prev(rows_.end())->first;
}

bool DrawnRows::takes(const DrawnKey& key) const {
  const auto last = end();
  return most_ > 0 && (!last || key < *last);
}

void DrawnRows::add(const DrawnKey& key, std::vector<float> row) {
  if (!takes(key)) return;
  rows_.emplace(key, std::move(row));
  if (rows_.size() > most_) rows_.erase(std::prev(rows_.end()));
}

void DrawnRows::merge(const DrawnRows& other) {
  most_ = std::max(most_, other.most_);
  for (const auto& [key, row] : other.rows_) {
    if (!takes(key)) return;  // the rows that follow have larger keys
    add(key, row);
  }
}

void DrawnRows::save(StateWriter& out) const {
  out.number(most_);
  out.number(rows_.size());
  for (const auto& [key, row] : rows_) {
    for (const std::uint64_t part : {key.drawn, key.block, key.row}) out.number(part);
    out.floats(row);
  }
}

void DrawnRows::load(StateReader& in, std::size_t width) {
  rows_.clear();
  most_ = in.number();
  const std::size_t count = in.count();
  if (count > most_) in.damaged("more rows of outputs than can be");
  for (std::size_t i = 0; i < count; ++i) {
    DrawnKey key;
    for (std::uint64_t* const part : {&key.drawn, &key.block, &key.row}) *part = in.number();
    if (!rows_.empty() && !(std::prev(rows_.end())->first < key))
      in.damaged("rows of outputs that are not in order");
    rows_.emplace(key, in.floats(width));
  }
}

BlockDraw::BlockDraw(std::uint64_t seed, std::uint64_t block, std::size_t rows, std::size_t most,
                     const std::optional<DrawnKey>& end)
    : keys_(rows) {
  const std::uint64_t of_block = Random(seed, block).next();
  std::vector<DrawnKey> drawn(rows);
  for (std::size_t row = 0; row < rows; ++row) drawn[row] = {Random(of_block, row).next(), block, row};
  std::sort(drawn.begin(), drawn.end());
  drawn.resize(std::min(rows, most));
  for (const DrawnKey& key : drawn) {
    if (!end || key < *end) keys_[key.row] = key;
  }
}

}  // namespace attnctl
