#include "attnctl/analysis/subspace_similarity.hpp"

#include "attnctl/linalg/gemm.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace attnctl {
namespace {

/// One side's slice of a head; heads that share it have equal ones.
struct Slice {
  const CircuitFactor* factor = nullptr;
  std::size_t head = 0;

  bool operator==(const Slice& other) const {
    return factor == other.factor &&
           (factor == nullptr || factor->slice_of(head) == factor->slice_of(other.head));
  }
};

/// Products of slices in float32, where they lie.
class ProductsInPlace {
 public:
  using Value = float;
  static void multiply(const Slice& a, const Slice& b, MatrixView<float> product) {
    if (a.factor->by_rows()) {
      gemm_nt(a.factor->stored(a.head), b.factor->stored(b.head), product);
    } else {
      gemm_tn(a.factor->stored(a.head), b.factor->stored(b.head), product);
    }
  }
};

/// A slice in double by columns, kept until another is read.
class SliceBuffer {
 public:
  MatrixView<const double> read(const Slice& slice) {
    const CircuitFactor& factor = *slice.factor;
    if (slice == kept_) return std::as_const(columns_).view();
    if (columns_.rows() != factor.width() || columns_.cols() != factor.dimension()) {
      columns_ = OwnedMatrix<double>(factor.width(), factor.dimension());
    }
    factor.read_columns(slice.head, columns_.view());
    kept_ = slice;
    return std::as_const(columns_).view();
  }

 private:
  Slice kept_;
  OwnedMatrix<double> columns_;
};

/// Products of slices in double.
class ProductsInDouble {
 public:
  using Value = double;
  void multiply(const Slice& a, const Slice& b, MatrixView<double> product) {
    gemm_nt(first_.read(a), second_.read(b), product);
  }

 private:
  SliceBuffer first_, second_;
};

/// The product of the slices of one side [width, width], kept until that of others is asked for.
template <typename Products>
class Gram {
 public:
  std::span<const typename Products::Value> of(const Slice& a, const Slice& b) {
    if (a == a_ && b == b_) return values_;
    const std::size_t rows = a.factor->width();
    const std::size_t cols = b.factor->width();
    values_.resize(rows * cols);
    products_.multiply(a, b, {values_.data(), rows, cols});
    a_ = a;
    b_ = b;
    return values_;
  }

 private:
  Products products_;
  Slice a_, b_;
  std::vector<typename Products::Value> values_;
};

template <typename Products>
class InnerProduct {
 public:
  /// <A, B>, summed in double.
  double of(const ComparedHead& a, const ComparedHead& b) {
    const auto left = left_.of({&a.factors->left, a.head}, {&b.factors->left, b.head});
    const auto right = right_.of({&a.factors->right, a.head}, {&b.factors->right, b.head});
    return std::transform_reduce(
        left.begin(), left.end(), right.begin(), 0.0, std::plus<>(),
        [](auto l, auto r) { return static_cast<double>(l) * static_cast<double>(r); });
  }

 private:
  Gram<Products> left_, right_;
};

/// Whether float32 products give the cosine to six decimals. Their rounding moves it by up to about
/// 8 eps(float32) times the cancellation of both heads over the width, and by a hundredth of that where heads
/// are unlike. Trained and random heads have a product of cancellations near the width or below. Narrow
/// slices, where fewer errors average out, are cheap in double.
bool serves_in_place(const ComparedHead& a, const ComparedHead& b) {
  constexpr std::size_t narrow = 32;
  const auto same_kind = [](const CircuitFactor& x, const CircuitFactor& y) {
    return !x.folded() && !y.folded() && x.by_rows() == y.by_rows();
  };
  const std::size_t width = a.factors->left.width();
  return width >= narrow && a.cancellation * b.cancellation <= 2 * static_cast<double>(width) &&
         same_kind(a.factors->left, b.factors->left) && same_kind(a.factors->right, b.factors->right);
}

/// What a worker computes cosines with.
class Comparer {
 public:
  double cosine(const ComparedHead& a, const ComparedHead& b) {
    const double inner = serves_in_place(a, b) ? in_place_.of(a, b) : in_double_.of(a, b);
    const double cosine = inner / a.norm / b.norm;
    // Rounding may pass 1 by a little; a sum that overflowed is no number.
    return std::isfinite(cosine) ? std::clamp(cosine, -1.0, 1.0) : std::numeric_limits<double>::quiet_NaN();
  }

 private:
  InnerProduct<ProductsInPlace> in_place_;
  InnerProduct<ProductsInDouble> in_double_;
};

bool has_norm(const ComparedHead& head) {
  return std::isfinite(head.norm) && head.norm > 0;
}

/// A head of a set and some that follow it.
struct PairTask {
  std::size_t set, row, first, last;
};

/// Neighbours often share a slice, whose products then serve the whole task.
constexpr std::size_t task_heads = 8;

std::vector<PairTask> tasks_of(std::span<const std::vector<ComparedHead>> sets) {
  std::vector<PairTask> tasks;
  for (std::size_t set = 0; set < sets.size(); ++set) {
    const std::size_t heads = sets[set].size();
    for (std::size_t row = 0; row < heads; ++row) {
      for (std::size_t first = row + 1; first < heads;) {
        const std::size_t last = std::min((first / task_heads + 1) * task_heads, heads);
        tasks.push_back({set, row, first, last});
        first = last;
      }
    }
  }
  return tasks;
}

}  // namespace

double circuit_mass(MatrixView<const double> left_columns, MatrixView<const double> right_columns) {
  constexpr double smallest = 0x1p-40;
  constexpr double largest = 0x1p40;
  double mass = 0;
  for (std::size_t c = 0; c < left_columns.rows; ++c) {
    double product = 1;
    for (const auto column : {left_columns.row(c), right_columns.row(c)}) {
      const double norm = std::sqrt(std::transform_reduce(column.begin(), column.end(), 0.0, std::plus<>(),
                                                          [](double value) { return value * value; }));
      if (norm != 0 && !(norm >= smallest && norm <= largest)) return std::numeric_limits<double>::infinity();
      product *= norm;
    }
    mass += product;
  }
  return mass;
}

std::vector<OwnedMatrix<double>> frobenius_cosines(std::span<const std::vector<ComparedHead>> sets,
                                                   Pool& pool) {
  std::vector<OwnedMatrix<double>> similarities;
  for (const std::vector<ComparedHead>& heads : sets) {
    OwnedMatrix<double>& similarity = similarities.emplace_back(heads.size(), heads.size());
    std::ranges::fill(similarity.values(), std::numeric_limits<double>::quiet_NaN());
    for (std::size_t i = 0; i < heads.size(); ++i) {
      if (has_norm(heads[i])) similarity(i, i) = 1;
    }
  }
  const std::vector<PairTask> tasks = tasks_of(sets);
  std::vector<Comparer> comparers(pool.size());
  pool.run(tasks.size(), [&](std::size_t number, std::size_t worker) {
    const PairTask& task = tasks[number];
    const std::vector<ComparedHead>& heads = sets[task.set];
    if (!has_norm(heads[task.row])) return;
    for (std::size_t col = task.first; col < task.last; ++col) {
      if (!has_norm(heads[col])) continue;
      const double cosine = comparers[worker].cosine(heads[task.row], heads[col]);
      similarities[task.set](task.row, col) = cosine;
      similarities[task.set](col, task.row) = cosine;
    }
  });
  return similarities;
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
