#include "inspect/head_order.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "analysis/similarity/head_map.hpp"

namespace attnctl::cli {
namespace {

std::vector<std::string> labels_of(const ModelConfig& config, const HeadMatrix& matrix) {
  std::vector<std::string> labels;
  for (const HeadId head : matrix.heads) {
    labels.push_back(matrix.layer ? "Head " + std::to_string(head.head) : head_name(config, head));
  }
  return labels;
}

}  // namespace

HeadMatrix in_cluster_order(HeadMatrix matrix) {
  HeadMatrix ordered;
  ordered.layer = matrix.layer;
  ordered.heads = map_heads(matrix.heads, std::as_const(matrix.values).view()).order();
  ordered.values = OwnedMatrix<double>(ordered.heads.size(), ordered.heads.size());
  std::vector<std::size_t> from;
  for (const HeadId head : ordered.heads) {
    from.push_back(static_cast<std::size_t>(std::ranges::find(matrix.heads, head) - matrix.heads.begin()));
  }
  for (std::size_t a = 0; a < from.size(); ++a) {
    for (std::size_t b = 0; b < from.size(); ++b) ordered.values(a, b) = matrix.values(from[a], from[b]);
  }
  return ordered;
}

Heatmap head_heatmap(const ModelConfig& config, const std::string& title, const HeadMatrix& matrix) {
  const auto values = matrix.values.values();
  return {title,
          "Head",
          "Head",
          labels_of(config, matrix),
          labels_of(config, matrix),
          make_array({matrix.heads.size(), matrix.heads.size()},
                     std::vector<double>(values.begin(), values.end()))};
}

std::string symbol_of(std::string_view name) {
  std::string symbol(name);
  std::ranges::transform(symbol, symbol.begin(),
                         [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  return symbol;
}

std::size_t square_columns(std::size_t heatmaps) {
  return static_cast<std::size_t>(std::ceil(std::sqrt(static_cast<double>(heatmaps))));
}

}  // namespace attnctl::cli
