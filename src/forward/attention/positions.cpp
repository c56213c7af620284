#include <algorithm>
#include <bit>
#include <cmath>

#include "forward/attention/attention.hpp"

namespace attnctl::forward {
namespace {

/// Rotates the pairs (j, j + r/2) or (2j, 2j + 1) of a vector.
template <model::RotaryPairing pairing>
void rotate_pairs(std::span<const float> cosine, std::span<const float> sine, float* x) {
  constexpr std::size_t step = pairing == model::RotaryPairing::half ? 1 : 2;
  float* const y = x + (pairing == model::RotaryPairing::half ? cosine.size() : 1);
  for (std::size_t j = 0; j < cosine.size(); ++j) {
    const float first = x[j * step];
    const float second = y[j * step];
    x[j * step] = first * cosine[j] - second * sine[j];
    y[j * step] = second * cosine[j] + first * sine[j];
  }
}

/// Returns ln(distance / near) / whole * steps. `whole` is ln(d / near) for the distance d at which the
/// logarithmic scale ends. Each operation is rounded to float32.
float logarithmic_steps(std::size_t distance, std::size_t near, float whole, std::size_t steps) {
  const float ratio = static_cast<float>(distance) / static_cast<float>(near);
  return std::log(ratio) / whole * static_cast<float>(steps);
}

/// Returns the bfloat16 nearest to a finite number; of two equally near ones the even one.
float round_to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounding = 0x7FFFU + ((bits >> 16U) & 1U);
  return std::bit_cast<float>((bits + rounding) & 0xFFFF0000U);
}

/// Returns the ALiBi term slope * (position of the key) for each key, with the options of AlibiConfig. The
/// term of the paper, slope * (key position - query position) (Press, Smith and Lewis 2022), differs only by
/// a constant per query, so the softmax is the same.
std::vector<float> alibi_terms(const model::AttentionConfig& config, const input::Sequence& sequence,
                               std::size_t head) {
  const model::AlibiConfig& alibi = *config.alibi;
  const float slope = alibi.rounded ? round_to_bfloat16(alibi.slopes[head]) : alibi.slopes[head];
  const bool counts = alibi.counts_visible && !sequence.key_visible.empty();
  std::size_t next = 0;
  std::vector<float> terms(sequence.keys());
  for (std::size_t j = 0; j < terms.size(); ++j) {
    const bool hidden = counts && sequence.key_visible[j] == 0;
    auto position = static_cast<float>(hidden ? 0 : next);
    if (alibi.from_last) position -= static_cast<float>(terms.size() - 1);
    const float bias = slope * (alibi.rounded ? round_to_bfloat16(position) : position);
    if (!hidden) ++next;
    terms[j] = alibi.rounded ? static_cast<float>(config.scale * double{round_to_bfloat16(bias)}) : bias;
  }
  return terms;
}

}  // namespace

void add_sinusoidal(MatrixView<float> x, bool halves) {
  const std::size_t sines = (x.cols + 1) / 2;
  for (std::size_t c = 0; c < x.cols; ++c) {
    const bool is_sine = halves ? c < sines : c % 2 == 0;
    const std::size_t j = halves ? c % sines : c / 2;
    const double wavelength =  // divided by 2 pi
        std::pow(10000.0, static_cast<double>(2 * j) / static_cast<double>(x.cols));
    for (std::size_t p = 0; p < x.rows; ++p) {
      const double angle = static_cast<double>(p) / wavelength;
      x(p, c) += static_cast<float>(is_sine ? std::sin(angle) : std::cos(angle));
    }
  }
}

const RotaryTable& rotary_table(RotaryTables& tables, const model::RotaryConfig& config, std::size_t length) {
  const bool is_long = !config.long_inverse_frequency.empty() && length > config.long_from;
  RotaryTable& table = tables[{&config, is_long}];
  if (table.cosine.rows() >= length) return table;
  const std::vector<float>& inverse = is_long ? config.long_inverse_frequency : config.inverse_frequency;
  table = {{length, inverse.size()}, {length, inverse.size()}};
  for (std::size_t p = 0; p < length; ++p) {
    for (std::size_t j = 0; j < inverse.size(); ++j) {
      const float angle = static_cast<float>(p) * inverse[j];
      table.cosine(p, j) = std::cos(angle) * config.attention_factor;
      table.sine(p, j) = std::sin(angle) * config.attention_factor;
    }
  }
  return table;
}

void rotate(Pool& pool, const model::RotaryConfig& config, const RotaryTable& table, std::size_t d_head,
            MatrixView<float> x) {
  const auto rotate_one = config.pairing == model::RotaryPairing::half
                              ? rotate_pairs<model::RotaryPairing::half>
                              : rotate_pairs<model::RotaryPairing::interleaved>;
  for_rows(pool, x.rows, x.cols, [&](std::size_t p) {
    const auto cosine = table.cosine.view().row(p);
    const auto sine = table.sine.view().row(p);
    for (std::size_t column = 0; column + d_head <= x.cols; column += d_head)
      rotate_one(cosine, sine, x.row(p).data() + column);
  });
}

std::size_t relative_bucket(const model::RelativeBuckets& config, std::int64_t distance) {
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

std::size_t disentangled_row(const model::DisentangledConfig& config, std::int64_t distance) {
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

PositionTables position_tables(Pool& pool, const model::AttentionConfig& config,
                               const model::AttentionWeights& weights, DistanceBuffers& buffers) {
  PositionTables tables{weights.relative_bias, {}, {}};
  if (!config.disentangled) return tables;
  const MatrixView<const float> table = weights.disentangled.table;
  const MatrixView<float> normed = buffers.normed.take(table.rows, table.cols);
  apply_norm(pool, config.disentangled->norm, weights.disentangled.norm, table, normed);
  std::vector<Dense> products;
  const auto add = [&](const model::Linear& linear, Buffer& buffer) {
    return products.emplace_back(Dense{normed, linear, buffer.take(table.rows, linear.out())}).out;
  };
  if (config.disentangled->content_to_position)
    tables.distance_keys = add(weights.disentangled.key, buffers.keys);
  if (config.disentangled->position_to_content)
    tables.distance_queries = add(weights.disentangled.query, buffers.queries);
  run_dense(pool, products);
  return tables;
}

PositionBias::PositionBias(const model::AttentionConfig& config, const PositionTables& tables,
                           const input::Sequence& sequence, std::size_t head, MatrixView<const float> q,
                           MatrixView<const float> k)
    : queries_(q.rows), scale_(config.scale) {
  if (config.alibi) alibi_ = alibi_terms(config, sequence, head);
  if (config.relative_buckets) {
    relative_.resize(q.rows + k.rows - 1);
    for (std::size_t at = 0; at < relative_.size(); ++at) {
      const auto distance = static_cast<std::int64_t>(at) - static_cast<std::int64_t>(queries_ - 1);
      relative_[at] = tables.relative_bias(relative_bucket(*config.relative_buckets, distance), head);
    }
  }
  if (config.disentangled) multiply_distances(config, tables, head, q, k);
}

void PositionBias::multiply_distances(const model::AttentionConfig& config, const PositionTables& tables,
                                      std::size_t head, MatrixView<const float> q,
                                      MatrixView<const float> k) {
  rows_.resize(q.rows + k.rows - 1);
  for (std::size_t at = 0; at < rows_.size(); ++at) {
    const auto distance = static_cast<std::int64_t>(queries_ - 1) - static_cast<std::int64_t>(at);
    rows_[at] = static_cast<std::uint32_t>(disentangled_row(*config.disentangled, distance));
  }
  const auto [first, last] = std::ranges::minmax(rows_);
  const std::size_t lowest = first;
  const std::size_t count = last - first + 1;
  for (std::uint32_t& row : rows_) row -= first;
  const auto multiply = [&](MatrixView<const float> x, MatrixView<const float> table) {
    if (table.data == nullptr) return OwnedMatrix<float>();
    OwnedMatrix<float> product(x.rows, count);
    const std::size_t width = config.d_head;
    linalg::gemm_nt(x, table.row_range(lowest, count).col_range(head * width, width), product.view());
    return product;
  };
  content_ = multiply(q, tables.distance_keys);
  position_ = multiply(k, tables.distance_queries);
}

void PositionBias::add(std::size_t i, KeySteps keys, std::span<float> scores) const {
  if (!alibi_.empty()) {
    for (std::size_t t = 0; t < keys.count; ++t) scores[t] += alibi_[keys.first + t * keys.step];
  }
  const std::size_t nearest = queries_ - 1 - i + keys.first;
  if (!relative_.empty()) {
    for (std::size_t t = 0; t < scores.size(); ++t) scores[t] += relative_[nearest + t * keys.step];
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
