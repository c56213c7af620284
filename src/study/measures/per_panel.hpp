#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "study/measure.hpp"

namespace attnctl {

/// What depends on the rows of a panel and on the keys that they may attend to alone, such as what even
/// weights would give: made once and kept for the heads that have the same rows.
template <typename T>
class PerPanel {
 public:
  /// `make` gives what belongs to the panel's rows. Valid until the next call.
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
  T other_;                              // of a panel that lacks rows
};

}  // namespace attnctl
