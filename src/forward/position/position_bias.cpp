#include "forward/position/position_bias.hpp"

#include <algorithm>
#include <cmath>

#include "linalg/gemm.hpp"

namespace attnctl::forward {
namespace {

/// ln(distance / near) / ln(farthest / near) * steps, each operation rounded to float32.
float logarithmic_steps(std::size_t distance, std::size_t near, float whole, std::size_t steps) {
  const float ratio = static_cast<float>(distance) / static_cast<float>(near);
  return std::log(ratio) / whole * static_cast<float>(steps);
}

}  // namespace

std::size_t relative_bucket(const RelativeBuckets& config, std::int64_t distance) {
  const std::size_t buckets = config.bidirectional ? config.buckets / 2 : config.buckets;
  const std::size_t offset = config.bidirectional && distance > 0 ? buckets : 0;
  if (!config.bidirectional && distance > 0) return 0;
  const auto away = static_cast<std::size_t>(distance < 0 ? -distance : distance);
  const std::size_t near = buckets / 2;
  if (away < near) return offset + away;
  const double whole = std::log(static_cast<double>(config.max_distance) / static_cast<double>(near));
  const float steps = logarithmic_steps(away, near, static_cast<float>(whole), buckets - near);
  return offset + std::min(near + static_cast<std::size_t>(steps), buckets - 1);
}

std::size_t disentangled_row(const DisentangledConfig& config, std::int64_t distance) {
  const auto span = static_cast<std::int64_t>(config.span);
  const std::size_t near = config.span / 2;
  const auto away = static_cast<std::size_t>(distance < 0 ? -distance : distance);
  std::int64_t step = distance;
  if (config.logarithmic && away > near) {
    const double reach = static_cast<double>(config.max_distance - 1) / static_cast<double>(near);
    const float whole = std::log(static_cast<float>(reach));
    const float steps = std::ceil(logarithmic_steps(away, near, whole, near - 1)) + static_cast<float>(near);
    step = static_cast<std::int64_t>(distance < 0 ? -steps : steps);
  }
  return static_cast<std::size_t>(std::clamp<std::int64_t>(step + span, 0, 2 * span - 1));
}

PositionBias::PositionBias(const AttentionLayer& layer, const Sequence& sequence, std::size_t head,
                           const Head& own)
    : alibi_(layer.config, sequence, head), queries_(own.q.rows), scale_(layer.config.scale) {
  if (layer.config.relative_buckets) {
    by_distance_.resize(own.q.rows + own.k.rows - 1);
    for (std::size_t at = 0; at < by_distance_.size(); ++at) {
      const auto distance = static_cast<std::int64_t>(at) - static_cast<std::int64_t>(queries_ - 1);
      by_distance_[at] = layer.relative_bias(relative_bucket(*layer.config.relative_buckets, distance), head);
    }
  }
  if (layer.config.disentangled) fill_disentangled(layer, head, own);
}

/// Only the rows of distances that the sequence has are multiplied.
void PositionBias::fill_disentangled(const AttentionLayer& layer, std::size_t head, const Head& own) {
  rows_.resize(own.q.rows + own.k.rows - 1);
  for (std::size_t at = 0; at < rows_.size(); ++at) {
    const auto distance = static_cast<std::int64_t>(queries_ - 1) - static_cast<std::int64_t>(at);
    rows_[at] = static_cast<std::uint32_t>(disentangled_row(*layer.config.disentangled, distance));
  }
  const auto [first, last] = std::minmax_element(rows_.begin(), rows_.end());
  const std::uint32_t lowest = *first;
  const std::size_t count = *last - lowest + 1;
  for (std::uint32_t& row : rows_) row -= lowest;
  const auto multiply = [&](MatrixView<const float> x, MatrixView<const float> positions) {
    if (positions.data == nullptr) return OwnedMatrix<float>();
    OwnedMatrix<float> product(x.rows, count);
    const std::size_t width = layer.config.d_head;
    gemm_nt(x, positions.row_range(lowest, count).col_range(head * width, width), product.view());
    return product;
  };
  content_ = multiply(own.q, layer.positions.keys);
  position_ = multiply(own.k, layer.positions.queries);
}

void PositionBias::add(std::size_t i, KeySteps keys, std::span<float> scores) const {
  alibi_.add(keys, scores);
  const std::size_t nearest = queries_ - 1 - i + keys.first;
  if (!by_distance_.empty()) {
    for (std::size_t t = 0; t < scores.size(); ++t) scores[t] += by_distance_[nearest + t * keys.step];
  }
  if (rows_.empty()) return;
  for (std::size_t t = 0; t < scores.size(); ++t) {
    const std::size_t row = rows_[nearest + t * keys.step];
    double bias = 0;
    if (content_.rows() > 0) bias += double{content_(i, row)};
    if (position_.rows() > 0) bias += double{position_(keys.first + t * keys.step, row)};
    scores[t] += static_cast<float>(bias * scale_);
  }
}

}  // namespace attnctl::forward
