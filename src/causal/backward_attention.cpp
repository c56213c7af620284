#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "causal/backward.hpp"
#include "forward/layers/layers.hpp"
#include "linalg/gemm.hpp"

namespace attnctl::causal {
namespace {

/// The derivatives of queries, keys and values. Of heads, they are side by side: [rows, heads * k], [key
/// rows, heads * k] and [key rows, heads * v].
struct ProjectionDerivatives {
  FloatRows q, k, v;
};

/// Queries and keys before and after each step that changes them, and the values.
struct ProjectionSteps {
  FloatRows plain_q, plain_k, plain_v;  // the results of the projections, if they are clamped
  FloatRows clamped_q, clamped_k;       // before the norm of heads, if there is one
  FloatRows q, k, v;                    // as the scores and z use them
};

/// A layer whose heads are differentiated.
struct HeadsBackward {
  const forward::AttentionLayer& layer;
  const forward::Block& block;
  FloatView d_z;  // [rows, heads * v]
  ProjectionDerivatives& d;

  [[nodiscard]] const forward::BlockSequence& place(std::size_t sequence) const {
    return block.sequences[sequence - block.sequences.front().index];
  }
};

/// Memory of one worker.
struct PanelWorkspace {
  std::vector<float> d_scores, scores, d_content, d_position;
};

MatrixView<float> matrix_in(std::vector<float>& memory, std::size_t rows, std::size_t cols) {
  if (memory.size() < rows * cols) memory.resize(rows * cols);
  return {memory.data(), rows, cols};
}

/// phi(x) = elu(x) + 1, the feature of linear attention.
float feature(float x) {
  return x > 0 ? x + 1 : std::exp(x);
}
float feature_slope(float x) {
  return x > 0 ? 1 : std::exp(x);
}

FloatRows features_of(FloatView x) {
  FloatRows features(x.rows, x.cols);
  for (std::size_t r = 0; r < x.rows; ++r)
    std::ranges::transform(x.row(r), features.view().row(r).begin(), feature);
  return features;
}

/// Adds d phi'(x) to `to`.
void add_back_features(FloatView x, const FloatRows& d, MatrixView<float> to) {
  for (std::size_t r = 0; r < x.rows; ++r) {
    for (std::size_t c = 0; c < x.cols; ++c) to(r, c) += d(r, c) * feature_slope(x(r, c));
  }
}

/// Changes d [rows, keys] from the derivatives of the weights of a pattern to those of its scores. Weights of
/// 0 have no derivative, even if the values of their keys are not finite.
void back_softmax(FloatView pattern, MatrixView<float> d) {
  for (std::size_t r = 0; r < d.rows; ++r) {
    const std::span<const float> weights = pattern.row(r);
    const std::span<float> row = d.row(r);
    double along = 0;
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (weights[c] != 0) along += double{weights[c]} * double{row[c]};
    }
    const auto mean = static_cast<float>(along);
    for (std::size_t c = 0; c < row.size(); ++c) row[c] = weights[c] != 0 ? weights[c] * (row[c] - mean) : 0;
  }
}

/// Computes the derivatives of q, k and v of one head from its panels.
class HeadBackward final : public forward::Observer {
 public:
  HeadBackward(const HeadsBackward& all, std::size_t head, PanelWorkspace& workspace)
      : all_(all), config_(all.layer.config), head_(head), workspace_(workspace) {}

  void panel(const forward::AttentionPanel& panel) override {
    const forward::BlockSequence& place = all_.place(panel.sequence);
    const forward::KeyRange range = panel.keys();
    const FloatView pattern = panel.pattern.col_range(range.first, range.size());
    const FloatView k = panel.k.row_range(range.first, range.size());
    const FloatView v = panel.v.row_range(range.first, range.size());
    const std::size_t first_row = place.first_query + panel.first_query;
    const std::size_t first_key = place.first_key + range.first;
    const FloatView d_z =
        all_.d_z.row_range(first_row, pattern.rows).col_range(head_ * config_.d_value, config_.d_value);
    const MatrixView<float> d_q = part(all_.d.q, first_row, pattern.rows, config_.d_head);
    const MatrixView<float> d_k = part(all_.d.k, first_key, range.size(), config_.d_head);
    const MatrixView<float> d_v = part(all_.d.v, first_key, range.size(), config_.d_value);

    linalg::gemm_tn(pattern, d_z, d_v, 1, 1);
    const MatrixView<float> d_scores = matrix_in(workspace_.d_scores, pattern.rows, range.size());
    linalg::gemm_nt(d_z, v, d_scores);
    back_softmax(pattern, d_scores);
    if (config_.disentangled) add_back_distances(panel.first_query, range.first, d_scores, d_q, d_k);
    if (config_.kind.rule == model::AttentionKind::Rule::linear) {
      add_back_linear(panel.q, k, d_scores, d_q, d_k);
    } else {
      if (config_.soft_cap > 0) back_cap(panel.q, k, d_scores);
      const auto scale = static_cast<float>(config_.scale);
      linalg::gemm_nn(d_scores, k, d_q, scale, 1);
      linalg::gemm_tn(d_scores, panel.q, d_k, scale, 1);
    }
  }

 private:
  [[nodiscard]] MatrixView<float> part(FloatRows& all, std::size_t first_row, std::size_t rows,
                                       std::size_t width) const {
    return all.view().row_range(first_row, rows).col_range(head_ * width, width);
  }

  /// Multiplies d_scores by the derivative of c tanh(s / c) at the scores s = scale q k^T.
  void back_cap(FloatView q, FloatView k, MatrixView<float> d_scores) const {
    const MatrixView<float> scores = matrix_in(workspace_.scores, d_scores.rows, d_scores.cols);
    linalg::gemm_nt(q, k, scores, static_cast<float>(config_.scale / double{config_.soft_cap}));
    for (std::size_t r = 0; r < scores.rows; ++r) {
      for (std::size_t c = 0; c < scores.cols; ++c) {
        const float tanh = std::tanh(scores(r, c));
        d_scores(r, c) *= 1 - tanh * tanh;
      }
    }
  }

  /// Adds the derivatives for the scores ln(phi(q) phi(k)^T).
  static void add_back_linear(FloatView q, FloatView k, MatrixView<float> d_scores, MatrixView<float> d_q,
                              MatrixView<float> d_k) {
    const FloatRows query_features = features_of(q);
    const FloatRows key_features = features_of(k);
    const FloatRows product = linalg::product_nt(query_features.view(), key_features.view());
    for (std::size_t r = 0; r < d_scores.rows; ++r) {
      for (std::size_t c = 0; c < d_scores.cols; ++c) {
        if (d_scores(r, c) != 0) d_scores(r, c) /= product(r, c);
      }
    }
    add_back_features(q, linalg::product<float>(d_scores, key_features.view()), d_q);
    add_back_features(k, linalg::product_tn<float>(d_scores, query_features.view()), d_k);
  }

  /// Adds the derivatives for the terms of disentangled attention: scale times the product of query i, or of
  /// key j, with a row of a table that depends on i - j.
  void add_back_distances(std::size_t first_query, std::size_t first_key, FloatView d_scores,
                          MatrixView<float> d_q, MatrixView<float> d_k) const {
    const FloatView keys = all_.layer.positions.distance_keys;
    const FloatView queries = all_.layer.positions.distance_queries;
    const std::size_t table_rows = 2 * config_.disentangled->span;
    const MatrixView<float> d_content = matrix_in(workspace_.d_content, d_q.rows, table_rows);
    const MatrixView<float> d_position = matrix_in(workspace_.d_position, d_k.rows, table_rows);
    for (std::size_t r = 0; r < d_content.rows; ++r) std::ranges::fill(d_content.row(r), 0.0F);
    for (std::size_t r = 0; r < d_position.rows; ++r) std::ranges::fill(d_position.row(r), 0.0F);
    std::vector<std::size_t> row_of;  // of r - c, at index r - c + columns
    for (std::size_t at = 0; at < d_scores.rows + d_scores.cols; ++at) {
      row_of.push_back(forward::disentangled_row(*config_.disentangled,
                                                 static_cast<std::int64_t>(first_query + at) -
                                                     static_cast<std::int64_t>(first_key + d_scores.cols)));
    }
    for (std::size_t r = 0; r < d_scores.rows; ++r) {
      for (std::size_t c = 0; c < d_scores.cols; ++c) {
        const std::size_t row = row_of[d_scores.cols + r - c];
        d_content(r, row) += d_scores(r, c);
        d_position(c, row) += d_scores(r, c);
      }
    }
    const auto scale = static_cast<float>(config_.scale);
    const std::size_t width = config_.d_head;
    if (keys.data != nullptr) linalg::gemm_nn(d_content, keys.col_range(head_ * width, width), d_q, scale, 1);
    if (queries.data != nullptr)
      linalg::gemm_nn(d_position, queries.col_range(head_ * width, width), d_k, scale, 1);
  }

  const HeadsBackward& all_;
  const model::AttentionConfig& config_;
  std::size_t head_;
  PanelWorkspace& workspace_;
};

void clamp_all(FloatRows& x, float limit) {
  for (float& value : x.values()) value = value < -limit ? -limit : value > limit ? limit : value;
}

/// Sets d to 0 where x was clamped.
void back_clamp(const FloatRows& x, float limit, FloatRows& d) {
  for (std::size_t i = 0; i < d.values().size(); ++i) {
    if (std::abs(x.values()[i]) > limit) d.values()[i] = 0;
  }
}

/// Calls act(columns, weights) for each part of the queries or keys that a norm of heads normalises, with its
/// first column and its width.
template <typename Act>
void for_norms(const model::AttentionConfig& config, const model::NormWeights& weights, std::size_t width,
               const Act& act) {
  if (config.head_norm.kind == model::NormKind::none) return;
  if (config.head_norm_span == model::HeadNormSpan::whole) return act(0, width, weights);
  const bool each = config.head_norm_span == model::HeadNormSpan::each;
  for (std::size_t column = 0; column < width; column += config.d_head) {
    const auto own = [&](std::span<const float> all) {
      return each && !all.empty() ? all.subspan(column, config.d_head) : all;
    };
    act(column, config.d_head, model::NormWeights{own(weights.gain), own(weights.bias)});
  }
}

void norm_heads(Pool& pool, const model::AttentionConfig& config, const model::NormWeights& weights,
                FloatRows& x) {
  for_norms(config, weights, x.cols(),
            [&](std::size_t first, std::size_t width, const model::NormWeights& own) {
              const MatrixView<float> columns = x.view().col_range(first, width);
              forward::apply_norm(pool, config.head_norm, own, columns, columns);
            });
}

void back_norm_heads(Pool& pool, const model::AttentionConfig& config, const model::NormWeights& weights,
                     const FloatRows& x, FloatRows& d) {
  for_norms(config, weights, x.cols(),
            [&](std::size_t first, std::size_t width, const model::NormWeights& own) {
              back_norm(pool, config.head_norm, own, x.view().col_range(first, width),
                        d.view().col_range(first, width));
            });
}

/// Rotates queries and keys, or rotates them back if `back` is true: by the negative angles.
void rotate_all(Pool& pool, const AttentionInputs& inputs, FloatRows& q, FloatRows& k, bool back) {
  const model::AttentionConfig& config = inputs.config;
  if (!config.rotary) return;
  forward::RotaryTables tables;
  const auto rotate = [&](MatrixView<float> x) {
    forward::RotaryTable table = forward::rotary_table(tables, *config.rotary, x.rows);
    if (back) {
      for (float& sine : table.sine.values()) sine = -sine;
    }
    forward::rotate(pool, *config.rotary, table, config.d_head, x);
  };
  for (const forward::BlockSequence& place : inputs.block.sequences) {
    rotate(q.view().row_range(place.first_query, place.queries));
    rotate(k.view().row_range(place.first_key, place.keys));
  }
}

ProjectionSteps project(Pool& pool, const AttentionInputs& inputs) {
  const model::AttentionConfig& config = inputs.config;
  ProjectionSteps steps;
  steps.q = projected(pool, inputs.weights.query, inputs.queries);
  steps.k = projected(pool, inputs.weights.key, inputs.keys);
  steps.v = projected(pool, inputs.weights.value, inputs.keys);
  if (config.clip > 0) {
    steps.plain_q = steps.q;
    steps.plain_k = steps.k;
    steps.plain_v = steps.v;
    for (FloatRows* const x : {&steps.q, &steps.k, &steps.v}) clamp_all(*x, config.clip);
  }
  if (config.head_norm.kind != model::NormKind::none) {
    steps.clamped_q = steps.q;
    steps.clamped_k = steps.k;
    norm_heads(pool, config, inputs.weights.query_norm, steps.q);
    norm_heads(pool, config, inputs.weights.key_norm, steps.k);
  }
  rotate_all(pool, inputs, steps.q, steps.k, false);
  return steps;
}

/// Returns the derivatives of the slices of a projection [rows, slices * width], of which each head uses the
/// slice slice_of(head).
template <typename SliceOf>
FloatRows sum_of_heads(FloatRows of_heads, std::size_t heads, std::size_t slices, const SliceOf& slice_of) {
  bool own_slices = heads == slices;
  for (std::size_t h = 0; h < heads; ++h) own_slices = own_slices && slice_of(h) == h;
  if (own_slices) return of_heads;
  const std::size_t width = of_heads.cols() / heads;
  FloatRows sums(of_heads.rows(), slices * width);
  for (std::size_t r = 0; r < sums.rows(); ++r) {
    for (std::size_t h = 0; h < heads; ++h) {
      for (std::size_t c = 0; c < width; ++c) sums(r, slice_of(h) * width + c) += of_heads(r, h * width + c);
    }
  }
  return sums;
}

/// Returns the derivatives of the queries, keys and values of all heads, after norms and rotations.
ProjectionDerivatives back_heads(Pool& pool, const AttentionInputs& inputs, const ProjectionSteps& steps,
                                 FloatView d_z, std::size_t panel_rows) {
  const model::AttentionConfig& config = inputs.config;
  forward::DistanceBuffers distances;
  const forward::AttentionLayer layer{
      .config = config,
      .q = steps.q.view(),
      .k = steps.k.view(),
      .v = steps.v.view(),
      .z = {},
      .sinks = inputs.weights.sinks,
      .panel_rows = panel_rows,
      .positions = forward::position_tables(pool, config, inputs.weights, distances)};
  ProjectionDerivatives d{{steps.q.rows(), config.heads * config.d_head},
                          {steps.k.rows(), config.heads * config.d_head},
                          {steps.v.rows(), config.heads * config.d_value}};
  const HeadsBackward all{layer, inputs.block, d_z, d};
  std::vector<forward::PanelBuffers> panels(pool.size());
  std::vector<PanelWorkspace> workspaces(pool.size());
  for (forward::PanelBuffers& buffers : panels) buffers.reserve(inputs.block, layer);
  pool.run(config.heads, [&](std::size_t head, std::size_t worker) {
    HeadBackward backward(all, head, workspaces[worker]);
    forward::Observer* const observers[] = {&backward};
    // The forward pass has already given the warnings.
    static_cast<void>(forward::attend(layer, inputs.batch, inputs.block, head, observers, panels[worker]));
  });
  return d;
}

}  // namespace

AttentionDerivatives back_attention(Pool& pool, const AttentionInputs& inputs, FloatView d_z,
                                    std::size_t panel_rows) {
  const model::AttentionConfig& config = inputs.config;
  const ProjectionSteps steps = project(pool, inputs);
  ProjectionDerivatives d = back_heads(pool, inputs, steps, d_z, panel_rows);
  const auto kv_head = [&](std::size_t head) { return config.kv_head(head); };
  d.q = sum_of_heads(std::move(d.q), config.heads, config.query_slices(),
                     [&](std::size_t head) { return config.query_slice(head); });
  d.k = sum_of_heads(std::move(d.k), config.heads, config.kv_heads, kv_head);
  d.v = sum_of_heads(std::move(d.v), config.heads, config.kv_heads, kv_head);
  rotate_all(pool, inputs, d.q, d.k, true);
  back_norm_heads(pool, config, inputs.weights.query_norm, steps.clamped_q, d.q);
  back_norm_heads(pool, config, inputs.weights.key_norm, steps.clamped_k, d.k);
  if (config.clip > 0) {
    back_clamp(steps.plain_q, config.clip, d.q);
    back_clamp(steps.plain_k, config.clip, d.k);
    back_clamp(steps.plain_v, config.clip, d.v);
  }
  AttentionDerivatives result{back_dense(pool, inputs.weights.query, d.q.view()),
                              back_dense(pool, inputs.weights.key, d.k.view())};
  forward::add_rows(pool, back_dense(pool, inputs.weights.value, d.v.view()).view(), result.d_keys.view());
  return result;
}

}  // namespace attnctl::causal
