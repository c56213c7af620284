#include "model/tensor_values.hpp"

#include "attnctl/base/error.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace attnctl {
namespace {

/// How many numbers have all exponent bits set: infinities and NaNs.
template <typename Bits>
std::size_t count_non_finite(std::span<const std::byte> bytes, Bits exponent) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < bytes.size(); i += sizeof(Bits)) {
    Bits bits = 0;
    std::memcpy(&bits, bytes.data() + i, sizeof bits);
    count += (bits & exponent) == exponent ? 1 : 0;
  }
  return count;
}

std::size_t count_non_finite(const TensorView& view) {
  switch (view.dtype) {
    case DType::f64:
      return count_non_finite<std::uint64_t>(view.bytes, 0x7FF0'0000'0000'0000U);
    case DType::f32:
      return count_non_finite<std::uint32_t>(view.bytes, 0x7F80'0000U);
    case DType::f16:
      return count_non_finite<std::uint16_t>(view.bytes, 0x7C00U);
    case DType::bf16:
      return count_non_finite<std::uint16_t>(view.bytes, 0x7F80U);
    default:
      return 0;
  }
}

std::string first_non_finite(const TensorView& view) {
  const std::size_t size = size_of(view.dtype);
  double value = 0;
  std::size_t place = 0;
  for (; place < view.bytes.size() / size; ++place) {
    convert(view.dtype, view.bytes.subspan(place * size, size), std::span(&value, 1));
    if (!std::isfinite(value)) break;
  }
  Shape index(view.shape.size());
  for (std::size_t axis = index.size(); axis-- > 0; place /= view.shape[axis])
    index[axis] = place % view.shape[axis];
  return fmt::format("{} at {}", value, to_string(index));
}

bool is_borrowable(const TensorView& view) {
  return std::endian::native == std::endian::little && view.dtype == DType::f32 &&
         reinterpret_cast<std::uintptr_t>(view.bytes.data()) % alignof(float) == 0;
}

}  // namespace

void TensorValues::check_finite(std::size_t tensor, const TensorView& view) {
  if (!checked_.insert(tensor).second) return;
  const std::size_t count = count_non_finite(view);
  if (count == 0) return;
  const TensorInfo& info = weights_->tensors()[tensor];
  warnings_->add("non_finite_weight",
                 fmt::format("{}: tensor \"{}\": {}, the first of {} values that are not finite", info.file,
                             escaped(info.name), first_non_finite(view), count),
                 count);
}

std::span<const float> TensorValues::values(std::size_t tensor) {
  const auto found = converted_.find(tensor);
  if (found != converted_.end()) return found->second;
  const TensorView view = weights_->tensor(tensor);
  check_finite(tensor, view);
  const std::size_t count = view.bytes.size() / size_of(view.dtype);
  if (is_borrowable(view)) return {reinterpret_cast<const float*>(view.bytes.data()), count};
  std::vector<float>& kept = converted_[tensor];
  kept.resize(count);
  convert(view.dtype, view.bytes, kept);
  weights_->release(tensor);
  return kept;
}

std::vector<float>& TensorValues::keep(std::size_t size) {
  return gathered_.emplace_back(size);
}

std::span<const float> TensorValues::vector(const BoundVector& bound) {
  if (bound.tensor == no_tensor) return {};
  const Slices& slices = bound.elements;
  const std::span<const float> all = values(bound.tensor).subspan(bound.expert * slices.all, slices.all);
  if (slices.contiguous()) return all.subspan(slices.first, slices.each);
  std::vector<float>& kept = keep(slices.count());
  for (std::size_t i = 0; i < kept.size(); ++i) kept[i] = all[slices.place(i)];
  return kept;
}

/// One after the other, something added to each.
std::span<const float> TensorValues::joined(const std::vector<BoundVector>& parts, float offset) {
  if (parts.empty()) return {};
  if (parts.size() == 1 && offset == 0) return vector(parts.front());
  std::vector<float>& kept = keep(0);
  for (const BoundVector& part : parts) {
    for (const float value : vector(part)) kept.push_back(value + offset);
  }
  return kept;
}

/// [heads, in, k] as [in, heads k].
std::span<const float> TensorValues::in_out_of_heads(const BoundMatrix& bound) {
  std::vector<float>& kept = rearranged_[bound.tensor];
  if (!kept.empty()) return kept;
  const std::span<const float> stored = values(bound.tensor);
  kept.resize(stored.size());
  const std::size_t out = bound.out();
  const std::size_t each = out / bound.heads;
  for (std::size_t head = 0; head < bound.heads; ++head) {
    for (std::size_t i = 0; i < bound.in; ++i) {
      std::memcpy(kept.data() + i * out + head * each, stored.data() + (head * bound.in + i) * each,
                  each * sizeof(float));
    }
  }
  return kept;
}

StoredMatrix TensorValues::matrix(const BoundMatrix& bound) {
  if (bound.tensor == no_tensor) return {};
  const Slices& slices = bound.outputs;
  const std::size_t size = slices.all * bound.in;
  const std::span<const float> stored =
      bound.heads > 0 ? in_out_of_heads(bound) : values(bound.tensor).subspan(bound.expert * size, size);
  if (bound.axes == Axes::out_in) {
    if (slices.contiguous())
      return {{stored.data() + slices.first * bound.in, bound.out(), bound.in}, Orientation::out_in};
    std::vector<float>& kept = keep(bound.out() * bound.in);
    for (std::size_t r = 0; r < bound.out(); ++r) {
      std::memcpy(kept.data() + r * bound.in, stored.data() + slices.place(r) * bound.in,
                  bound.in * sizeof(float));
    }
    return {{kept.data(), bound.out(), bound.in}, Orientation::out_in};
  }
  if (slices.contiguous())
    return {{stored.data() + slices.first, bound.in, bound.out(), slices.all}, Orientation::in_out};
  std::vector<float>& kept = keep(bound.out() * bound.in);
  for (std::size_t r = 0; r < bound.in; ++r) {
    for (std::size_t c = 0; c < bound.out(); ++c)
      kept[r * bound.out() + c] = stored[r * slices.all + slices.place(c)];
  }
  return {{kept.data(), bound.in, bound.out()}, Orientation::in_out};
}

Linear TensorValues::linear(const BoundLinear& bound) {
  const StoredMatrix weight = matrix(bound.weight);
  return {weight.values, weight.orientation, vector(bound.bias), matrix(bound.first)};
}

NormWeights TensorValues::norm(const BoundNorm& bound) {
  return {joined(bound.gain, bound.gain_offset), joined(bound.bias, 0)};
}

MatrixView<const float> TensorValues::columns(const BoundVector& bound, std::size_t count) {
  const std::span<const float> stored = vector(bound);
  return {stored.data(), stored.size() / count, count};
}

LookupTable TensorValues::table(std::size_t tensor) {
  if (tensor == no_tensor) return {};
  TensorView view = weights_->tensor(tensor);
  check_finite(tensor, view);
  if (view.shape.size() == 3) view.shape.erase(view.shape.begin());  // [1, rows, width]
  return {view};
}

}  // namespace attnctl
