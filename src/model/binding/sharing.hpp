#pragma once

#include "model/model.hpp"
#include "results/results.hpp"

namespace attnctl {

/// What heads, projections and layers of a model have in common, and which projections are stored as two
/// factors. Columns: kind, layers and heads as --layers takes numbers ("0,2-5"; heads null: all), text.
/// Layers of which the same is true are one row. Kinds:
///   layers      layers with the same weights
///   query_key   W_K is W_Q: there is none, or both are stored with the same bytes (then each counts)
///   tied_heads  heads that use the same slice of W_Q, W_K and W_V
///   kv_head     heads that share W_K and W_V
///   factorised  a projection A B, with its rank
/// `model` is that of the configuration; null: there are no weights, and equal ones are not looked for.
[[nodiscard]] Table sharing_table(const ModelConfig& config, const Model* model);

}  // namespace attnctl
