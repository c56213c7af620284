#include "forward/attention.hpp"

#include "attnctl/linalg/gemm.hpp"
#include "attnctl/linalg/kernels.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "forward/visibility.hpp"

namespace attnctl::forward {
namespace {

bool all_finite(MatrixView<const float> values) {
  constexpr std::uint32_t exponent = 0x7F800000U;
  for (std::size_t r = 0; r < values.rows; ++r) {
    std::uint32_t found = 0;
    for (const float value : values.row(r)) {
      found |= static_cast<std::uint32_t>((std::bit_cast<std::uint32_t>(value) & exponent) == exponent);
    }
    if (found != 0) return false;
  }
  return true;
}

/// z = pattern v over the keys of weight above zero alone: 0 times NaN of a hidden key must not leak.
void weighted_sum_of_seen(MatrixView<const float> pattern, MatrixView<const float> v, MatrixView<float> z) {
  for (std::size_t i = 0; i < pattern.rows; ++i) {
    const std::span<float> sum = z.row(i);
    std::fill(sum.begin(), sum.end(), 0.0F);
    for (std::size_t j = 0; j < pattern.cols; ++j) {
      const float weight = pattern(i, j);
      if (weight == 0) continue;
      for (std::size_t c = 0; c < v.cols; ++c) sum[c] += weight * v(j, c);
    }
  }
}

void fill_outside(std::span<float> row, KeyRange range, float value) {
  std::fill_n(row.begin(), range.first, value);
  std::fill(row.begin() + static_cast<std::ptrdiff_t>(range.last), row.end(), value);
}

/// The part of a matrix of many heads that is one head's in one sequence.
template <typename T>
MatrixView<T> head_part(MatrixView<T> all, std::size_t first_row, std::size_t rows, std::size_t head,
                        std::size_t width) {
  if (all.data == nullptr) return {};
  return all.row_range(first_row, rows).col_range(head * width, width);
}

}  // namespace

void RowCount::add(std::size_t in_sequence, std::size_t at_query) {
  if (count++ > 0) return;
  sequence = in_sequence;
  query = at_query;
}

std::size_t rows_of_panel(std::size_t wanted, std::size_t keys) {
  constexpr std::size_t panel_elements = std::size_t{1} << 18U;  // 1 MiB of floats
  constexpr std::size_t fewest = 16;                             // below, the products are slow
  return std::min(wanted, std::max(fewest, panel_elements / std::max<std::size_t>(keys, 1)));
}

void PanelBuffers::reserve(const Block& block, const AttentionLayer& layer) {
  std::size_t elements = 0;
  std::size_t most_rows = 0;
  for (const Part& part : block.parts) {
    const std::size_t rows = std::min(part.queries, rows_of_panel(layer.panel_rows, part.keys));
    elements = std::max(elements, rows * part.keys);
    most_rows = std::max(most_rows, rows);
  }
  if (pattern_.size() < elements) pattern_.resize(elements);
  if (layer.scores && scores_.size() < elements) scores_.resize(elements);
  if (fully_masked_.size() < most_rows) fully_masked_.resize(most_rows);
}

/// One head of one sequence.
class HeadPass {
 public:
  HeadPass(const AttentionLayer& layer, const Sequence& sequence, const Part& part, std::size_t head)
      : layer_(layer),
        part_(part),
        head_(head),
        kv_head_(head / (layer.config.heads / layer.config.kv_heads)),
        visibility_(layer.config, sequence, head),
        q_(head_part(layer.q, part.first_query, part.queries, head, layer.config.d_head)),
        k_(head_part(layer.k, part.first_key, part.keys, kv_head_, layer.config.d_head)),
        v_(head_part(layer.v, part.first_key, part.keys, kv_head_, layer.config.d_value)),
        z_(head_part(layer.z, part.first_query, part.queries, head, layer.config.d_value)),
        finite_values_(all_finite(v_)) {}

  void run(std::span<Observer* const> observers, PanelBuffers& buffers, HeadReport& report) const {
    const std::size_t step = rows_of_panel(layer_.panel_rows, part_.keys);
    for (std::size_t first = 0; first < part_.queries; first += step) {
      const AttentionPanel panel = compute(first, std::min(step, part_.queries - first), buffers, report);
      for (Observer* const observer : observers) observer->panel(panel);
    }
  }

 private:
  AttentionPanel compute(std::size_t first, std::size_t rows, PanelBuffers& buffers,
                         HeadReport& report) const {
    const KeyRange range = visibility_.of_queries(first, rows);
    const MatrixView<float> pattern(buffers.pattern_.data(), rows, part_.keys);
    const MatrixView<float> scores(layer_.scores ? buffers.scores_.data() : pattern.data, rows, part_.keys);
    const std::span<std::uint8_t> masked(buffers.fully_masked_.data(), rows);
    gemm_nt(q_.row_range(first, rows), k_.row_range(range.first, range.size()),
            scores.col_range(range.first, range.size()),
            scale_is_float() ? static_cast<float>(layer_.config.scale) : 1.0F);
    for (std::size_t r = 0; r < rows; ++r) {
      masked[r] = softmax_row(first + r, scores.row(r), pattern.row(r), report) ? 0 : 1;
    }
    if (z_.data != nullptr) {
      const MatrixView<const float> seen = pattern.col_range(range.first, range.size());
      const MatrixView<const float> values = v_.row_range(range.first, range.size());
      if (finite_values_) {
        gemm_nn(seen, values, z_.row_range(first, rows));
      } else {
        weighted_sum_of_seen(seen, values, z_.row_range(first, rows));
      }
    }
    return panel_of(first, pattern, scores, masked);
  }

  /// 1/sqrt(64) is exact and costs nothing inside the product; 1/sqrt(8) would lose digits there.
  [[nodiscard]] bool scale_is_float() const {
    return static_cast<double>(static_cast<float>(layer_.config.scale)) == layer_.config.scale;
  }

  /// Masks and normalises the row of query i; false where no key is visible.
  bool softmax_row(std::size_t i, std::span<float> scores, std::span<float> pattern,
                   HeadReport& report) const {
    const KeyRange range = visibility_.of_query(i);
    const std::span<float> seen = scores.subspan(range.first, range.size());
    if (!scale_is_float()) kernels().scale(layer_.config.scale, seen);
    visibility_.mask(i, range, seen);
    if (layer_.scores) fill_outside(scores, range, -std::numeric_limits<float>::infinity());
    fill_outside(pattern, range, 0);
    const std::span<float> weights = pattern.subspan(range.first, range.size());
    const bool some_visible = kernels().softmax(seen, weights);
    if (!some_visible) {
      report.fully_masked.add(part_.sequence, i);
    } else if (!std::isfinite(weights.front())) {  // a NaN among the scores is one in every weight
      report.non_finite.add(part_.sequence, i);
    }
    return some_visible;
  }

  AttentionPanel panel_of(std::size_t first, MatrixView<const float> pattern, MatrixView<const float> scores,
                          std::span<const std::uint8_t> masked) const {
    AttentionPanel panel;
    panel.sequence = part_.sequence;
    panel.layer = layer_.layer;
    panel.head = head_;
    panel.kv_head = kv_head_;
    panel.first_query = first;
    panel.pattern = pattern;
    if (layer_.scores) panel.scores = scores;
    panel.q = q_.row_range(first, pattern.rows);
    panel.k = k_;
    panel.v = v_;
    if (z_.data != nullptr) panel.z = z_.row_range(first, pattern.rows);
    panel.fully_masked = masked;
    return panel;
  }

  const AttentionLayer& layer_;
  const Part& part_;
  std::size_t head_;
  std::size_t kv_head_;
  Visibility visibility_;
  MatrixView<const float> q_, k_, v_;
  MatrixView<float> z_;
  bool finite_values_;
};

HeadReport attend(const AttentionLayer& layer, const Batch& batch, const Block& block, std::size_t head,
                  std::span<Observer* const> observers, PanelBuffers& buffers) {
  HeadReport report;
  for (const Part& part : block.parts) {
    HeadPass(layer, batch.sequences[part.sequence], part, head).run(observers, buffers, report);
  }
  return report;
}

}  // namespace attnctl::forward
