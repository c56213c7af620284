#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "analysis/head_axes.hpp"
#include "inspect/catalogue.hpp"
#include "inspect/describe.hpp"

namespace attnctl::inspect {
namespace {

/// For each head: the mean weight that queries put on the visible key whose value has the largest L2 norm,
/// and the mean weight that uniform attention puts on this key. If norms are equal, the first key is used.
class LargestValue final : public Analysis, private forward::Observer {
 public:
  using Analysis::Analysis;

  std::vector<forward::Observer*> observers() override { return {this}; }
  std::uint64_t values() const override { return 7 * axes_.heads().size(); }  // 7 columns
  Results finish() override {
    TableRows table{"largest_value", columns_of(kLargestValueColumns, {"rows", "share", "null_mean"})};
    for (const State& state : states_) {
      const bool defined = state.rows > 0 && std::isfinite(state.share);
      const auto rows = static_cast<double>(state.rows);
      table.add(state.rows, defined ? state.share / rows : kUndefined,
                defined ? state.uniform / rows : kUndefined);
    }
    return results_of_heads(input_, "Weight on the key with the largest value (null: uniform attention)",
                            table);
  }

 private:
  struct State {
    std::vector<double> norms;  // [m], squared L2 norm of each value of the current sequence
    double share = 0;           // sum of the weights
    double uniform = 0;         // sum of the uniform weights
    std::size_t rows = 0;
  };

  [[nodiscard]] forward::Needs needs() const override { return {.scores = true, .values = true}; }
  [[nodiscard]] std::uint64_t memory(const model::Model& /*model*/,
                                     const input::Batch& batch) const override {
    return axes_.heads().size() * (sizeof(State) + batch.most_keys() * sizeof(double));
  }
  void begin(const model::Model& /*model*/, const input::Batch& /*batch*/) override {
    states_.assign(axes_.heads().size(), {});
  }
  void panel(const forward::AttentionPanel& panel) override {
    const auto head = axes_.place({panel.layer, panel.head});
    if (!head) return;
    State& state = states_[*head];
    if (panel.first_query == 0) {
      state.norms.assign(panel.v.rows, 0);
      for (std::size_t j = 0; j < panel.v.rows; ++j) {
        for (const float value : panel.v.row(j)) state.norms[j] += double{value} * double{value};
      }
    }
    const forward::KeyRange keys = panel.keys();
    for (std::size_t r = 0; r < panel.pattern.rows; ++r) {
      const std::span<const float> weights = panel.pattern.row(r);
      std::size_t visible = 0;
      std::size_t largest = keys.first;
      for (std::size_t j = keys.first; j < keys.last; ++j) {
        // If the panel has no scores, a weight of 0 marks a hidden key.
        const bool hidden = panel.scores.empty()
                                ? weights[j] == 0
                                : panel.scores(r, j) == -std::numeric_limits<float>::infinity();
        if (hidden) continue;
        if (visible++ == 0 || state.norms[j] > state.norms[largest]) largest = j;
      }
      if (visible == 0) continue;
      state.share += double{weights[largest]};
      state.uniform += 1 / static_cast<double>(visible);
      ++state.rows;
    }
  }

  analysis::HeadAxes axes_{input_.selection.heads};
  std::vector<State> states_;  // [selected heads]
};

}  // namespace

constexpr std::array<Definition, 2> kLargestValueColumns = {
    {{"share", "", "[0, 1]", "null_mean", "mean weight on the visible key of the largest value (L2 norm)",
      "after Kobayashi et al. 2020"},
     {"null_mean", "", "[0, 1]", "", "mean of 1 / visible keys: the share with uniform attention"}}};

std::unique_ptr<Analysis> make_largest_value(const AnalysisInput& input) {
  require_values(input, "largest_value");
  return std::make_unique<LargestValue>(input);
}

}  // namespace attnctl::inspect
