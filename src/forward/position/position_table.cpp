#include "forward/position/position_table.hpp"

#include <vector>

#include "forward/layers/dense.hpp"
#include "forward/layers/norm.hpp"

namespace attnctl::forward {

PositionRows PositionTable::project(Pool& pool, const AttentionConfig& config,
                                    const AttentionWeights& weights) {
  PositionRows rows;
  if (!config.disentangled) return rows;
  const MatrixView<const float> table = weights.disentangled.table;
  const MatrixView<float> normed = normed_.take(table.rows, table.cols);
  apply_norm(pool, config.disentangled->norm, weights.disentangled.norm, table, normed);
  std::vector<Dense> products;
  const auto add = [&](bool wanted, const Linear& linear, Buffer& buffer) {
    if (!wanted) return MatrixView<const float>();
    const MatrixView<float> out = buffer.take(table.rows, linear.out());
    products.push_back({normed, linear, out});
    return MatrixView<const float>(out);
  };
  rows.keys = add(config.disentangled->content_to_position, weights.disentangled.key, keys_);
  rows.queries = add(config.disentangled->position_to_content, weights.disentangled.query, queries_);
  run_dense(pool, products);
  return rows;
}

}  // namespace attnctl::forward
