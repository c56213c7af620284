#include "analysis/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"

namespace attnctl::analysis {

/// Returns the larger of a and b, or NaN if one of them is NaN.
static double larger(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? std::numeric_limits<double>::quiet_NaN() : std::max(a, b);
}

forward::Needs CompareObserver::needs() const {
  forward::Needs needs;
  for (const reference::ReferencePass& pass : passes_) {
    for (const reference::ReferenceLayer& layer : pass.layers) {
      needs.scores |= !layer.scores.empty();
      needs.z |= !layer.z.empty();
      needs.output |= layer.output.rows() > 0;
    }
    needs.logits |= pass.logits.rows() > 0;
  }
  return needs;
}

void CompareObserver::compare(const Key& key, MatrixView<const float> got, const OwnedMatrix<double>& want,
                              std::size_t first_row) {
  if (got.cols != want.cols() || first_row + got.rows > want.rows())
    fail(Status::bad_input,
         "the reference array {} has the shape [{}, {}]; the number of rows must be at least {}, and the "
         "number of columns {}",
         key.first, want.rows(), want.cols(), first_row + got.rows, got.cols);
  double largest_difference = 0;
  double largest_value = 1;
  for (std::size_t r = 0; r < got.rows; ++r) {
    for (std::size_t c = 0; c < got.cols; ++c) {
      const double wanted = want(first_row + r, c);
      const auto found = static_cast<double>(got(r, c));  // of masked scores, both are the same infinity
      largest_difference = larger(largest_difference, found == wanted ? 0 : std::abs(found - wanted));
      if (std::isfinite(wanted)) largest_value = std::max(largest_value, std::abs(wanted));
    }
  }
  const std::lock_guard lock(mutex_);
  Comparison& comparison = comparisons_[key];
  comparison.max_difference = larger(comparison.max_difference, largest_difference);
  comparison.largest = std::max(comparison.largest, largest_value);
}

void CompareObserver::panel(const forward::AttentionPanel& panel) {
  const reference::ReferencePass& pass = passes_[panel.sequence];
  if (panel.layer >= pass.layers.size()) return;
  const reference::ReferenceLayer& layer = pass.layers[panel.layer];
  const auto check = [&](const char* name, MatrixView<const float> got,
                         const std::vector<OwnedMatrix<double>>& want) {
    if (panel.head >= want.size() || want[panel.head].rows() == 0 || got.empty()) return;
    compare({name, panel.layer}, got, want[panel.head], panel.first_query);
  };
  check("pattern", panel.pattern, layer.pattern);
  check("scores", panel.scores, layer.scores);
  check("z", panel.z, layer.z);
}

std::vector<Comparison> CompareObserver::finish(const std::string& reference) const {
  std::vector<Comparison> list;
  for (const char* array : {"pattern", "scores", "z", "output", "logits"}) {
    for (const auto& [key, comparison] : comparisons_) {
      if (key.first == array)
        list.push_back({reference, key.first, key.second, comparison.max_difference, comparison.largest});
    }
  }
  return list;
}

}  // namespace attnctl::analysis
