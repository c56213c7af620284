#include "analysis/similarity/head_pairs.hpp"

#include <algorithm>
#include <numeric>

#include "base/matrix_view.hpp"
#include "linalg/gemm.hpp"
#include "linalg/kernels/kernels.hpp"

namespace attnctl::analysis {
namespace {

/// Number of weights per head that are processed at once. A small number keeps them in the cache and limits
/// the rounding errors of float sums.
constexpr std::size_t kChunk = 1024;

/// Number of heads whose products with each other and with all later heads are one matrix product.
constexpr std::size_t kNearby = 24;

/// Maximum number of output columns on each side of a matrix product, unless a single head has more.
constexpr std::size_t kGroup = 256;

void add_divergences(MatrixView<const float> patterns, OwnedMatrix<float>& halves, std::vector<double>& to) {
  const linalg::Kernels& kernel = linalg::kernels();
  const auto half = [&](std::size_t head) { return halves.view().row(head).first(patterns.cols); };
  std::vector<double> entropies;  // [heads], negative entropies
  for (std::size_t h = 0; h < patterns.rows; ++h) {
    std::ranges::transform(patterns.row(h), half(h).begin(), [](float weight) { return weight / 2; });
    entropies.push_back(kernel.sum_x_log_x_of_sum(half(h), half(h)));
  }
  for (std::size_t a = 0; a < patterns.rows; ++a) {
    for (std::size_t b = a + 1; b < patterns.rows; ++b) {
      const double joint = kernel.sum_x_log_x_of_sum(half(a), half(b));
      to[pair_index(patterns.rows, a, b)] += (entropies[a] + entropies[b]) / 2 - joint;
    }
  }
}

void add_products(MatrixView<const float> patterns, OwnedMatrix<float>& room, std::vector<double>& to) {
  for (std::size_t first = 0; first < patterns.rows; first += kNearby) {
    const std::size_t count = std::min(kNearby, patterns.rows - first);
    const std::size_t others = patterns.rows - first;  // pairs with earlier heads are already done
    linalg::gemm_nt(patterns.row_range(first, count), patterns.row_range(first, others),
                    room.view().row_range(first, count).col_range(first, others));
  }
  for (std::size_t a = 0; a < patterns.rows; ++a) {
    double* const pairs = to.data() + pair_index(patterns.rows, a, 0);
    for (std::size_t b = a; b < patterns.rows; ++b) pairs[b] += static_cast<double>(room(a, b));
  }
}

/// Returns the outputs with the mean of each column subtracted, transposed: [columns, rows]. `rows` is
/// rounded up to a multiple of 16, and the added values are 0.
OwnedMatrix<float> centred_columns(const HeadOutputs& outputs) {
  constexpr std::size_t together = 16;  // float values per cache line
  const std::size_t width = outputs.columns.back();
  const std::size_t n = outputs.rows.size();
  OwnedMatrix<float> columns(width, (n + together - 1) / together * together);
  for (std::size_t first = 0; first < n; first += together) {
    const auto rows = std::span(outputs.rows).subspan(first, std::min(together, n - first));
    for (std::size_t c = 0; c < width; ++c) {
      float* const to = &columns(c, first);
      for (std::size_t r = 0; r < rows.size(); ++r) to[r] = rows[r][c];
    }
  }
  for (std::size_t c = 0; c < width; ++c) {
    const std::span<float> column = columns.view().row(c).first(n);
    const double mean = std::accumulate(column.begin(), column.end(), 0.0) / static_cast<double>(n);
    for (float& value : column) value = static_cast<float>(static_cast<double>(value) - mean);
  }
  return columns;
}

/// Returns |z|^2 of each head at each row (position), [heads, rows].
OwnedMatrix<double> squares_of(MatrixView<const float> columns, const HeadOutputs& outputs) {
  const std::size_t heads = outputs.columns.size() - 1;
  OwnedMatrix<double> squares(heads, outputs.rows.size());
  for (std::size_t h = 0; h < heads; ++h) {
    const std::span<double> sums = squares.view().row(h);
    for (std::size_t c = outputs.columns[h]; c < outputs.columns[h + 1]; ++c) {
      const float* const column = columns.row(c).data();
      for (std::size_t r = 0; r < outputs.rows.size(); ++r)
        sums[r] += static_cast<double>(column[r]) * static_cast<double>(column[r]);
    }
  }
  return squares;
}

/// A range of heads [first, last) whose output columns are in one matrix product.
struct Group {
  std::size_t first = 0, last = 0;
};

std::vector<Group> groups_of(const std::vector<std::size_t>& columns) {
  std::vector<Group> groups;
  for (std::size_t h = 0; h + 1 < columns.size(); ++h) {
    if (groups.empty() || columns[h + 1] - columns[groups.back().first] > kGroup) groups.push_back({h, h});
    groups.back().last = h + 1;
  }
  return groups;
}

double sum_of_squares(MatrixView<const float> values) {
  double sum = 0;
  for (std::size_t r = 0; r < values.rows; ++r) {
    for (const float value : values.row(r)) sum += double{value} * double{value};
  }
  return sum;
}

/// Returns |Z_a^T Z_b|_F^2 for each pair of heads a <= b, [pairs]. Z_a [rows, width] are the centred outputs
/// of head a; `values` has their columns as rows. Head a has the rows from columns[a] to columns[a + 1] - 1.
std::vector<double> cross_norms(MatrixView<const float> values, const std::vector<std::size_t>& columns) {
  const std::size_t heads = columns.size() - 1;
  const auto of_group = [&](const Group& group) {
    return values.row_range(columns[group.first], columns[group.last] - columns[group.first]);
  };
  const std::vector<Group> groups = groups_of(columns);
  std::vector<double> norms(pair_count(heads));
  std::vector<float> room;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    for (std::size_t j = i; j < groups.size(); ++j) {
      const MatrixView<const float> left = of_group(groups[i]);
      const MatrixView<const float> right = of_group(groups[j]);
      room.resize(left.rows * right.rows);
      const MatrixView<float> product(room.data(), left.rows, right.rows);
      linalg::gemm_nt(left, right, product);
      for (std::size_t a = groups[i].first; a < groups[i].last; ++a) {
        for (std::size_t b = std::max(a, groups[j].first); b < groups[j].last; ++b) {
          const auto of_pair =
              product.row_range(columns[a] - columns[groups[i].first], columns[a + 1] - columns[a])
                  .col_range(columns[b] - columns[groups[j].first], columns[b + 1] - columns[b]);
          norms[pair_index(heads, a, b)] = sum_of_squares(of_pair);
        }
      }
    }
  }
  return norms;
}

}  // namespace

PatternPairs pattern_pairs(std::span<const float> patterns, std::size_t heads) {
  PatternPairs sums{std::vector<double>(pair_count(heads)), std::vector<double>(pair_count(heads))};
  const std::size_t weights = patterns.size() / heads;
  const MatrixView<const float> all(patterns.data(), heads, weights);
  OwnedMatrix<float> halves(heads, std::min(kChunk, weights));
  OwnedMatrix<float> room(heads, heads);
  for (std::size_t first = 0; first < weights; first += kChunk) {
    const MatrixView<const float> chunk = all.col_range(first, std::min(kChunk, weights - first));
    add_divergences(chunk, halves, sums.divergence);
    add_products(chunk, room, sums.product);
  }
  return sums;
}

// K = Z_a Z_a^T and L = Z_b Z_b^T are the kernels of two heads, from outputs Z with centred columns. The
// HSIC estimate sets their diagonals to zero. The sum of row t of K is then -|z_at|^2, and tr(K L) = |Z_a^T
// Z_b|_F^2 - sum_t |z_at|^2 |z_bt|^2.
std::vector<double> output_pairs(const HeadOutputs& outputs) {
  const OwnedMatrix<float> columns = centred_columns(outputs);
  const std::size_t heads = outputs.columns.size() - 1;
  const OwnedMatrix<double> squares = squares_of(columns.view(), outputs);
  const OwnedMatrix<double> products = linalg::product_nt(squares.view(), squares.view());
  std::vector<double> totals;
  for (std::size_t h = 0; h < heads; ++h) {
    const auto row = squares.view().row(h);
    totals.push_back(std::accumulate(row.begin(), row.end(), 0.0));
  }
  std::vector<double> pairs = cross_norms(columns.view(), outputs.columns);
  const auto n = static_cast<double>(outputs.rows.size());
  for (std::size_t a = 0; a < heads; ++a) {
    for (std::size_t b = a; b < heads; ++b) {
      double& value = pairs[pair_index(heads, a, b)];
      value = (value - n / (n - 2) * products(a, b) + totals[a] * totals[b] / ((n - 1) * (n - 2))) /
              (n * (n - 3));
    }
  }
  return pairs;
}

}  // namespace attnctl::analysis
