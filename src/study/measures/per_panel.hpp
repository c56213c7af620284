#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "study/measure.hpp"

namespace attnctl {

/// A cache of values that depend only on the rows of a panel and their visible keys, such as uniform
/// baselines. Heads with the same rows share a value.
template <typename T>
class PerPanel {
 public:
  /// Returns the value for the rows of a panel; calls `make` if it is not cached. The reference is valid
  /// until the next call.
  template <typename Make>
  const T& of(const StudyPanel& panel, const Make& make) {
    if (!panel.complete) return other_ = make();
    if (panel.place >= kept_.size()) kept_.resize(panel.place + 1);
    std::vector<Kept>& of_place = kept_[panel.place];
    for (const Kept& kept : of_place) {
      if (kept.first_query == panel.panel.first_query && kept.rows == panel.rows.size()) return kept.value;
    }
    of_place.push_back({panel.panel.first_query, panel.rows.size(), make()});
    return of_place.back().value;
  }
  void clear() { kept_.clear(); }

 private:
  struct Kept {
    std::size_t first_query, rows;
    T value;
  };
  std::vector<std::vector<Kept>> kept_;  // by StudyPanel::place
  T other_;                              // for a panel with missing rows; not cached
};

}  // namespace attnctl
