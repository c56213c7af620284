#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace attnctl::linalg {

/// Floats aligned to a cache line, for a kernel to work in: the room grows, is never shrunk and never
/// cleared.
class AlignedRoom {
 public:
  [[nodiscard]] float* take(std::size_t size) {
    if (size > size_) {
      values_.reset();                             // not both at once
      values_.reset(new (alignment) float[size]);  // NOLINT(cppcoreguidelines-owning-memory): it owns them
      size_ = size;
    }
    return values_.get();
  }
  [[nodiscard]] float* get() const { return values_.get(); }

 private:
  static constexpr std::align_val_t alignment{64};
  struct Free {
    void operator()(float* values) const { ::operator delete[](values, alignment); }
  };
  std::unique_ptr<float[], Free> values_;
  std::size_t size_ = 0;
};

}  // namespace attnctl::linalg
