#pragma once

#include "model/model.hpp"
#include "results/result.hpp"

namespace attnctl {

/// Returns which heads, projections and layers of a model share weights, and which projections are
/// factorized. Columns: kind, layers and heads in the syntax of --layers ("0,2-5"; heads null: all), text.
/// Layers with the same statement form one row. Kinds:
///   layers      layers with the same weights
///   query_key   W_K is W_Q: there is no W_K, or both are stored with the same bytes
///   tied_heads  heads that use the same slice of W_Q, W_K and W_V
///   kv_head     heads that share W_K and W_V
///   factorised  a projection A B, with its rank
/// `model` may be null; then stored weights are not compared.
[[nodiscard]] Table sharing_table(const ModelConfig& config, const Model* model);

}  // namespace attnctl
