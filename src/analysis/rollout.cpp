#include "attnctl/analysis/rollout.hpp"

#include "attnctl/base/error.hpp"
#include "attnctl/linalg/gemm.hpp"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <utility>

namespace attnctl {
namespace {

/// Rounds a weight to a multiple of 2^-40: sums of up to 4096 of them are exact in double, in any order.
double rounded(float weight) {
  constexpr double shift = 6144;  // 1.5 * 2^12: the last bit of a double of this size is 2^-40
  return (static_cast<double>(weight) + shift) - shift;
}

constexpr std::size_t rows_of_lock = 64;

}  // namespace

/// One sequence. Heads of a layer add to `sum` in parallel, a lock a group of rows; a layer begins only after
/// the one below is complete, and its first panel folds that one in.
struct Rollout::State {
  State(std::size_t n, const ModelConfig& config)
      : sum(n, n), rolled(n, n), row_locks((n + rows_of_lock - 1) / rows_of_lock) {
    for (std::size_t i = 0; i < n; ++i) rolled(i, i) = 1;
    for (const LayerConfig& each : config.layers) heads.push_back(each.attention.heads);
  }

  void enter(std::size_t panel_layer) {
    const std::lock_guard guard(layer_lock);
    if (panel_layer == layer) return;
    fold();
    layer = panel_layer;
  }

  void add(const AttentionPanel& panel) {
    for (std::size_t r = 0; r < panel.pattern.rows;) {
      const std::size_t group = (panel.first_query + r) / rows_of_lock;
      const std::lock_guard guard(row_locks[group]);
      for (; r < panel.pattern.rows && (panel.first_query + r) / rows_of_lock == group; ++r) {
        const auto weights = panel.pattern.row(r);
        const auto to = sum.view().row(panel.first_query + r);
        for (std::size_t j = panel.keys().first; j < panel.keys().last; ++j) to[j] += rounded(weights[j]);
      }
    }
  }

  /// rolled = A' rolled, and sum is empty again.
  void fold() {
    for (std::size_t i = 0; i < sum.rows(); ++i) {
      const auto row = sum.view().row(i);
      for (double& value : row) value /= static_cast<double>(heads[layer]);
      row[i] += 1;
      const double total = std::accumulate(row.begin(), row.end(), 0.0);
      for (double& value : row) value /= total;
    }
    OwnedMatrix<double> next(sum.rows(), sum.cols());
    gemm_nn(std::as_const(sum).view(), std::as_const(rolled).view(), next.view());
    rolled = std::move(next);
    std::fill(sum.values().begin(), sum.values().end(), 0.0);
  }

  OwnedMatrix<double> sum;     // of the patterns of the layer's heads so far
  OwnedMatrix<double> rolled;  // of the layers below
  std::size_t layer = 0;
  std::vector<std::size_t> heads;  // [layers]
  std::mutex layer_lock;
  std::vector<std::mutex> row_locks;
};

Rollout::Rollout() = default;
Rollout::~Rollout() = default;

void Rollout::begin(const Model& model, const Batch& batch) {
  states_.clear();
  for (const Sequence& sequence : batch.sequences) {
    if (sequence.key_embeddings.rows() > 0) {
      fail(Status::bad_input,
           "input {}: rollout needs queries and keys that are the same tokens, this one has keys of its own; "
           "leave rollout out of --include",
           escaped(sequence.id));
    }
    states_.push_back(std::make_unique<State>(sequence.queries(), model.config()));
  }
}

void Rollout::panel(const AttentionPanel& panel) {
  State& state = *states_[panel.sequence];
  state.enter(panel.layer);
  state.add(panel);
}

std::vector<OwnedMatrix<double>> Rollout::finish() {
  std::vector<OwnedMatrix<double>> result;
  for (const auto& state : states_) {
    state->fold();
    result.push_back(std::move(state->rolled));
  }
  return result;
}

}  // namespace attnctl
