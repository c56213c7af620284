#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "base/matrix_view.hpp"

/// Reference implementations of the definitions with plain loops in double, for tests of the factored
/// analyses.
namespace attnctl::long_way {

using Dense = OwnedMatrix<double>;

/// Independent normal numbers by Box and Muller, because std::normal_distribution differs between libraries.
class Normal {
 public:
  explicit Normal(std::uint64_t seed) : engine_(seed) {}
  double operator()();
  Dense matrix(std::size_t rows, std::size_t cols, double deviation = 1);

 private:
  double uniform() { return (static_cast<double>(engine_() >> 11) + 0.5) * 0x1.0p-53; }
  std::mt19937_64 engine_;
};

/// Returns a b^T.
Dense product_nt(const Dense& a, const Dense& b);
/// Returns <a, b> / (|a| |b|) of the flattened matrices.
double cosine(const Dense& a, const Dense& b);
/// Returns all min(rows, cols) singular values, descending, by one-sided Jacobi rotations.
std::vector<double> singular_values(const Dense& a);
/// Returns exp of the entropy of s / sum(s).
double effective_rank(const std::vector<double>& s);

}  // namespace attnctl::long_way
