#include "forward/attention/attention.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

#include "forward/attention/attention_rows.hpp"
#include "forward/attention/linear_attention.hpp"
#include "forward/attention/visibility.hpp"
#include "forward/position/position_bias.hpp"
#include "linalg/gemm.hpp"
#include "linalg/kernels/kernels.hpp"

namespace attnctl::forward {
void RowCount::add(std::size_t in_sequence, std::size_t at_query) {
  if (count++ > 0) return;
  sequence = in_sequence;
  query = at_query;
}

std::size_t rows_of_panel(std::size_t wanted, std::size_t keys) {
  constexpr std::size_t panel_elements = std::size_t{1} << 18U;  // 1 MiB of floats
  constexpr std::size_t fewest = 24;                             // below, the products are slow
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
  pattern_.reserve(most_rows, elements);
  if (layer.scores) scores_.reserve(most_rows, elements);
  if (fully_masked_.size() < most_rows) fully_masked_.resize(most_rows);
}

/// One head of one sequence.
class HeadPass {
 public:
  /// `sequence`: of the keys.
  HeadPass(const AttentionLayer& layer, const Sequence& sequence, const Part& part, std::size_t head)
      : layer_(layer),
        part_(part),
        head_(head),
        kv_head_(layer.config.kv_head(head)),
        visibility_(layer.config, sequence, head),
        q_(head_part(layer.q, part.first_query, part.queries, layer.config.query_slice(head),
                     layer.config.d_head)),
        k_(head_part(layer.k, part.first_key, part.keys, kv_head_, layer.config.d_head)),
        v_(head_part(layer.v, part.first_key, part.keys, kv_head_, layer.config.d_value)),
        z_(head_part(layer.z, part.first_query, part.queries, head, layer.config.d_value)),
        position_bias_(layer, sequence, head, {q_, k_}),
        finite_values_(all_finite(v_)) {}

  void run(std::span<Observer* const> observers, PanelBuffers& buffers, HeadReport& report) const {
    const AttentionKind::Rule rule = layer_.config.kind.rule;
    const bool linear = rule == AttentionKind::Rule::linear;
    const bool strided = rule == AttentionKind::Rule::strided;
    const bool patterns = !(linear || strided) || (layer_.patterns && !observers.empty());
    std::optional<LinearHead> sums;
    if (linear) sums.emplace(q_, k_, z_.empty() ? MatrixView<const float>() : v_, visibility_, patterns);
    const std::size_t step = rows_of_panel(layer_.panel_rows, part_.keys);
    if (!linear && !strided) {
      buffers.keys_.pack_transposed(k_);
      if (!z_.empty() && finite_values_) buffers.values_.pack(v_);
    }
    for (std::size_t first = 0; first < part_.queries; first += step) {
      Panel panel{first, std::min(step, part_.queries - first), {}, {}, {}, {}, buffers, report};
      panel.visible = visibility_.of_queries(first, panel.rows);
      panel.masked = std::span(buffers.fully_masked_).first(panel.rows);
      if (patterns) open(panel);
      if (sums) {
        linear_panel(*sums, panel);
      } else if (strided) {
        for (std::size_t r = 0; r < panel.rows; ++r) strided_row(panel, r);
      } else {
        dense_panel(panel);
      }
      const AttentionPanel shown = shown_panel(panel);
      for (Observer* const observer : observers) observer->panel(shown);
    }
  }

 private:
  /// Rows as they are made.
  struct Panel {
    std::size_t first, rows;
    KeyRange visible;
    MatrixView<float> pattern, scores;  // scores are made in place of the pattern where nobody sees them
    std::span<std::uint8_t> masked;
    PanelBuffers& buffers;
    HeadReport& report;
  };

  void open(Panel& panel) const {
    panel.pattern = panel.buffers.pattern_.open(panel.rows, part_.keys, panel.visible);
    panel.scores = panel.pattern;
    if (layer_.scores) panel.scores = panel.buffers.scores_.open(panel.rows, part_.keys, panel.visible);
  }

  void close(const Panel& panel, std::size_t r, KeyRange visible) const {
    panel.buffers.pattern_.close(r, visible);
    if (layer_.scores) panel.buffers.scores_.close(r, visible);
  }

  /// Of kinds that see a range of keys: a few queries at a time go from scores to z while they are in cache,
  /// with products over what these queries see together.
  void dense_panel(const Panel& panel) const {
    constexpr std::size_t strip = 24;  // whole tiles of the kernels
    for (std::size_t r = 0; r < panel.rows; r += strip)
      dense_strip(panel, r, std::min(strip, panel.rows - r));
  }

  void dense_strip(const Panel& panel, std::size_t first, std::size_t rows) const {
    const std::size_t query = panel.first + first;
    const KeyRange range = visibility_.of_queries(query, rows);
    panel.buffers.keys_.multiply(q_.row_range(query, rows), 0, range.first,
                                 panel.scores.row_range(first, rows).col_range(range.first, range.size()),
                                 scale_in_product());
    for (std::size_t r = first; r < first + rows; ++r) {
      const KeyRange own = visibility_.of_query(panel.first + r);
      const std::span<float> scores = panel.scores.row(r).subspan(own.first, own.size());
      close(panel, r, own);
      const KeySteps keys{own.first, 1, own.size()};
      finish_scores(panel.first + r, keys, scores);
      softmax(panel, r, {&keys, 1}, scores, panel.pattern.row(r).subspan(own.first, own.size()));
    }
    if (z_.empty()) return;
    const MatrixView<const float> weights =
        panel.pattern.row_range(first, rows).col_range(range.first, range.size());
    if (finite_values_) {
      panel.buffers.values_.multiply(weights, range.first, 0, z_.row_range(query, rows));
    } else {
      weighted_sum_of_seen(weights, v_.row_range(range.first, range.size()), z_.row_range(query, rows), 0);
    }
  }

  /// Products with the visible keys alone, side by side in a buffer.
  void strided_row(const Panel& panel, std::size_t r) const {
    const std::size_t i = panel.first + r;
    const auto parts = visibility_.strides_of(i);
    std::vector<float>& row = panel.buffers.row_;
    row.resize(parts[0].count + parts[1].count + parts[2].count);
    const auto each_part = [&](const auto& act) {
      std::size_t at = 0;
      for (const KeySteps& part : parts) {
        if (part.count > 0) act(part, std::span(row).subspan(at, part.count));
        at += part.count;
      }
    };
    const auto spread = [&](MatrixView<float> rows, float filler) {
      if (rows.data == nullptr) return;
      const std::span<float> to = rows.row(r);
      std::fill_n(to.begin() + static_cast<std::ptrdiff_t>(panel.visible.first), panel.visible.size(),
                  filler);
      each_part([&](const KeySteps& part, std::span<float> values) {
        for (std::size_t t = 0; t < part.count; ++t) to[part.first + t * part.step] = values[t];
      });
    };
    each_part([&](const KeySteps& part, std::span<float> scores) {
      gemm_nt(q_.row_range(i, 1), rows_of(k_, part), {scores.data(), 1, part.count}, scale_in_product());
      finish_scores(i, part, scores);
    });
    if (layer_.scores) spread(panel.scores, -std::numeric_limits<float>::infinity());
    softmax(panel, r, parts, row, row);
    spread(panel.pattern, 0);
    if (z_.empty()) return;
    std::fill_n(z_.row(i).begin(), z_.cols, 0.0F);
    each_part([&](const KeySteps& part, std::span<float> weights) {
      weighted_sum({weights.data(), 1, part.count}, rows_of(v_, part), z_.row_range(i, 1), 1);
    });
  }

  void linear_panel(LinearHead& head, const Panel& panel) const {
    std::vector<double>& sums = panel.buffers.sums_;
    sums.assign(panel.rows, 1);
    for (std::size_t r = 0; r < panel.rows; ++r) {
      const std::size_t i = panel.first + r;
      const auto sum = head.next(i, z_.empty() ? std::span<float>() : z_.row(i));
      panel.masked[r] = sum ? 0 : 1;
      sums[r] = sum.value_or(1);
      if (!sum) {
        panel.report.fully_masked.add(part_.sequence, i);
      } else if (!std::isfinite(*sum) || *sum == 0) {
        panel.report.non_finite.add(part_.sequence, i);
      }
    }
    if (panel.pattern.data == nullptr) return;
    const KeyRange range = panel.visible;
    head.weights(panel.first, sums, range, panel.pattern.col_range(range.first, range.size()));
    for (std::size_t r = 0; r < panel.rows; ++r) {
      const KeyRange own = visibility_.of_query(panel.first + r);
      close(panel, r, own);
      const std::span<float> weights = panel.pattern.row(r).subspan(own.first, own.size());
      for (std::size_t j = 0; j < weights.size(); ++j) {
        if (!visibility_.shows(own.first + j)) weights[j] = 0;
      }
      if (!layer_.scores) continue;
      const std::span<float> scores = panel.scores.row(r).subspan(own.first, own.size());
      for (std::size_t j = 0; j < weights.size(); ++j) {
        scores[j] = static_cast<float>(std::log(static_cast<double>(weights[j])) + std::log(sums[r]));
      }
    }
  }

  /// 1/sqrt(64) is exact and costs nothing inside the product; 1/sqrt(8) would lose digits there.
  [[nodiscard]] bool scale_is_float() const {
    return static_cast<double>(static_cast<float>(layer_.config.scale)) == layer_.config.scale;
  }
  [[nodiscard]] float scale_in_product() const {
    return scale_is_float() ? static_cast<float>(layer_.config.scale) : 1.0F;
  }

  void finish_scores(std::size_t i, KeySteps keys, std::span<float> scores) const {
    const AttentionConfig& config = layer_.config;
    if (!scale_is_float()) kernels().scale(config.scale, scores);
    if (config.soft_cap > 0) {
      kernels().scale(1 / double{config.soft_cap}, scores);
      kernels().tanh(scores);
      kernels().scale(double{config.soft_cap}, scores);
    }
    position_bias_.add(i, keys, scores);
    visibility_.mask(i, keys, scores);
  }

  /// True if `test(place in the row's scores)` holds for a visible key of query i.
  template <typename Test>
  [[nodiscard]] bool any_visible(std::size_t i, std::span<const KeySteps> keys, const Test& test) const {
    std::size_t place = 0;
    for (const KeySteps& part : keys) {
      for (std::size_t t = 0; t < part.count; ++t, ++place) {
        if (test(place) && visibility_.sees(i, part.first + t * part.step)) return true;
      }
    }
    return false;
  }

  /// Writes the weights of `keys`, whose scores follow one another. Reports a row without a visible key, and
  /// a row that is not finite: NaN if the scores of all visible keys overflowed to -inf.
  void softmax(const Panel& panel, std::size_t r, std::span<const KeySteps> keys,
               std::span<const float> scores, std::span<float> weights) const {
    const std::size_t i = panel.first + r;
    constexpr float lowest = -std::numeric_limits<float>::infinity();
    const bool one_overflowed =
        layer_.scores && any_visible(i, keys, [&](std::size_t place) { return scores[place] == lowest; });
    const bool some_finite =
        layer_.sinks.empty() ? kernels().softmax(scores, weights)
                             : softmax_with_sink(scores, layer_.sinks[head_], panel.buffers.sunk_, weights);
    const bool all_overflowed = !some_finite && any_visible(i, keys, [](std::size_t) { return true; });
    panel.masked[r] = some_finite || all_overflowed ? 0 : 1;
    if (all_overflowed) std::ranges::fill(weights, std::numeric_limits<float>::quiet_NaN());
    if (panel.masked[r] != 0) {
      panel.report.fully_masked.add(part_.sequence, i);
    } else if (!std::isfinite(weights.front())) {  // a NaN among the scores is one in every weight
      panel.report.non_finite.add(part_.sequence, i);
    } else if (one_overflowed) {
      panel.report.infinite_score.add(part_.sequence, i);
    }
  }

  /// z = pattern v + beta z.
  void weighted_sum(MatrixView<const float> pattern, MatrixView<const float> v, MatrixView<float> z,
                    float beta) const {
    if (finite_values_) {
      gemm_nn(pattern, v, z, 1, beta);
    } else {
      weighted_sum_of_seen(pattern, v, z, beta);
    }
  }

  [[nodiscard]] AttentionPanel shown_panel(const Panel& made) const {
    AttentionPanel panel;
    panel.sequence = part_.sequence;
    panel.layer = layer_.layer;
    panel.head = head_;
    panel.kv_head = kv_head_;
    panel.first_query = made.first;
    panel.pattern = made.pattern;
    panel.visible = made.visible;
    if (layer_.scores) panel.scores = made.scores;
    panel.q = q_.row_range(made.first, made.rows);
    panel.k = k_;
    panel.v = v_;
    if (z_.data != nullptr) panel.z = z_.row_range(made.first, made.rows);
    panel.fully_masked = made.masked;
    return panel;
  }

  const AttentionLayer& layer_;
  const Part& part_;
  std::size_t head_;
  std::size_t kv_head_;
  Visibility visibility_;
  MatrixView<const float> q_, k_, v_;
  MatrixView<float> z_;
  PositionBias position_bias_;
  bool finite_values_;
};

HeadReport attend(const AttentionLayer& layer, const Batch& batch, const Block& block, std::size_t head,
                  std::span<Observer* const> observers, PanelBuffers& buffers) {
  HeadReport report;
  for (const Part& part : block.parts) {
    const Sides sides = sides_of(block.component, batch.sequences[part.sequence]);
    HeadPass(layer, sides.keys_of, part, head).run(observers, buffers, report);
  }
  return report;
}

}  // namespace attnctl::forward
