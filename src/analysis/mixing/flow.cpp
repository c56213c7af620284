#include "analysis/mixing/flow.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "analysis/mixing/layered_network.hpp"
#include "analysis/weights/layer_fusion.hpp"
#include "base/error.hpp"
#include "linalg/kernels/kernels.hpp"

namespace attnctl {
namespace {

constexpr double unit = 0x1.0p-50;

std::vector<OwnedMatrix<std::int64_t>> in_units(std::span<const OwnedMatrix<double>> layers) {
  std::vector<OwnedMatrix<std::int64_t>> result;
  for (const OwnedMatrix<double>& layer : layers) {
    OwnedMatrix<std::int64_t>& units = result.emplace_back(layer.rows(), layer.cols());
    for (std::size_t i = 0; i < layer.values().size(); ++i) {
      units.values()[i] = std::llround(layer.values()[i] / unit);
    }
  }
  return result;
}

}  // namespace

void require_flow_length(const Sequence& sequence) {
  if (sequence.queries() <= largest_flow) return;
  fail(Status::limit,
       "input {}: flow of {} tokens, over the limit of {}; shorten the input, or leave flow out of --include",
       escaped(sequence.id), sequence.queries(), largest_flow);
}

OwnedMatrix<double> layered_flows(std::span<const OwnedMatrix<double>> layers,
                                  std::span<const std::size_t> from, Pool& pool) {
  const std::size_t n = layers.front().rows();
  OwnedMatrix<double> flows(from.size(), n);
  const auto is_finite = [](const OwnedMatrix<double>& layer) { return all_finite(layer.values()); };
  if (!std::ranges::all_of(layers, is_finite)) {
    std::ranges::fill(flows.values(), std::numeric_limits<double>::quiet_NaN());
    return flows;
  }
  const std::vector<OwnedMatrix<std::int64_t>> capacities = in_units(layers);
  std::vector<std::optional<LayeredNetwork>> networks(pool.size());  // one per worker
  pool.run(from.size(), [&](std::size_t task, std::size_t worker) {
    if (!networks[worker]) networks[worker].emplace(capacities);
    for (std::size_t to = 0; to < n; ++to) {
      flows(task, to) = static_cast<double>(networks[worker]->max_flow(from[task], to)) * unit;
    }
  });
  return flows;
}

/// The state of one sequence.
struct AttentionFlow::State {
  State(std::size_t n, const ModelConfig& config, const RolloutOptions& options)
      : fusion(n, config, options.fusion, [this, residual = options.residual](OwnedMatrix<double>& fused) {
          add_residual(fused, residual);
          layers.push_back(fused);
        }) {}

  LayerFusion fusion;
  std::vector<OwnedMatrix<double>> layers;  // A', lowest first
};

AttentionFlow::AttentionFlow(RolloutOptions options) : options_(options) {}
AttentionFlow::~AttentionFlow() = default;

std::uint64_t AttentionFlow::memory(const Model& model, const Batch& batch) const {
  const std::uint64_t matrices = 3 * model.config().layers.size() + 4;  // patterns, capacities, residuals
  std::uint64_t bytes = 0;
  for (const Sequence& sequence : batch.sequences)
    bytes += matrices * sequence.queries() * sequence.queries() * sizeof(double);
  return bytes;
}

void AttentionFlow::begin(const Model& model, const Batch& batch) {
  require_own_keys(batch, "flow");
  states_.clear();
  for (const Sequence& sequence : batch.sequences) {
    require_flow_length(sequence);
    states_.push_back(std::make_unique<State>(sequence.queries(), model.config(), options_));
  }
}

void AttentionFlow::panel(const AttentionPanel& panel) {
  states_[panel.sequence]->fusion.add(panel);
}

std::vector<OwnedMatrix<double>> AttentionFlow::finish(std::span<const std::vector<std::size_t>> from,
                                                       Pool& pool) {
  std::vector<OwnedMatrix<double>> result;
  for (std::size_t s = 0; s < states_.size(); ++s) {
    states_[s]->fusion.finish();
    result.push_back(layered_flows(states_[s]->layers, from[s], pool));
    states_[s]->layers.clear();
  }
  return result;
}

}  // namespace attnctl
