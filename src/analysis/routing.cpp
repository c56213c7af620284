#include "attnctl/analysis/routing.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace attnctl {

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
