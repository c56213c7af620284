#include "forward/position_bias.hpp"

#include <algorithm>
#include <cmath>

namespace attnctl::forward {

std::size_t relative_bucket(const RelativeBuckets& config, std::int64_t distance) {
  const std::size_t buckets = config.bidirectional ? config.buckets / 2 : config.buckets;
  const std::size_t offset = config.bidirectional && distance > 0 ? buckets : 0;
  if (!config.bidirectional && distance > 0) return 0;
  const auto away = static_cast<std::size_t>(distance < 0 ? -distance : distance);
  const std::size_t near = buckets / 2;
  if (away < near) return offset + away;
  const float ratio = static_cast<float>(away) / static_cast<float>(near);
  const double span = std::log(static_cast<double>(config.max_distance) / static_cast<double>(near));
  const float share = std::log(ratio) / static_cast<float>(span) * static_cast<float>(buckets - near);
  return offset + std::min(near + static_cast<std::size_t>(share), buckets - 1);
}

PositionBias::PositionBias(const AttentionLayer& layer, const Part& part, std::size_t head)
    : queries_(part.queries) {
  if (!layer.config.relative_buckets) return;
  by_distance_.resize(part.queries + part.keys - 1);
  for (std::size_t at = 0; at < by_distance_.size(); ++at) {
    const auto distance = static_cast<std::int64_t>(at) - static_cast<std::int64_t>(part.queries - 1);
    by_distance_[at] = layer.relative_bias(relative_bucket(*layer.config.relative_buckets, distance), head);
  }
}

void PositionBias::add(std::size_t i, KeySteps keys, std::span<float> scores) const {
  if (by_distance_.empty()) return;
  const float* const of_query = by_distance_.data() + (queries_ - 1 - i) + keys.first;
  for (std::size_t t = 0; t < scores.size(); ++t) scores[t] += of_query[t * keys.step];
}

}  // namespace attnctl::forward
