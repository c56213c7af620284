#include <algorithm>
#include <cmath>
#include <cstdint>

#include "forward/reference_math.hpp"

namespace attnctl::reference {
namespace {

/// T5: half of the buckets are of one position each, the rest grow to max_distance. The logarithm is rounded
/// to float32 where the reference implementation rounds it, for a bucket is one or another.
std::size_t bucket_of(const RelativeBuckets& config, Pair pair) {
  const bool behind = pair.key > pair.query;
  if (behind && !config.bidirectional) return 0;
  const std::size_t side = config.bidirectional ? config.buckets / 2 : config.buckets;
  const std::size_t first = behind ? side : 0;
  const std::size_t distance = behind ? pair.key - pair.query : pair.query - pair.key;
  const std::size_t exact = side / 2;
  if (distance < exact) return first + distance;
  const auto reach =
      static_cast<float>(std::log(static_cast<double>(config.max_distance) / static_cast<double>(exact)));
  float step = std::log(static_cast<float>(distance) / static_cast<float>(exact));
  step = step / reach;
  step = step * static_cast<float>(side - exact);
  return first + std::min(side - 1, exact + static_cast<std::size_t>(step));
}

}  // namespace

double position_bias(const AttentionConfig& config, const AttentionWeights& weights, std::size_t head,
                     Pair pair) {
  double bias = 0;
  if (config.relative_buckets) {
    bias += weights.relative_bias(bucket_of(*config.relative_buckets, pair), head);
  }
  return bias;
}

}  // namespace attnctl::reference
