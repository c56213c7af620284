#include "study/measures/row_samples.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "base/random.hpp"

namespace attnctl {

std::optional<DrawnKey> DrawnRows::end() const {
  if (capacity_ == 0 || rows_.size() < capacity_) return std::nullopt;
  return std::prev(rows_.end())->first;
}

bool DrawnRows::takes(const DrawnKey& key) const {
  const auto last = end();
  return capacity_ > 0 && (!last || key < *last);
}

void DrawnRows::add(const DrawnKey& key, std::vector<float> row) {
  if (!takes(key)) return;
  rows_.emplace(key, std::move(row));
  if (rows_.size() > capacity_) rows_.erase(std::prev(rows_.end()));
}

void DrawnRows::merge(const DrawnRows& other) {
  capacity_ = std::max(capacity_, other.capacity_);
  for (const auto& [key, row] : other.rows_) {
    if (!takes(key)) return;  // the rows that follow have larger keys
    add(key, row);
  }
}

void DrawnRows::save(StateWriter& out) const {
  out.number(capacity_);
  out.number(rows_.size());
  for (const auto& [key, row] : rows_) {
    save_state(out, key);
    out.floats(row);
  }
}

void DrawnRows::load(StateReader& in, std::size_t width) {
  rows_.clear();
  capacity_ = in.number();
  const std::size_t count = in.count();
  if (count > capacity_) in.damaged("there are too many rows of outputs");
  for (std::size_t i = 0; i < count; ++i) {
    DrawnKey key;
    load_state(in, key);
    if (!rows_.empty() && !(std::prev(rows_.end())->first < key))
      in.damaged("rows of outputs are not in order");
    rows_.emplace(key, in.floats(width));
  }
}

std::vector<std::optional<DrawnKey>> draw_rows(std::uint64_t seed, std::uint64_t block, std::size_t rows,
                                               std::size_t capacity, const std::optional<DrawnKey>& end) {
  const std::uint64_t block_seed = Random(seed, block).next();
  std::vector<DrawnKey> drawn(rows);
  for (std::size_t row = 0; row < rows; ++row) drawn[row] = {Random(block_seed, row).next(), block, row};
  std::sort(drawn.begin(), drawn.end());
  drawn.resize(std::min(rows, capacity));
  std::vector<std::optional<DrawnKey>> keys(rows);
  for (const DrawnKey& key : drawn) {
    if (!end || key < *end) keys[key.row] = key;
  }
  return keys;
}

RowSample::RowSample(std::span<const std::size_t> widths, std::size_t capacity)
    : offsets_(widths.size(), kNone) {
  const std::size_t all = std::accumulate(widths.begin(), widths.end(), std::size_t{0});
  if (all == 0 || capacity == 0) return;
  for (std::size_t step = (all + capacity - 1) / capacity; step / 2 < widths.size(); ++step) {
    std::size_t size = 0;
    for (std::size_t row = step / 2; row < widths.size(); row += step) size += widths[row];
    if (size > capacity) continue;
    for (std::size_t row = step / 2; row < widths.size(); row += step) {
      offsets_[row] = size_;
      size_ += widths[row];
      ++rows_;
    }
    return;
  }
}

}  // namespace attnctl
