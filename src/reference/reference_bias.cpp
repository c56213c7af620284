#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "reference/reference_math.hpp"

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

/// DeBERTa: near distances as they are, far ones by their logarithm, in float32 as above.
std::size_t row_of(const DisentangledConfig& config, Pair pair) {
  const auto span = static_cast<std::int64_t>(config.span);
  const auto signed_distance = static_cast<std::int64_t>(pair.query) - static_cast<std::int64_t>(pair.key);
  const std::int64_t half = span / 2;
  std::int64_t step = signed_distance;
  if (const std::int64_t far = std::abs(signed_distance); config.logarithmic && far > half) {
    const auto reach =
        static_cast<float>(static_cast<double>(config.max_distance - 1) / static_cast<double>(half));
    float steps = std::log(static_cast<float>(far) / static_cast<float>(half));
    steps = steps / std::log(reach);
    steps = std::ceil(steps * static_cast<float>(half - 1));
    step = static_cast<std::int64_t>(steps) + half;
    if (signed_distance < 0) step = -step;
  }
  step += span;
  if (step < 0) return 0;
  return step < 2 * span ? static_cast<std::size_t>(step) : config.span * 2 - 1;
}

double dot(std::span<const double> x, const OwnedMatrix<double>& rows, std::size_t row, std::size_t head) {
  double sum = 0;
  for (std::size_t c = 0; c < x.size(); ++c) sum += x[c] * rows(row, head * x.size() + c);
  return sum;
}

/// The nearest bfloat16, of two as near the even one.
double rounded_to_bfloat16(double value) {
  if (value == 0) return 0;
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, 8)), exponent - 8);
}

/// The place that ALiBi counts for each key.
std::vector<double> alibi_places(const AlibiConfig& config, const Sequence& sequence) {
  std::vector<double> places(sequence.keys());
  const auto& visible = sequence.key_visible;
  double before = 0;  // keys that are counted
  for (std::size_t j = 0; j < places.size(); ++j) {
    const bool counted = !config.counts_visible || visible.empty() || visible[j] != 0;
    if (counted) places[j] = before++;
    if (config.from_last) places[j] -= static_cast<double>(places.size() - 1);
  }
  return places;
}

}  // namespace

std::vector<double> alibi(const AttentionConfig& config, const Sequence& sequence, std::size_t head) {
  if (!config.alibi) return std::vector<double>(sequence.keys());
  std::vector<double> added = alibi_places(*config.alibi, sequence);
  const double slope = config.alibi->slopes[head];
  for (double& value : added) {
    value = config.alibi->rounded
                ? config.scale * rounded_to_bfloat16(rounded_to_bfloat16(slope) * rounded_to_bfloat16(value))
                : slope * value;
  }
  return added;
}

Distances project_distances(const AttentionConfig& config, const AttentionWeights& weights, Pool& pool) {
  if (!config.disentangled) return {};
  const MatrixView<const float> stored = weights.disentangled.table;
  OwnedMatrix<double> table(stored.rows, stored.cols);
  for (std::size_t r = 0; r < table.rows(); ++r) {
    for (std::size_t c = 0; c < table.cols(); ++c) table(r, c) = stored(r, c);
  }
  table = apply(config.disentangled->norm, weights.disentangled.norm, table.view());
  Distances distances;
  if (config.disentangled->content_to_position)
    distances.keys = apply(weights.disentangled.key, table.view(), pool);
  if (config.disentangled->position_to_content)
    distances.queries = apply(weights.disentangled.query, table.view(), pool);
  return distances;
}

double disentangled_bias(const AttentionConfig& config, const Distances& distances, const HeadPair& pair) {
  if (!config.disentangled) return 0;
  const std::size_t row = row_of(*config.disentangled, pair);
  double bias = 0;
  if (config.disentangled->content_to_position) bias += dot(pair.q, distances.keys, row, pair.head);
  if (config.disentangled->position_to_content) bias += dot(pair.k, distances.queries, row, pair.head);
  return config.scale * bias;
}

double position_bias(const AttentionConfig& config, const AttentionWeights& weights, std::size_t head,
                     Pair pair) {
  double bias = 0;
  if (config.relative_buckets) {
    bias += weights.relative_bias(bucket_of(*config.relative_buckets, pair), head);
  }
  return bias;
}

}  // namespace attnctl::reference
