#include "attnctl/analysis/subspace_similarity.hpp"

#include "attnctl/linalg/gemm.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace attnctl {
namespace {

/// Distinct slices of one factor for a tile of heads, side by side, and where each head's begins.
struct FactorTile {
  OwnedMatrix<double> slices;       // [dimension, sum of widths]
  std::vector<std::size_t> column;  // [heads of the tile]
};

FactorTile read_tile(std::span<const ComparedHead> heads, CircuitFactor CircuitFactors::*side) {
  FactorTile tile;
  const auto same_slice = [side](const ComparedHead& a, const ComparedHead& b) {
    const CircuitFactor& factor = a.factors->*side;
    return a.factors == b.factors && factor.slice_of(a.head) == factor.slice_of(b.head);
  };
  std::size_t columns = 0;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    const std::size_t width = (heads[i].factors->*side).width();
    if (i > 0 && same_slice(heads[i - 1], heads[i])) {
      tile.column.push_back(tile.column.back());
    } else {
      tile.column.push_back(columns);
      columns += width;
    }
  }
  tile.slices = OwnedMatrix<double>((heads[0].factors->*side).dimension(), columns);
  for (std::size_t i = 0; i < heads.size(); ++i) {
    if (i > 0 && tile.column[i] == tile.column[i - 1]) continue;
    const CircuitFactor& factor = heads[i].factors->*side;
    factor.read(heads[i].head, tile.slices.view().col_range(tile.column[i], factor.width()));
  }
  return tile;
}

OwnedMatrix<double> gram(const FactorTile& a, const FactorTile& b) {
  OwnedMatrix<double> product(a.slices.cols(), b.slices.cols());
  gemm_tn(a.slices.view(), b.slices.view(), product.view());
  return product;
}

/// Heads are compared in tiles of this many: a tile's slices are converted once for as many products, and
/// what a worker holds stays near the size of its cache whatever the model.
constexpr std::size_t tile_heads = 4;

/// Cosines of every head of one tile with every head of another.
class TilePair {
 public:
  TilePair(std::span<const ComparedHead> rows, std::span<const ComparedHead> cols)
      : rows_(rows),
        cols_(cols),
        left_rows_(read_tile(rows, &CircuitFactors::left)),
        left_cols_(read_tile(cols, &CircuitFactors::left)),
        right_rows_(read_tile(rows, &CircuitFactors::right)),
        right_cols_(read_tile(cols, &CircuitFactors::right)),
        left_(gram(left_rows_, left_cols_)),
        right_(gram(right_rows_, right_cols_)) {}

  [[nodiscard]] double cosine(std::size_t i, std::size_t j) const {
    const std::size_t width_i = rows_[i].factors->left.width();
    const std::size_t width_j = cols_[j].factors->left.width();
    double sum = 0;
    for (std::size_t r = 0; r < width_i; ++r) {
      const auto a = left_.view().row(left_rows_.column[i] + r).subspan(left_cols_.column[j], width_j);
      const auto b = right_.view().row(right_rows_.column[i] + r).subspan(right_cols_.column[j], width_j);
      for (std::size_t c = 0; c < width_j; ++c) sum += a[c] * b[c];
    }
    const double cosine = sum / rows_[i].norm / cols_[j].norm;
    // Rounding may pass 1 by a little; a sum that overflowed is no number.
    return std::isfinite(cosine) ? std::clamp(cosine, -1.0, 1.0) : std::numeric_limits<double>::quiet_NaN();
  }

 private:
  std::span<const ComparedHead> rows_, cols_;
  FactorTile left_rows_, left_cols_, right_rows_, right_cols_;
  OwnedMatrix<double> left_, right_;
};

bool has_norm(const ComparedHead& head) {
  return std::isfinite(head.norm) && head.norm > 0;
}

}  // namespace

OwnedMatrix<double> frobenius_cosines(std::span<const ComparedHead> heads, Pool& pool) {
  OwnedMatrix<double> similarity(heads.size(), heads.size());
  std::fill(similarity.values().begin(), similarity.values().end(), std::numeric_limits<double>::quiet_NaN());
  std::vector<ComparedHead> compared;
  std::vector<std::size_t> place;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    if (!has_norm(heads[i])) continue;
    compared.push_back(heads[i]);
    place.push_back(i);
    similarity(i, i) = 1;
  }
  const std::size_t tiles = (compared.size() + tile_heads - 1) / tile_heads;
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (std::size_t row = 0; row < tiles; ++row) {
    for (std::size_t col = row; col < tiles; ++col) pairs.emplace_back(row * tile_heads, col * tile_heads);
  }
  const auto tile_at = [&](std::size_t first) {
    return std::span<const ComparedHead>(compared).subspan(first,
                                                           std::min(tile_heads, compared.size() - first));
  };
  pool.run(pairs.size(), [&](std::size_t task, std::size_t) {
    const auto [row, col] = pairs[task];
    const TilePair pair(tile_at(row), tile_at(col));
    for (std::size_t i = 0; i < tile_at(row).size(); ++i) {
      for (std::size_t j = row == col ? i + 1 : 0; j < tile_at(col).size(); ++j) {
        const double cosine = pair.cosine(i, j);
        similarity(place[row + i], place[col + j]) = cosine;
        similarity(place[col + j], place[row + i]) = cosine;
      }
    }
  });
  return similarity;
}

OffDiagonal off_diagonal(MatrixView<const double> similarity) {
  double sum = 0;
  double sum_abs = 0;
  std::size_t pairs = 0;
  for (std::size_t i = 0; i < similarity.rows; ++i) {
    for (std::size_t j = 0; j < similarity.cols; ++j) {
      if (i == j || !std::isfinite(similarity(i, j))) continue;
      sum += similarity(i, j);
      sum_abs += std::abs(similarity(i, j));
      ++pairs;
    }
  }
  if (pairs == 0) return {};
  return {sum / static_cast<double>(pairs), sum_abs / static_cast<double>(pairs)};
}

}  // namespace attnctl
