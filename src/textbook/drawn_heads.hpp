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

/// The shapes of a circuit's two factors for all heads of a layer.
struct CircuitShape {
  std::size_t heads = 0;
  std::size_t width = 0;
  std::size_t left_dimension = 0, right_dimension = 0;
  std::vector<std::size_t> left_slices, right_slices;  // [heads]: the slice that each head reads

  auto operator<=>(const CircuitShape&) const = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 errs
};

[[nodiscard]] CircuitShape shape_of(const CircuitFactors& factors, std::size_t heads);

/// Random factors with independent normal entries of deviation sqrt(2 / (dimension + width)). They depend
/// only on the seed and the draw, not on the number of threads.
class DrawnHeads {
 public:
  DrawnHeads(const CircuitShape& shape, std::uint64_t seed, std::uint64_t draw, Pool& pool);

  /// Multiplies rows i d/h .. (i+1) d/h of head i by the gain on both sides. The heads must not share
  /// slices.
  void specialise(double gain);

  [[nodiscard]] CircuitFactors factors() const;
  /// Returns the slices [slices, dimension, width].
  [[nodiscard]] std::vector<float> left() const;
  [[nodiscard]] std::vector<float> right() const;

 private:
  CircuitShape shape_;
  OwnedMatrix<float> left_, right_;  // [slices width, dimension]
};

/// Effective ranks of the heads' circuits and their similarities.
struct HeadDiversity {
  std::vector<double> effective_ranks;
  OwnedMatrix<double> similarity;
  double mean_rank = 0;
  OffDiagonal off_diagonal;
};
[[nodiscard]] HeadDiversity measure(const DrawnHeads& drawn, std::size_t heads, Pool& pool);

/// Mean and sample standard deviation (n - 1). The deviation needs at least two values.
struct Spread {
  std::optional<double> mean;
  std::optional<double> deviation;
};
[[nodiscard]] Spread spread_of(std::span<const double> values);

}  // namespace attnctl
