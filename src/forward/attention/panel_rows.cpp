#include "forward/attention/panel_rows.hpp"

#include <algorithm>

namespace attnctl::forward {

void PanelRows::reserve(std::size_t rows, std::size_t elements) {
  if (values_.size() < elements) {
    values_.resize(elements);
    keys_ = 0;
  }
  if (written_.size() < rows) {
    written_.resize(rows);
    keys_ = 0;
  }
}

MatrixView<float> PanelRows::open(std::size_t rows, std::size_t keys, KeyRange written) {
  if (keys != keys_) {  // rows of another length lie elsewhere
    filled_ = 0;
    keys_ = keys;
  }
  for (; filled_ < rows; ++filled_) {
    fill(filled_, {0, keys});
    written_[filled_] = {};
  }
  opened_ = written;
  for (std::size_t r = 0; r < rows; ++r) {
    const KeyRange before = written_[r];
    fill(r, {before.first, std::min(before.last, written.first)});
    fill(r, {std::max(before.first, written.last), before.last});
    written_[r] = written;
  }
  return {values_.data(), rows, keys};
}

void PanelRows::close(std::size_t r, KeyRange visible) {
  fill(r, {opened_.first, visible.first});
  fill(r, {visible.last, opened_.last});
  written_[r] = visible;
}

void PanelRows::fill(std::size_t r, KeyRange range) {
  if (range.first >= range.last) return;
  std::fill_n(values_.begin() + static_cast<std::ptrdiff_t>(r * keys_ + range.first), range.size(), filler_);
}

}  // namespace attnctl::forward
