#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analysis/similarity/subspace_similarity.hpp"
#include "analysis/weights/circuit.hpp"
#include "base/matrix_view.hpp"
#include "base/pool.hpp"

namespace attnctl {

/// The sizes of a circuit's two factors, of all heads of a layer.
struct CircuitShape {
  std::size_t heads = 0;
  std::size_t width = 0;
  std::size_t left_dimension = 0, right_dimension = 0;
  std::vector<std::size_t> left_slices, right_slices;  // [heads]: the one that each head reads

  auto operator<=>(const CircuitShape&) const = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 errs
};

[[nodiscard]] CircuitShape shape_of(const CircuitFactors& factors, std::size_t heads);

/// Factors of independent normal components of deviation sqrt(2 / (dimension + width)), the same for a seed
/// and draw whatever the threads.
class DrawnHeads {
 public:
  DrawnHeads(const CircuitShape& shape, std::uint64_t seed, std::uint64_t draw, Pool& pool);

  /// Multiplies rows i d/h .. (i+1) d/h of head i by the gain on both sides; slices are not shared.
  void specialise(double gain);

  [[nodiscard]] CircuitFactors factors() const;
  /// [slices, dimension, width].
  [[nodiscard]] std::vector<float> left() const;
  [[nodiscard]] std::vector<float> right() const;

 private:
  CircuitShape shape_;
  OwnedMatrix<float> left_, right_;  // [slices width, dimension]
};

/// Effective rank of every head's circuit, and their similarity.
struct HeadDiversity {
  std::vector<double> effective_ranks;
  OwnedMatrix<double> similarity;
  double mean_rank = 0;
  OffDiagonal off_diagonal;
};
[[nodiscard]] HeadDiversity measure(const DrawnHeads& drawn, std::size_t heads, Pool& pool);

/// Mean, and the deviation (n - 1) where there are several.
struct Spread {
  std::optional<double> mean;
  std::optional<double> deviation;
};
[[nodiscard]] Spread spread_of(std::span<const double> values);

}  // namespace attnctl
