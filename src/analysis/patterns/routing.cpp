#include "analysis/patterns/routing.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace attnctl {

std::uint64_t Routing::memory(const Model& model, const Batch& batch) const {
  std::uint64_t token = 0;
  for (const LayerConfig& layer : model.config().layers) {
    constexpr std::size_t of_route = sizeof(std::size_t) + sizeof(float);
    constexpr std::size_t of_memory = 64;  // bytes of two small allocations
    if (layer.experts.count > 0)
      token += sizeof(ExpertRoute) + of_memory + layer.experts.per_token * of_route;
  }
  std::uint64_t bytes = 0;
  for (const Sequence& sequence : batch.sequences) bytes += 2 * sequence.queries() * token;
  return bytes;
}

void Routing::begin(const Model& /*model*/, const Batch& /*batch*/) {
  found_.clear();
}

void Routing::routing(std::size_t sequence, std::size_t layer, std::span<const ExpertRoute> routes) {
  found_.push_back({sequence, layer, {routes.begin(), routes.end()}});
}

std::vector<LayerRouting> Routing::finish() {
  std::ranges::sort(found_, {}, [](const LayerRouting& one) { return std::tuple(one.input, one.layer); });
  return std::exchange(found_, {});
}

}  // namespace attnctl
