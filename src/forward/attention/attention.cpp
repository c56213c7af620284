#include "forward/attention/attention.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "linalg/kernels/kernels.hpp"

namespace attnctl::forward {
namespace {

bool all_finite(MatrixView<const float> values) {
  for (std::size_t r = 0; r < values.rows; ++r) {
    if (!linalg::kernels().all_finite(values.row(r))) return false;
  }
  return true;
}

/// Computes z += pattern v. Skips keys whose weight is zero, so the values of hidden keys may be NaN.
void add_visible_values(MatrixView<const float> pattern, MatrixView<const float> v, MatrixView<float> z) {
  for (std::size_t i = 0; i < pattern.rows; ++i) {
    const std::span<float> sum = z.row(i);
    for (std::size_t j = 0; j < pattern.cols; ++j) {
      const float weight = pattern(i, j);
      if (weight == 0) continue;
      for (std::size_t c = 0; c < v.cols; ++c) sum[c] += weight * v(j, c);
    }
  }
}

/// Writes the weights of `scores` in a softmax over them and `sink`. Returns false if all scores are -inf.
bool softmax_with_sink(std::span<const float> scores, float sink, std::vector<float>& workspace,
                       std::span<float> weights) {
  const bool some_visible = std::ranges::any_of(
      scores, [](float score) { return score != -std::numeric_limits<float>::infinity(); });
  workspace.assign(scores.begin(), scores.end());
  workspace.push_back(sink);
  linalg::kernels().softmax(workspace, workspace);
  std::copy_n(workspace.begin(), weights.size(), weights.begin());
  return some_visible;
}

MatrixView<const float> rows_of(MatrixView<const float> all, KeySteps rows) {
  return {all.data + rows.first * all.stride, rows.count, all.cols, rows.step * all.stride};
}

/// Returns the columns of one head in the rows of one sequence. Returns an empty view if the matrix is empty.
template <typename T>
MatrixView<T> head_view(MatrixView<T> all, std::size_t first_row, std::size_t rows, std::size_t head,
                        std::size_t width) {
  if (all.data == nullptr) return {};
  return all.row_range(first_row, rows).col_range(head * width, width);
}

double linear_feature(float x) {
  const auto wide = static_cast<double>(x);
  return wide > 0 ? wide + 1 : std::exp(wide);
}

/// Linear attention of one head in one sequence, with phi(x) = elu(x) + 1. z is computed from running sums of
/// phi(k) v^T and phi(k) in float64, in time linear in the number of tokens. Patterns, if requested, take
/// quadratic time. With a causal mask, the sums for query i include only the keys up to i.
class LinearHead {
 public:
  /// `v` is empty if z is not needed. `patterns` must be true if weights() is called.
  LinearHead(MatrixView<const float> q, MatrixView<const float> k, MatrixView<const float> v,
             const Visibility& visibility, bool patterns)
      : q_(q),
        k_(k),
        v_(v),
        visibility_(visibility),
        key_sums_(k.cols),
        products_(k.cols * v.cols),
        total_(v.cols) {
    if (!patterns) return;
    key_features_.reserve(k.rows * k.cols);
    for (std::size_t j = 0; j < k.rows; ++j) {
      for (const float x : k.row(j)) key_features_.push_back(static_cast<float>(linear_feature(x)));
    }
  }

  /// Writes z [v] of query i, unless `z` is empty. Must be called for i = 0, 1, 2, ... Returns the sum of
  /// phi(q) phi(k)^T over the visible keys. If no key is visible, writes zeros and returns nullopt.
  std::optional<double> next(std::size_t i, std::span<float> z) {
    const std::size_t last = visibility_.of_query(i).last;
    for (; added_ < last; ++added_) add_key(added_);
    std::fill(total_.begin(), total_.end(), 0.0);
    double sum = 0;
    for (std::size_t c = 0; c < q_.cols; ++c) {
      const double feature = linear_feature(q_(i, c));
      sum += feature * key_sums_[c];
      const double* const row = products_.data() + c * v_.cols;
      for (std::size_t e = 0; e < total_.size(); ++e) total_[e] += feature * row[e];
    }
    for (std::size_t e = 0; e < z.size(); ++e) z[e] = any_ ? static_cast<float>(total_[e] / sum) : 0.0F;
    return any_ ? std::optional(sum) : std::nullopt;
  }

  /// Writes phi(q) phi(k)^T / sum for the queries first, first + 1, ... and the keys of `range` to out [sums,
  /// keys of range]. `sums` are the results of next(), or 1 for nullopt. Does not apply masks.
  void weights(std::size_t first, std::span<const double> sums, KeyRange range, MatrixView<float> out) {
    query_features_.clear();
    for (std::size_t r = 0; r < sums.size(); ++r) {
      // The division comes before the rounding to float32, so that very large and very small values stay in
      // range.
      for (const float x : q_.row(first + r))
        query_features_.push_back(static_cast<float>(linear_feature(x) / sums[r]));
    }
    const MatrixView<const float> queries(query_features_.data(), sums.size(), q_.cols);
    const MatrixView<const float> keys(key_features_.data(), k_.rows, k_.cols);
    linalg::gemm_nt(queries, keys.row_range(range.first, range.size()), out);
  }

 private:
  void add_key(std::size_t j) {
    if (!visibility_.shows(j)) return;
    any_ = true;
    for (std::size_t c = 0; c < k_.cols; ++c) {
      const double feature = linear_feature(k_(j, c));
      key_sums_[c] += feature;
      double* const row = products_.data() + c * v_.cols;
      for (std::size_t e = 0; e < v_.cols; ++e) row[e] += feature * static_cast<double>(v_(j, e));
    }
  }

  MatrixView<const float> q_, k_, v_;
  const Visibility& visibility_;
  std::size_t added_ = 0;                    // the visible keys among [0, added_) are in the sums
  bool any_ = false;                         // true after a visible key was added
  std::vector<double> key_sums_, products_;  // [k], [k, v]
  std::vector<double> total_;                // [v], for one query
  std::vector<float> key_features_;          // [m, k]; empty without patterns
  std::vector<float> query_features_;        // [rows, k], for one panel
};

}  // namespace

void RowWarning::add(const RowWarning& later) {
  const std::uint64_t total = count + later.count;
  if (count == 0) *this = later;
  count = total;
}

std::size_t rows_of_panel(std::size_t wanted, std::size_t keys) {
  constexpr std::size_t kPanelElements = std::size_t{1} << 18U;  // 1 MiB of floats
  constexpr std::size_t kFewestRows = 24;                        // with fewer rows, the products are slow
  return std::min(wanted, std::max(kFewestRows, kPanelElements / std::max<std::size_t>(keys, 1)));
}

void PanelRows::reserve(std::size_t rows, std::size_t elements) {
  if (values_.size() >= elements && written_.size() >= rows) return;
  values_.resize(std::max(values_.size(), elements));
  written_.resize(std::max(written_.size(), rows));
  keys_ = 0;
}

MatrixView<float> PanelRows::open(std::size_t rows, std::size_t keys, KeyRange written) {
  if (keys != keys_) {  // the length of a row changes, so the old values are in wrong places
    std::ranges::fill(written_, KeyRange{0, keys});
    keys_ = keys;
  }
  opened_ = written;
  for (std::size_t r = 0; r < rows; ++r) {
    const KeyRange before = written_[r];
    fill(r, {before.first, std::min(before.last, written.first)});
    fill(r, {std::max(before.first, written.last), before.last});
    written_[r] = written;
  }
  return {values_.data(), rows, keys};
}

void PanelRows::close(std::size_t r, KeyRange visible) {
  fill(r, {opened_.first, visible.first});
  fill(r, {visible.last, opened_.last});
  written_[r] = visible;
}

void PanelRows::fill(std::size_t r, KeyRange range) {
  if (range.first >= range.last) return;
  std::fill_n(values_.begin() + static_cast<std::ptrdiff_t>(r * keys_ + range.first), range.size(), filler_);
}

void PanelBuffers::reserve(const Block& block, const AttentionLayer& layer) {
  std::size_t elements = 0;
  std::size_t most_rows = 0;
  for (const BlockSequence& part : block.sequences) {
    const std::size_t rows = std::min(part.queries, rows_of_panel(layer.panel_rows, part.keys));
    elements = std::max(elements, rows * part.keys);
    most_rows = std::max(most_rows, rows);
  }
  pattern.reserve(most_rows, elements);
  if (layer.scores) scores.reserve(most_rows, elements);
  if (fully_masked.size() < most_rows) fully_masked.resize(most_rows);
}

/// The attention of one head in one sequence.
class HeadPass {
 public:
  HeadPass(const AttentionLayer& layer, const input::Sequence& keys_of, const BlockSequence& place,
           std::size_t head)
      : layer_(layer),
        place_(place),
        head_(head),
        visibility_(layer.config, keys_of, head),
        q_(head_view(layer.q, place.first_query, place.queries, layer.config.query_slice(head),
                     layer.config.d_head)),
        k_(head_view(layer.k, place.first_key, place.keys, layer.config.kv_head(head), layer.config.d_head)),
        v_(head_view(layer.v, place.first_key, place.keys, layer.config.kv_head(head), layer.config.d_value)),
        z_(head_view(layer.z, place.first_query, place.queries, head, layer.config.d_value)),
        position_bias_(layer.config, layer.positions, keys_of, head, q_, k_),
        finite_values_(all_finite(v_)) {}

  void run(std::span<Observer* const> observers, PanelBuffers& buffers, RowWarnings& warnings) const {
    const model::AttentionKind::Rule rule = layer_.config.kind.rule;
    const bool linear = rule == model::AttentionKind::Rule::linear;
    const bool strided = rule == model::AttentionKind::Rule::strided;
    const bool patterns = !(linear || strided) || (layer_.patterns && !observers.empty());
    std::optional<LinearHead> sums;
    if (linear) sums.emplace(q_, k_, z_.empty() ? MatrixView<const float>() : v_, visibility_, patterns);
    const std::size_t step = rows_of_panel(layer_.panel_rows, place_.keys);
    if (!linear && !strided) {
      buffers.keys.pack_transposed(k_);
      if (!z_.empty() && finite_values_) buffers.values.pack(v_);
    }
    for (std::size_t first = 0; first < place_.queries; first += step) {
      PanelWork panel{first, std::min(step, place_.queries - first), {}, {}, {}, {}, buffers, warnings};
      panel.visible = visibility_.of_queries(first, panel.rows);
      panel.fully_masked = std::span(buffers.fully_masked).first(panel.rows);
      if (patterns) {
        panel.pattern = buffers.pattern.open(panel.rows, place_.keys, panel.visible);
        panel.scores =
            layer_.scores ? buffers.scores.open(panel.rows, place_.keys, panel.visible) : panel.pattern;
      }
      if (sums) {
        linear_panel(*sums, panel);
      } else if (strided) {
        for (std::size_t r = 0; r < panel.rows; ++r) strided_row(panel, r);
      } else {
        constexpr std::size_t kStrip = 24;  // number of rows; a multiple of the rows of a kernel tile
        for (std::size_t r = 0; r < panel.rows; r += kStrip)
          dense_strip(panel, r, std::min(kStrip, panel.rows - r));
      }
      const AttentionPanel result = finished(panel);
      for (Observer* const observer : observers) observer->panel(result);
    }
  }

 private:
  struct PanelWork {
    std::size_t first, rows;
    KeyRange visible;
    MatrixView<float> pattern, scores;  // the same memory if no observer needs the scores
    std::span<std::uint8_t> fully_masked;
    PanelBuffers& buffers;
    RowWarnings& warnings;
  };

  void close(const PanelWork& panel, std::size_t r, KeyRange visible) const {
    panel.buffers.pattern.close(r, visible);
    if (layer_.scores) panel.buffers.scores.close(r, visible);
  }

  /// Computes a few rows of a panel, for all kinds of attention except strided and linear. The products use
  /// one range of keys, which contains all keys that these queries see. Only a few rows are computed at a
  /// time, so that their scores stay in the cache until z is computed.
  void dense_strip(const PanelWork& panel, std::size_t first, std::size_t rows) const {
    const std::size_t query = panel.first + first;
    const KeyRange range = visibility_.of_queries(query, rows);
    panel.buffers.keys.multiply(q_.row_range(query, rows), 0, range.first,
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
      panel.buffers.values.multiply(weights, range.first, 0, z_.row_range(query, rows));
    } else {
      for (std::size_t r = query; r < query + rows; ++r) std::ranges::fill(z_.row(r), 0.0F);
      add_visible_values(weights, v_.row_range(range.first, range.size()), z_.row_range(query, rows));
    }
  }

  /// Computes row r of a panel with strided attention, only from the keys of strides_of(), whose scores are
  /// stored next to each other. Masks may hide some of these keys.
  void strided_row(const PanelWork& panel, std::size_t r) const {
    const std::size_t i = panel.first + r;
    const auto strides = visibility_.strides_of(i);
    std::vector<float>& row = panel.buffers.strided_row;
    row.resize(strides[0].count + strides[1].count + strides[2].count);
    const auto for_each_stride = [&](const auto& act) {
      std::size_t at = 0;
      for (const KeySteps& keys : strides) {
        if (keys.count > 0) act(keys, std::span(row).subspan(at, keys.count));
        at += keys.count;
      }
    };
    const auto spread = [&](MatrixView<float> rows, float filler) {
      if (rows.data == nullptr) return;
      const std::span<float> to = rows.row(r);
      std::fill_n(to.begin() + static_cast<std::ptrdiff_t>(panel.visible.first), panel.visible.size(),
                  filler);
      for_each_stride([&](const KeySteps& keys, std::span<float> values) {
        for (std::size_t t = 0; t < keys.count; ++t) to[keys.first + t * keys.step] = values[t];
      });
    };
    for_each_stride([&](const KeySteps& keys, std::span<float> scores) {
      linalg::gemm_nt(q_.row_range(i, 1), rows_of(k_, keys), MatrixView<float>(scores.data(), 1, keys.count),
                      scale_in_product());
      finish_scores(i, keys, scores);
    });
    if (layer_.scores) spread(panel.scores, -std::numeric_limits<float>::infinity());
    softmax(panel, r, strides, row, row);
    spread(panel.pattern, 0);
    if (z_.empty()) return;
    std::ranges::fill(z_.row(i), 0.0F);
    for_each_stride([&](const KeySteps& keys, std::span<float> weights) {
      const MatrixView<const float> row_weights(weights.data(), 1, keys.count);
      if (finite_values_) {
        linalg::gemm_nn(row_weights, rows_of(v_, keys), z_.row_range(i, 1), 1, 1);
      } else {
        add_visible_values(row_weights, rows_of(v_, keys), z_.row_range(i, 1));
      }
    });
  }

  void linear_panel(LinearHead& head, const PanelWork& panel) const {
    std::vector<double>& sums = panel.buffers.sums;
    sums.assign(panel.rows, 1);
    for (std::size_t r = 0; r < panel.rows; ++r) {
      const std::size_t i = panel.first + r;
      const auto sum = head.next(i, z_.empty() ? std::span<float>() : z_.row(i));
      panel.fully_masked[r] = sum ? 0 : 1;
      sums[r] = sum.value_or(1);
      if (!sum) {
        panel.warnings.fully_masked.add(warning_at(i));
      } else if (!std::isfinite(*sum) || *sum == 0) {
        panel.warnings.non_finite.add(warning_at(i));
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
      for (std::size_t j = 0; j < weights.size(); ++j)
        scores[j] = static_cast<float>(std::log(static_cast<double>(weights[j])) + std::log(sums[r]));
    }
  }

  /// Returns true if the scale is exact in float32, so that the product can apply it. 1/sqrt(64) is exact;
  /// 1/sqrt(8) would be rounded.
  [[nodiscard]] bool scale_is_float() const {
    return static_cast<double>(static_cast<float>(layer_.config.scale)) == layer_.config.scale;
  }
  [[nodiscard]] float scale_in_product() const {
    return scale_is_float() ? static_cast<float>(layer_.config.scale) : 1.0F;
  }

  void finish_scores(std::size_t i, KeySteps keys, std::span<float> scores) const {
    const model::AttentionConfig& config = layer_.config;
    if (!scale_is_float()) linalg::kernels().scale(config.scale, scores);
    if (config.soft_cap > 0) {
      linalg::kernels().scale(1 / double{config.soft_cap}, scores);
      linalg::kernels().tanh(scores);
      linalg::kernels().scale(double{config.soft_cap}, scores);
    }
    position_bias_.add(i, keys, scores);
    visibility_.mask(i, keys, scores);
  }

  /// Returns true if query i sees one of `keys` for which test(n) is true; n counts the keys from 0.
  template <typename Test>
  [[nodiscard]] bool any_visible(std::size_t i, std::span<const KeySteps> keys, const Test& test) const {
    std::size_t index = 0;
    for (const KeySteps& steps : keys) {
      for (std::size_t t = 0; t < steps.count; ++t, ++index) {
        if (test(index) && visibility_.sees(i, steps.first + t * steps.step)) return true;
      }
    }
    return false;
  }

  /// Writes the weights of `keys`, whose scores are stored next to each other. Records one warning for a row
  /// without a visible key, for a row that is not finite, or, if observers need scores, for a row in which a
  /// visible key has the score -inf. The weights are NaN if the scores of all visible keys are -inf.
  void softmax(const PanelWork& panel, std::size_t r, std::span<const KeySteps> keys,
               std::span<const float> scores, std::span<float> weights) const {
    const std::size_t i = panel.first + r;
    constexpr float lowest = -std::numeric_limits<float>::infinity();
    const bool one_overflowed =
        layer_.scores && any_visible(i, keys, [&](std::size_t index) { return scores[index] == lowest; });
    const bool some_finite = layer_.sinks.empty() ? linalg::kernels().softmax(scores, weights)
                                                  : softmax_with_sink(scores, layer_.sinks[head_],
                                                                      panel.buffers.sink_scores, weights);
    const bool all_overflowed = !some_finite && any_visible(i, keys, [](std::size_t) { return true; });
    panel.fully_masked[r] = some_finite || all_overflowed ? 0 : 1;
    if (all_overflowed) std::ranges::fill(weights, std::numeric_limits<float>::quiet_NaN());
    if (panel.fully_masked[r] != 0) {
      panel.warnings.fully_masked.add(warning_at(i));
    } else if (!std::isfinite(weights.front())) {  // one NaN score makes all weights NaN
      panel.warnings.non_finite.add(warning_at(i));
    } else if (one_overflowed) {
      panel.warnings.infinite_score.add(warning_at(i));
    }
  }

  [[nodiscard]] RowWarning warning_at(std::size_t query) const {
    return {1, {layer_.layer, head_}, place_.index, query};
  }

  [[nodiscard]] AttentionPanel finished(const PanelWork& made) const {
    return {.sequence = place_.index,
            .layer = layer_.layer,
            .head = head_,
            .first_query = made.first,
            .pattern = made.pattern,
            .scores = layer_.scores ? made.scores : MatrixView<float>(),
            .visible = made.visible,
            .q = q_.row_range(made.first, made.rows),
            .k = k_,
            .v = v_,
            .z = z_.data != nullptr ? z_.row_range(made.first, made.rows) : z_,
            .fully_masked = made.fully_masked};
  }

  const AttentionLayer& layer_;
  const BlockSequence& place_;
  std::size_t head_;
  Visibility visibility_;
  MatrixView<const float> q_, k_, v_;
  MatrixView<float> z_;
  PositionBias position_bias_;
  bool finite_values_;
};

RowWarnings attend(const AttentionLayer& layer, const input::Batch& batch, const Block& block,
                   std::size_t head, std::span<Observer* const> observers, PanelBuffers& buffers) {
  RowWarnings warnings;
  for (const BlockSequence& place : block.sequences) {
    const Sides sides = sides_of(block.component, batch.sequences[place.index]);
    HeadPass(layer, sides.keys_of, place, head).run(observers, buffers, warnings);
  }
  return warnings;
}

}  // namespace attnctl::forward
