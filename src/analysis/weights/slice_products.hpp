#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "analysis/similarity/subspace_similarity.hpp"
#include "base/matrix_view.hpp"

namespace attnctl {

// <A, B> = sum((L_a^T L_b) o (R_a^T R_b)) of two heads' circuits L R^T, from the products of their slices.
// Both classes keep their memory from call to call: one for each worker.

/// One side's slice of a head; heads that share it have equal ones.
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

/// In double, a pair at a time.
class PairProduct {
 public:
  double inner(const ComparedHead& a, const ComparedHead& b);

 private:
  /// A slice by columns, read where it is not the one that was read before.
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

/// In float32, of the weights where they lie, for all pairs of two blocks of heads: slices that are
/// neighbours in the model are multiplied together. Gains are left out, and products of slices that lie in
/// unlike orientations mean nothing.
class BlockProduct {
 public:
  void multiply(std::span<const ComparedHead> rows, std::span<const ComparedHead> cols);
  /// <A, B> of head i of the rows and head j of the columns, summed in double.
  [[nodiscard]] double inner(std::size_t i, std::size_t j) const;

 private:
  /// Slices beside each other in the model.
  struct Run {
    Slice first;
    std::size_t count = 0;
    std::size_t begin = 0;  // of its part of the product
  };
  /// One side of a block of heads, each distinct slice once.
  struct Slices {
    std::vector<Run> runs;
    std::vector<std::size_t> begin;  // of each head's part of the product
    std::size_t width = 0;           // of all

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
  std::size_t width_ = 0;  // of a slice
};

}  // namespace attnctl
