#include "forward/attention/linear_attention.hpp"

#include <algorithm>
#include <cmath>

#include "linalg/gemm.hpp"

namespace attnctl::forward {
namespace {

/// phi(x) = elu(x) + 1.
double linear_feature(float x) {
  const auto wide = static_cast<double>(x);
  return wide > 0 ? wide + 1 : std::exp(wide);
}

}  // namespace

LinearHead::LinearHead(MatrixView<const float> q, MatrixView<const float> k, MatrixView<const float> v,
                       const Visibility& visibility, bool patterns)
    : q_(q),
      k_(k),
      v_(v),
      visibility_(visibility),
      key_sums_(k.cols),
      products_(k.cols * v.cols),
      total_(v.cols) {
  if (!patterns) return;
  key_features_.reserve(k.rows * k.cols);
  for (std::size_t j = 0; j < k.rows; ++j) {
    for (const float x : k.row(j)) key_features_.push_back(static_cast<float>(linear_feature(x)));
  }
}

void LinearHead::add_key(std::size_t j) {
  if (!visibility_.shows(j)) return;
  any_ = true;
  for (std::size_t c = 0; c < k_.cols; ++c) {
    const double feature = linear_feature(k_(j, c));
    key_sums_[c] += feature;
    double* const row = products_.data() + c * v_.cols;
    for (std::size_t e = 0; e < v_.cols; ++e) row[e] += feature * static_cast<double>(v_(j, e));
  }
}

std::optional<double> LinearHead::next(std::size_t i, std::span<float> z) {
  const std::size_t last = visibility_.of_query(i).last;
  for (; added_ < last; ++added_) add_key(added_);
  std::fill(total_.begin(), total_.end(), 0.0);
  double sum = 0;
  for (std::size_t c = 0; c < q_.cols; ++c) {
    const double feature = linear_feature(q_(i, c));
    sum += feature * key_sums_[c];
    const double* const row = products_.data() + c * v_.cols;
    for (std::size_t e = 0; e < total_.size(); ++e) total_[e] += feature * row[e];
  }
  for (std::size_t e = 0; e < z.size(); ++e) z[e] = any_ ? static_cast<float>(total_[e] / sum) : 0.0F;
  return any_ ? std::optional(sum) : std::nullopt;
}

void LinearHead::weights(std::size_t first, std::span<const double> sums, KeyRange range,
                         MatrixView<float> out) {
  query_features_.clear();
  for (std::size_t r = 0; r < sums.size(); ++r) {
    // Dividing before rounding to float32 keeps large and small queries in range.
    for (const float x : q_.row(first + r)) {
      query_features_.push_back(static_cast<float>(linear_feature(x) / sums[r]));
    }
  }
  const MatrixView<const float> queries(query_features_.data(), sums.size(), q_.cols);
  const MatrixView<const float> keys(key_features_.data(), k_.rows, k_.cols);
  gemm_nt(queries, keys.row_range(range.first, range.size()), out);
}

}  // namespace attnctl::forward
