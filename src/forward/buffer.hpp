#pragma once

#include <cstddef>
#include <memory>
#include <new>

#include "base/checked.hpp"
#include "base/matrix_view.hpp"

namespace attnctl::forward {

/// Memory of a matrix that is filled anew for every layer and block: it grows, is never shrunk and never
/// cleared.
class Buffer {
 public:
  /// [rows, cols], its values undefined. What was taken before is lost where it grows.
  [[nodiscard]] MatrixView<float> take(std::size_t rows, std::size_t cols) {
    const auto size = checked_mul(rows, cols);
    if (!size) throw std::bad_alloc();
    if (*size > size_) {
      values_.reset();  // not both at once
      values_ = std::make_unique_for_overwrite<float[]>(*size);
      size_ = *size;
    }
    return {values_.get(), rows, cols};
  }

 private:
  std::unique_ptr<float[]> values_;
  std::size_t size_ = 0;
};

}  // namespace attnctl::forward
