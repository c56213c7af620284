#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "analysis/similarity/subspace_similarity.hpp"
#include "base/matrix_view.hpp"

namespace attnctl {

// Inner products <A, B> = sum((L_a^T L_b) o (R_a^T R_b)) of two heads' circuits L R^T, from products of
// their slices. Both classes keep their buffers between calls. Use one object per worker.

/// The slice of a head on one side. Heads that share a slice have equal ones.
struct Slice {
  const CircuitFactor* factor = nullptr;
  std::size_t head = 0;

  [[nodiscard]] std::size_t number() const { return factor->slice_of(head); }
  bool operator==(const Slice& other) const {
    return factor == other.factor && (factor == nullptr || number() == other.number());
  }
  [[nodiscard]] bool follows(const Slice& other) const {
    return factor == other.factor && number() == other.number() + 1;
  }
};

/// Computes inner products in double, one pair at a time.
class PairProduct {
 public:
  double inner(const ComparedHead& a, const ComparedHead& b);

 private:
  /// A transposed slice. read() reuses the values if the same slice is requested again.
  struct Columns {
    Slice slice;
    OwnedMatrix<double> values;
    MatrixView<const double> read(const Slice& wanted);
  };
  struct Side {
    Columns a, b;
    OwnedMatrix<double> product;  // [width of a, width of b]
    void multiply(const Slice& first, const Slice& second);
  };
  Side left_, right_;
};

/// Computes inner products for all pairs of two blocks of heads in float32, from the weights in place.
/// Adjacent slices in the model are multiplied together. Ignores gains. All slices must have the same
/// orientation.
class BlockProduct {
 public:
  void multiply(std::span<const ComparedHead> rows, std::span<const ComparedHead> cols);
  /// Returns <A, B> of head i of the rows and head j of the columns, summed in double.
  [[nodiscard]] double inner(std::size_t i, std::size_t j) const;

 private:
  /// Adjacent slices in the model.
  struct Run {
    Slice first;
    std::size_t count = 0;
    std::size_t begin = 0;  // offset in the product
  };
  /// One side of a block of heads, with each distinct slice once.
  struct Slices {
    std::vector<Run> runs;
    std::vector<std::size_t> begin;  // [heads]: offset in the product
    std::size_t width = 0;           // total width

    Slices() = default;
    Slices(std::span<const ComparedHead> heads, CircuitFactor CircuitFactors::*side);
  };
  struct Side {
    Slices rows, cols;
    std::vector<float> values;
    [[nodiscard]] MatrixView<float> product() { return {values.data(), rows.width, cols.width}; }
    [[nodiscard]] MatrixView<const float> product() const { return {values.data(), rows.width, cols.width}; }
    void multiply();
  };
  Side left_, right_;
  std::size_t width_ = 0;  // width of one slice
};

}  // namespace attnctl
