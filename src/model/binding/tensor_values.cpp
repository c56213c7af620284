#include "model/binding/tensor_values.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/error.hpp"

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

std::size_t count_non_finite(DType dtype, std::span<const std::byte> bytes) {
  switch (dtype) {
    case DType::f64:
      return count_non_finite<std::uint64_t>(bytes, 0x7FF0'0000'0000'0000U);
    case DType::f32:
      return count_non_finite<std::uint32_t>(bytes, 0x7F80'0000U);
    case DType::f16:
      return count_non_finite<std::uint16_t>(bytes, 0x7C00U);
    case DType::bf16:
      return count_non_finite<std::uint16_t>(bytes, 0x7F80U);
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
constexpr std::size_t task_elements = std::size_t{1} << 16U;  // worth the waking of a worker

/// Calls work(first, bytes) over ranges of elements that make up all of a view, on the pool where there is
/// one, and after(bytes) behind each piece.
template <typename Work, typename After>
void for_elements(const TensorView& view, Pool* pool, const Work& work, const After& after) {
  const std::size_t size = size_of(view.dtype);
  const std::size_t count = view.bytes.size() / size;
  for (std::size_t first = 0; first < count; first += piece_elements) {
    const std::size_t length = std::min(piece_elements, count - first);
    const std::size_t tasks = pool == nullptr ? 1 : (length + task_elements - 1) / task_elements;
    const auto part = [&](std::size_t task, std::size_t) {
      const std::size_t begin = first + length * task / tasks;
      const std::size_t end = first + length * (task + 1) / tasks;
      work(begin, view.bytes.subspan(begin * size, (end - begin) * size));
    };
    tasks > 1 ? pool->run(tasks, part) : part(0, 0);
    after(view.bytes.subspan(first * size, length * size));
  }
}

}  // namespace

/// What a checkpoint lent.
struct TensorValues::Loan {
  Loan(Checkpoint& checkpoint, std::size_t index)
      : weights(&checkpoint), tensor(index), view(checkpoint.tensor(index)) {}
  ~Loan() { weights->release(tensor); }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;

  Checkpoint* weights;
  std::size_t tensor;
  TensorView view;
};

struct TensorValues::Floats {
  explicit Floats(std::size_t count)
      : memory(std::make_unique_for_overwrite<float[]>(count)), values(memory.get(), count) {}

  std::unique_ptr<float[]> memory;
  std::span<float> values;
};

void TensorValues::warn(std::size_t tensor, const TensorView& view, std::size_t count) {
  if (count == 0) return;
  const TensorInfo& info = weights_->tensors()[tensor];
  warnings_->add("non_finite_weight",
                 fmt::format("{}: tensor \"{}\": {}, the first of {} values that are not finite", info.file,
                             escaped(info.name), first_non_finite(view), count),
                 count);
}

std::shared_ptr<const TensorValues::Loan> TensorValues::borrow(std::size_t tensor) {
  auto loan = loans_[tensor].lock();
  if (!loan) loans_[tensor] = loan = std::make_shared<const Loan>(*weights_, tensor);
  return loan;
}

std::shared_ptr<const TensorValues::Floats> TensorValues::convert_all(std::size_t tensor, const Loan& loan,
                                                                      Pool* pool) {
  const bool check = checked_.insert(tensor).second;
  std::atomic<std::size_t> non_finite = 0;
  const auto made = std::make_shared<const Floats>(loan.view.bytes.size() / size_of(loan.view.dtype));
  for_elements(
      loan.view, pool,
      [&](std::size_t first, std::span<const std::byte> bytes) {
        if (check) non_finite += count_non_finite(loan.view.dtype, bytes);
        convert(loan.view.dtype, bytes, made->values.subspan(first, bytes.size() / size_of(loan.view.dtype)));
      },
      [&](std::span<const std::byte> piece) { weights_->forget(tensor, piece); });
  warn(tensor, loan.view, non_finite);
  return made;
}

TensorValues::Kept TensorValues::values(std::size_t tensor, Pool* pool) {
  if (const auto found = converted_[tensor].lock()) return {found->values, found};
  const auto loan = borrow(tensor);
  if (!is_borrowable(loan->view)) {
    const auto made = convert_all(tensor, *loan, pool);
    converted_[tensor] = made;
    return {made->values, made};
  }
  if (checked_.insert(tensor).second) {
    std::atomic<std::size_t> non_finite = 0;
    for_elements(
        loan->view, pool,
        [&](std::size_t, std::span<const std::byte> bytes) {
          non_finite += count_non_finite(DType::f32, bytes);
        },
        [](std::span<const std::byte>) {});
    warn(tensor, loan->view, non_finite);
  }
  return {{reinterpret_cast<const float*>(loan->view.bytes.data()), loan->view.bytes.size() / sizeof(float)},
          loan};
}

TensorValues::Kept TensorValues::in_out_of_heads(const BoundMatrix& bound, Pool* pool) {
  if (const auto found = rearranged_[bound.tensor].lock()) return {found->values, found};
  const Kept stored = values(bound.tensor, pool);
  const auto made = std::make_shared<const Floats>(stored.values.size());
  const std::size_t out = bound.out();
  const std::size_t each = out / bound.heads;
  for (std::size_t head = 0; head < bound.heads; ++head) {
    for (std::size_t i = 0; i < bound.in; ++i) {
      std::memcpy(made->values.data() + i * out + head * each,
                  stored.values.data() + (head * bound.in + i) * each, each * sizeof(float));
    }
  }
  rearranged_[bound.tensor] = made;
  return {made->values, made};
}

TensorValues::Table TensorValues::table(std::size_t tensor, Pool* pool) {
  const auto loan = borrow(tensor);
  if (checked_.insert(tensor).second) {
    std::atomic<std::size_t> non_finite = 0;
    for_elements(
        loan->view, pool,
        [&](std::size_t, std::span<const std::byte> bytes) {
          non_finite += count_non_finite(loan->view.dtype, bytes);
        },
        [&](std::span<const std::byte> piece) { weights_->forget(tensor, piece); });
    warn(tensor, loan->view, non_finite);
  }
  TensorView view = loan->view;
  if (view.shape.size() == 3) view.shape.erase(view.shape.begin());  // [1, rows, width]
  return {{view}, loan};
}

/// What slices are gathered from is kept until they all are.
TensorValues::Kept WeightReader::hold(TensorValues::Kept kept, const Slices& slices) {
  (slices.contiguous() ? holding_ : gathered_from_).push_back(kept.owner);
  return kept;
}

std::vector<float>& WeightReader::keep(std::size_t size) {
  auto kept = std::make_shared<std::vector<float>>(size);
  holding_.push_back(kept);
  return *kept;
}

std::span<const float> WeightReader::vector(const BoundVector& bound) {
  if (bound.tensor == no_tensor) return {};
  const Slices& slices = bound.elements;
  const TensorValues::Kept stored = hold(values_.values(bound.tensor, pool_), slices);
  const std::span<const float> all = stored.values.subspan(bound.expert * slices.all, slices.all);
  if (slices.contiguous()) return all.subspan(slices.first, slices.each);
  std::vector<float>& kept = keep(slices.count());
  for (std::size_t i = 0; i < kept.size(); ++i) kept[i] = all[slices.place(i)];
  return kept;
}

/// One after the other, something added to each.
std::span<const float> WeightReader::joined(const std::vector<BoundVector>& parts, float offset) {
  if (parts.empty()) return {};
  if (parts.size() == 1 && offset == 0) return vector(parts.front());
  std::vector<float>& kept = keep(0);
  for (const BoundVector& part : parts) {
    for (const float value : vector(part)) kept.push_back(value + offset);
  }
  return kept;
}

StoredMatrix WeightReader::matrix(const BoundMatrix& bound) {
  if (bound.tensor == no_tensor) return {};
  const Slices& slices = bound.outputs;
  const std::size_t size = slices.all * bound.in;
  const TensorValues::Kept all = hold(
      bound.heads > 0 ? values_.in_out_of_heads(bound, pool_) : values_.values(bound.tensor, pool_), slices);
  const std::span<const float> stored =
      bound.heads > 0 ? all.values : all.values.subspan(bound.expert * size, size);
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

Linear WeightReader::linear(const BoundLinear& bound) {
  const StoredMatrix weight = matrix(bound.weight);
  return {weight.values, weight.orientation, vector(bound.bias), matrix(bound.first)};
}

NormWeights WeightReader::norm(const BoundNorm& bound) {
  return {joined(bound.gain, bound.gain_offset), joined(bound.bias, 0)};
}

MatrixView<const float> WeightReader::columns(const BoundVector& bound, std::size_t count) {
  const std::span<const float> stored = vector(bound);
  return {stored.data(), stored.size() / count, count};
}

LookupTable WeightReader::table(std::size_t tensor) {
  if (tensor == no_tensor) return {};
  TensorValues::Table found = values_.table(tensor, pool_);
  holding_.push_back(std::move(found.owner));
  return found.table;
}

}  // namespace attnctl
