#include "analysis/similarity/head_match.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <utility>

#include "analysis/weights/circuit.hpp"
#include "linalg/gemm.hpp"
#include "linalg/kernels/kernels.hpp"

namespace attnctl::analysis {
namespace {

/// The transposed factors of one circuit of a head, and its Frobenius norm.
struct OneCircuit {
  OwnedMatrix<double> left, right;
  double norm = 0;
};

double inner_product(const OneCircuit& a, const OneCircuit& b) {
  const OwnedMatrix<double> left = linalg::product_nt(a.left.view(), b.left.view());
  const OwnedMatrix<double> right = linalg::product_nt(a.right.view(), b.right.view());
  return dot(left.values(), right.values());
}

/// Returns the circuits of heads; empty if a layer does not have this circuit.
std::vector<OneCircuit> circuits_of(const model::Model& model, std::span<const model::HeadId> heads,
                                    Circuit circuit) {
  std::vector<OneCircuit> circuits;
  std::map<std::size_t, std::optional<CircuitFactors>> layers;
  for (const model::HeadId head : heads) {
    const auto [found, is_new] = layers.try_emplace(head.layer);
    if (is_new) found->second = circuit_factors(model, head.layer, circuit, false);
    if (!found->second) return {};
    OneCircuit& one = circuits.emplace_back();
    one.left = found->second->left.columns(head.head);
    one.right = found->second->right.columns(head.head);
    const bool finite = linalg::all_finite(one.left.values()) && linalg::all_finite(one.right.values());
    one.norm = finite ? std::sqrt(std::max(0.0, inner_product(one, one))) : kUndefined;
  }
  return circuits;
}

double cosine(const OneCircuit& a, const OneCircuit& b) {
  const bool alike = a.left.cols() == b.left.cols() && a.right.cols() == b.right.cols();
  if (!alike || !(a.norm > 0) || !(b.norm > 0)) return kUndefined;
  return std::clamp(inner_product(a, b) / (a.norm * b.norm), -1.0, 1.0);
}

double mean_of_match(MatrixView<const double> similarity, std::span<const std::size_t> partner) {
  double sum = 0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < partner.size(); ++i) {
    const double value = similarity(i, partner[i]);
    if (!std::isfinite(value)) continue;
    sum += value;
    ++count;
  }
  return count == 0 ? kUndefined : sum / static_cast<double>(count);
}

}  // namespace

std::vector<std::size_t> best_assignment(MatrixView<const double> values) {
  const std::size_t n = values.rows, m = values.cols;
  if (n > m) throw std::logic_error("an assignment needs at least as many columns as rows");
  double lowest = 0;
  for (std::size_t r = 0; r < n; ++r) {
    for (const double value : values.row(r))
      if (std::isfinite(value)) lowest = std::min(lowest, value);
  }
  const auto cost = [&](std::size_t r, std::size_t c) {
    const double value = values(r, c);
    return std::isfinite(value) ? -value : 1 - 2 * lowest;
  };
  // Rows and columns are numbered from 1; column 0 holds the row that looks for a column.
  constexpr double infinite = std::numeric_limits<double>::infinity();
  std::vector<double> of_row(n + 1, 0.0), of_column(m + 1, 0.0);  // potentials
  std::vector<std::size_t> row_in(m + 1, 0), before(m + 1, 0);
  for (std::size_t row = 1; row <= n; ++row) {
    row_in[0] = row;
    std::size_t column = 0;
    std::vector<double> least(m + 1, infinite);
    std::vector<std::uint8_t> used(m + 1, 0);
    do {
      used[column] = 1;
      const std::size_t here = row_in[column];
      double step = infinite;
      std::size_t next = 0;
      for (std::size_t c = 1; c <= m; ++c) {
        if (used[c] != 0) continue;
        const double reduced = cost(here - 1, c - 1) - of_row[here] - of_column[c];
        if (reduced < least[c]) {
          least[c] = reduced;
          before[c] = column;
        }
        if (least[c] < step) {
          step = least[c];
          next = c;
        }
      }
      for (std::size_t c = 0; c <= m; ++c) {
        if (used[c] != 0) {
          of_row[row_in[c]] += step;
          of_column[c] -= step;
        } else {
          least[c] -= step;
        }
      }
      column = next;
    } while (row_in[column] != 0);
    for (; column != 0; column = before[column]) row_in[column] = row_in[before[column]];
  }
  std::vector<std::size_t> columns(n);
  for (std::size_t c = 1; c <= m; ++c)
    if (row_in[c] != 0) columns[row_in[c] - 1] = c - 1;
  return columns;
}

HeadMatch match_heads(MatrixView<const double> similarity, std::uint64_t seed) {
  HeadMatch match;
  match.partner = best_assignment(similarity);
  match.score = mean_of_match(similarity, match.partner);
  std::vector<std::size_t> columns(similarity.cols);
  std::iota(columns.begin(), columns.end(), std::size_t{0});
  Random random(seed);
  double sum = 0, squares = 0;
  std::size_t reached = 1, count = 0;
  for (std::size_t i = 0; i < kRandomMatches; ++i) {
    for (std::size_t left = columns.size(); left > 1; --left)
      std::swap(columns[left - 1], columns[random.next() % left]);
    const double score = mean_of_match(similarity, std::span(columns).first(similarity.rows));
    if (!std::isfinite(score)) continue;
    ++count;
    sum += score;
    squares += score * score;
    if (score >= match.score) ++reached;
  }
  if (count < 2) return match;
  const auto n = static_cast<double>(count);
  match.null_mean = sum / n;
  match.null_deviation =
      std::sqrt(std::max(0.0, squares / n - match.null_mean * match.null_mean) * n / (n - 1));
  match.p_value = static_cast<double>(reached) / (n + 1);
  return match;
}

OwnedMatrix<double> circuit_similarities(const model::Model& a, std::span<const model::HeadId> heads_a,
                                         const model::Model& b, std::span<const model::HeadId> heads_b,
                                         Pool& pool) {
  OwnedMatrix<double> similarity(heads_a.size(), heads_b.size());
  double circuits = 0;
  for (const Circuit circuit : {Circuit::qk, Circuit::ov}) {
    const std::vector<OneCircuit> x = circuits_of(a, heads_a, circuit), y = circuits_of(b, heads_b, circuit);
    if (x.empty() || y.empty()) continue;
    ++circuits;
    pool.run(x.size(), [&](std::size_t i, std::size_t /*worker*/) {
      for (std::size_t j = 0; j < y.size(); ++j) similarity(i, j) += cosine(x[i], y[j]);
    });
  }
  for (double& value : similarity.values()) value /= circuits;
  return similarity;
}

}  // namespace attnctl::analysis
