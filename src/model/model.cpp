#include "model/model.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <utility>

#include "base/numbers.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/readers.hpp"
#include "linalg/kernels/kernels.hpp"
#include "model/binding/binding.hpp"
#include "model/config/resolve.hpp"
#include "model/families/family.hpp"

// Reads the weights of a model at their first use and leases them.
namespace attnctl::model {
namespace {

/// Number of elements that are converted before their pages of the mapped file are released.
constexpr std::size_t kPieceElements = std::size_t{1} << 22U;
/// Largest number of elements per task of a parallel conversion. That much work is worth waking a worker.
constexpr std::size_t kTaskElements = std::size_t{1} << 16U;

/// Counts infinities and NaNs, which are the numbers whose exponent bits are all 1.
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
  if (dtype == DType::f64) return count_non_finite<std::uint64_t>(bytes, 0x7FF0'0000'0000'0000U);
  if (dtype == DType::f32) return count_non_finite<std::uint32_t>(bytes, 0x7F80'0000U);
  if (dtype == DType::f16) return count_non_finite<std::uint16_t>(bytes, 0x7C00U);
  if (dtype == DType::bf16) return count_non_finite<std::uint16_t>(bytes, 0x7F80U);
  if (dtype == DType::f8_e5m2) return count_non_finite<std::uint8_t>(bytes, 0x7CU);
  if (dtype == DType::f8_e4m3) return count_non_finite<std::uint8_t>(bytes, 0x7FU);
  return 0;
}

std::string first_non_finite(const checkpoint::TensorView& view) {
  const std::size_t size = size_of(view.dtype);
  double value = 0;
  std::size_t position = 0;
  for (; position < view.bytes.size() / size; ++position) {
    convert(view.dtype, view.bytes.subspan(position * size, size), std::span(&value, 1));
    if (!std::isfinite(value)) break;
  }
  Shape index(view.shape.size());
  for (std::size_t axis = index.size(); axis-- > 0; position /= view.shape[axis])
    index[axis] = position % view.shape[axis];
  return fmt::format("{} at {}", value, to_string(index));
}

std::uint64_t element_count(const checkpoint::TensorInfo& info) {
  return checked_product(info.shape).value_or(0);
}

/// Returns whether products can use a weight as its file stores it. Rows of blocks must be whole outputs,
/// unless each block is one number and the outputs are adjacent columns.
bool can_stay_encoded(const std::optional<checkpoint::EncodedTensor>& stored, const BoundMatrix& bound) {
  if (!stored || bound.heads > 0) return false;
  if (stored->transposed && bound.expert > 0) return false;
  const bool by_output = (bound.axes == Axes::out_in) != stored->transposed;
  return by_output || (linalg::block_size(stored->encoding).values == 1 && bound.outputs.contiguous());
}

/// Shared pointers that own the memory to which some views point.
using Owners = std::vector<std::shared_ptr<const void>>;

}  // namespace

/// Gives access to the tensors of a checkpoint: as float32, or as tables of rows in their stored type. Values
/// that are stored as aligned float32 are views; other values are converted. A tensor is read again only if
/// its values have no owner any more. Adds the warning `non_finite_weight` at the first use of a tensor with
/// NaN or infinite values. Callers must hold mutex(). Functions that return a view append the owner of its
/// memory to `owners`.
class TensorCache {
 public:
  TensorCache(checkpoint::Checkpoint& weights, Warnings& warnings) : weights_(weights), warnings_(warnings) {}

  [[nodiscard]] std::span<const float> values(std::size_t tensor, Owners& owners, Pool* pool) {
    const std::size_t count = element_count(weights_.tensors()[tensor]);
    if (const auto found = converted_[tensor].lock()) {
      owners.push_back(found);
      return {found.get(), count};
    }
    const auto loan = borrow(tensor);
    const checkpoint::TensorView& view = *loan;
    const bool is_new = checked_.insert(tensor).second;
    const bool aligned = reinterpret_cast<std::uintptr_t>(view.bytes.data()) % alignof(float) == 0;
    if (view.dtype == DType::f32 && aligned) {
      if (is_new) read(tensor, view, pool, {.check = true}, [](std::size_t, std::span<const std::byte>) {});
      owners.push_back(loan);
      return {reinterpret_cast<const float*>(view.bytes.data()), count};
    }
    const std::shared_ptr<float[]> made = std::make_unique_for_overwrite<float[]>(count);
    read(tensor, view, pool, {.check = is_new, .forget = true},
         [&](std::size_t first, std::span<const std::byte> bytes) {
           convert(view.dtype, bytes, std::span(made.get() + first, bytes.size() / size_of(view.dtype)));
         });
    converted_[tensor] = made;
    owners.push_back(made);
    return {made.get(), count};
  }

  /// Returns a tensor as a table. Releases its pages of the mapped file after the check for non-finite
  /// values, because only a few rows will be read.
  [[nodiscard]] LookupTable table(std::size_t tensor, Owners& owners) {
    const checkpoint::TensorInfo& info = weights_.tensors()[tensor];
    const auto& stored = weights_.encoded(tensor);
    if (stored && linalg::block_size(stored->encoding).values > 1 && info.shape.size() == 2 &&
        !stored->transposed && stored->head_rows == 0) {
      check_encoded(tensor, *stored, nullptr, true);
      owners.push_back(borrow_stored(tensor));
      const std::size_t rows = info.shape[0];
      return {{info.dtype, info.shape, {}},
              {stored->bytes.data(), stored->encoding, rows, info.shape[1], stored->bytes.size() / rows}};
    }
    const auto loan = borrow(tensor);
    if (checked_.insert(tensor).second)
      read(tensor, *loan, nullptr, {.check = true, .forget = true},
           [](std::size_t, std::span<const std::byte>) {});
    owners.push_back(loan);
    checkpoint::TensorView view = *loan;
    if (view.shape.size() == 3) view.shape.erase(view.shape.begin());  // [1, rows, width]
    return {view};
  }

  [[nodiscard]] const std::optional<checkpoint::EncodedTensor>& encoding_of(std::size_t tensor) const {
    return weights_.encoded(tensor);
  }

  /// Returns the stored bytes of a tensor, or nullopt if they are not encoded.
  [[nodiscard]] std::optional<checkpoint::EncodedTensor> encoded(std::size_t tensor, Owners& owners,
                                                                 Pool* pool) {
    const auto& stored = weights_.encoded(tensor);
    if (!stored) return std::nullopt;
    check_encoded(tensor, *stored, pool, false);
    owners.push_back(borrow_stored(tensor));
    return stored;
  }

  /// Returns the mutex of the cache and the checkpoint. The mutex is recursive, because destroying values
  /// locks it too, which can happen while it is already locked.
  [[nodiscard]] std::recursive_mutex& mutex() { return mutex_; }

 private:
  /// Borrows a tensor from the checkpoint. A new loan of a tensor may begin before the end of the previous
  /// one. Therefore loans are counted, and the tensor is released when the count is 0.
  std::shared_ptr<const checkpoint::TensorView> borrow(std::size_t tensor) {
    auto loan = loans_[tensor].lock();
    if (loan) return loan;
    auto view = std::make_unique<const checkpoint::TensorView>(weights_.tensor(tensor));
    ++loan_counts_[tensor];
    loan = {view.release(), [this, tensor](const checkpoint::TensorView* returned) {
              const std::unique_ptr<const checkpoint::TensorView> owner(returned);
              const std::lock_guard lock(mutex_);
              if (--loan_counts_[tensor] == 0) weights_.release(tensor);
            }};
    loans_[tensor] = loan;
    return loan;
  }

  /// Returns an owner of the stored bytes of a tensor. The memory of the bytes is freed with the last owner.
  std::shared_ptr<const void> borrow_stored(std::size_t tensor) {
    auto loan = stored_loans_[tensor].lock();
    if (loan) return loan;
    loan = {&weights_, [this, tensor](const void*) {
              const std::lock_guard lock(mutex_);
              weights_.forget_stored(tensor, weights_.encoded(tensor)->bytes);
            }};
    stored_loans_[tensor] = loan;
    return loan;
  }

  /// At the first use of an encoded tensor, adds a warning if it has values that are not finite. If `forget`
  /// is true, releases the pages of the mapped file.
  void check_encoded(std::size_t tensor, const checkpoint::EncodedTensor& stored, Pool* pool, bool forget) {
    if (!checked_.insert(tensor).second) return;
    constexpr std::size_t kValues = 2048;  // a multiple of all block sizes
    const linalg::EncodingBlock block = linalg::block_size(stored.encoding);
    const linalg::Decode decode = linalg::decoders(stored.encoding).rows;
    const std::size_t piece = kPieceElements / block.values * block.bytes;
    const std::size_t task_bytes = kTaskElements / block.values * block.bytes;
    std::atomic<bool> finite = true;
    for (std::size_t first = 0; first < stored.bytes.size(); first += piece) {
      const auto bytes = stored.bytes.subspan(first, std::min(piece, stored.bytes.size() - first));
      const auto run = [&](std::size_t task, std::size_t) {
        std::array<float, kValues> values;
        const std::size_t end = std::min((task + 1) * task_bytes, bytes.size());
        for (std::size_t at = task * task_bytes; at < end;) {
          const std::size_t blocks = std::min(kValues / block.values, (end - at) / block.bytes);
          decode(bytes.data() + at, blocks, values.data());
          if (!linalg::all_finite(std::span<const float>(values).first(blocks * block.values)))
            finite = false;
          at += blocks * block.bytes;
        }
      };
      const std::size_t tasks = (bytes.size() + task_bytes - 1) / task_bytes;
      if (pool != nullptr) {
        pool->run(tasks, run);
      } else {
        for (std::size_t task = 0; task < tasks; ++task) run(task, 0);
      }
      if (forget) weights_.forget_stored(tensor, bytes);
    }
    if (finite) return;
    const auto loan = borrow(tensor);
    read(tensor, *loan, nullptr, {.check = true}, [](std::size_t, std::span<const std::byte>) {});
  }

  struct ReadOptions {
    bool check = false;   // adds a warning if values are not finite
    bool forget = false;  // releases the pages of the mapped file
  };

  /// Calls work(first, bytes) for ranges that together cover all elements of a tensor, in parallel if `pool`
  /// is not null. `first` is the index of the first element of a range.
  template <typename Work>
  void read(std::size_t tensor, const checkpoint::TensorView& view, Pool* pool, ReadOptions options,
            const Work& work) {
    const std::size_t size = size_of(view.dtype);
    const std::size_t count = view.bytes.size() / size;
    std::atomic<std::size_t> non_finite = 0;
    for (std::size_t first = 0; first < count; first += kPieceElements) {
      const std::size_t length = std::min(kPieceElements, count - first);
      const std::size_t tasks = pool == nullptr ? 1 : (length + kTaskElements - 1) / kTaskElements;
      const auto run = [&](std::size_t task, std::size_t) {
        const std::size_t begin = first + length * task / tasks;
        const std::size_t end = first + length * (task + 1) / tasks;
        const auto bytes = view.bytes.subspan(begin * size, (end - begin) * size);
        if (options.check) non_finite += count_non_finite(view.dtype, bytes);
        work(begin, bytes);
      };
      tasks > 1 ? pool->run(tasks, run) : run(0, 0);
      if (options.forget) weights_.forget(tensor, view.bytes.subspan(first * size, length * size));
    }
    if (non_finite == 0) return;
    const checkpoint::TensorInfo& info = weights_.tensors()[tensor];
    warnings_.add(
        "non_finite_weight",
        fmt::format("{}: tensor \"{}\": {} is the first value that is not finite (number of such values: {})",
                    info.file, escaped(info.name), first_non_finite(view), non_finite.load()),
        non_finite);
  }

  std::recursive_mutex mutex_;
  checkpoint::Checkpoint& weights_;
  Warnings& warnings_;
  std::map<std::size_t, std::size_t> loan_counts_;                            // key: index of the tensor
  std::map<std::size_t, std::weak_ptr<const checkpoint::TensorView>> loans_;  // key: index of the tensor
  std::map<std::size_t, std::weak_ptr<const void>> stored_loans_;             // key: index of the tensor
  std::map<std::size_t, std::weak_ptr<const float[]>> converted_;
  std::set<std::size_t> checked_;
};

namespace {

/// Visits all stored parts of weights. One subclass reads them, the other counts their bytes.
class WeightVisitor {
 public:
  virtual ~WeightVisitor() = default;

  NormWeights norm(const BoundNorm& bound) {
    return {joined(bound.gain, bound.gain_offset), joined(bound.bias, 0)};
  }
  EmbeddingWeights embedding(const BoundEmbedding& bound) {
    return {table(bound.token),       table(bound.position),    table(bound.token_type), norm(bound.norm),
            linear(bound.projection), table(bound.class_token), linear(bound.patches)};
  }
  AttentionWeights attention(const BoundLayer& bound) {
    return {linear(bound.query),
            linear(bound.key),
            linear(bound.value),
            linear(bound.output),
            norm(bound.query_norm),
            norm(bound.key_norm),
            rows(bound.relative_bias),
            vector(bound.sinks),
            {rows(bound.distance_table), norm(bound.distance_norm), linear(bound.distance_key),
             linear(bound.distance_query)}};
  }
  LayerWeights layer(const AttentionWeights& attention, const BoundLayer& bound) {
    LayerWeights weights;
    static_cast<AttentionWeights&>(weights) = attention;
    weights.attention_norm = norm(bound.attention_norm);
    weights.mlp_norm = norm(bound.mlp_norm);
    weights.attention_output_norm = norm(bound.attention_output_norm);
    weights.mlp_output_norm = norm(bound.mlp_output_norm);
    weights.mlp = mlp(bound.mlp);
    weights.shared = mlp(bound.shared);
    weights.router = linear(bound.router);
    weights.shared_factor = linear(bound.shared_factor);
    weights.convolution = linear(bound.convolution);
    weights.convolution_norm = norm(bound.convolution_norm);
    for (const BoundMlp& expert : bound.experts) weights.experts.push_back(mlp(expert));
    return weights;
  }
  HeadWeights head(const Binding& bound) {
    return {linear(bound.head_projection), linear(bound.head_transform), norm(bound.head_norm),
            linear(bound.head_decoder)};
  }

 private:
  virtual StoredMatrix matrix(const BoundMatrix& bound) = 0;
  virtual std::span<const float> vector(const BoundVector& bound) = 0;
  /// Returns the concatenated vectors, with `offset` added to each element.
  virtual std::span<const float> joined(const std::vector<BoundVector>& parts, float offset) = 0;
  virtual LookupTable table(std::size_t tensor) = 0;

  Linear linear(const BoundLinear& bound) {
    const StoredMatrix weight = matrix(bound.weight);
    return {weight.values, weight.orientation, vector(bound.bias), matrix(bound.first), weight.encoded};
  }
  MlpWeights mlp(const BoundMlp& bound) { return {linear(bound.up), linear(bound.gate), linear(bound.down)}; }
  MatrixView<const float> rows(const BoundVector& bound) {
    const std::span<const float> stored = vector(bound);
    return {stored.data(), stored.size() / bound.width, bound.width};
  }
};

/// Reads the weights of a model. Appends to `owners` the owners of the memory to which the weights point.
class WeightReader final : public WeightVisitor {
 public:
  WeightReader(TensorCache& tensors, Owners& owners, Pool* pool, WeightForm form)
      : tensors_(tensors), owners_(owners), pool_(pool), form_(form) {}

  void keep(std::shared_ptr<const void> owner) { owners_.push_back(std::move(owner)); }

 private:
  std::span<const float> vector(const BoundVector& bound) override {
    if (bound.tensor == kNoTensor) return {};
    const Slices& slices = bound.elements;
    const std::span<const float> all = tensors_.values(bound.tensor, owners_for(slices), pool_)
                                           .subspan(bound.expert * slices.all, slices.all);
    if (slices.contiguous()) return all.subspan(slices.first, slices.each);
    std::vector<float>& copy = add_buffer(slices.count());
    for (std::size_t i = 0; i < copy.size(); ++i) copy[i] = all[slices.position(i)];
    return copy;
  }

  LookupTable table(std::size_t tensor) override {
    return tensor == kNoTensor ? LookupTable{} : tensors_.table(tensor, owners_);
  }

  StoredMatrix matrix(const BoundMatrix& bound) override {
    if (bound.tensor == kNoTensor) return {};
    if (form_ == WeightForm::stored) {
      const StoredMatrix stored = encoded(bound);
      if (stored.present()) return stored;
    }
    if (bound.heads > 0) return heads_last(bound);
    const Slices& slices = bound.outputs;
    const std::size_t size = slices.all * bound.in;
    const std::span<const float> stored =
        tensors_.values(bound.tensor, owners_for(slices), pool_).subspan(bound.expert * size, size);
    const bool by_output = bound.axes == Axes::out_in;
    if (slices.contiguous() && by_output)
      return {{stored.data() + slices.first * bound.in, bound.out(), bound.in}, Orientation::out_in};
    if (slices.contiguous())
      return {{stored.data() + slices.first, bound.in, bound.out(), slices.all}, Orientation::in_out};
    std::vector<float>& copy = add_buffer(bound.out() * bound.in);
    if (by_output) {
      for (std::size_t r = 0; r < bound.out(); ++r) {
        std::memcpy(copy.data() + r * bound.in, stored.data() + slices.position(r) * bound.in,
                    bound.in * sizeof(float));
      }
      return {{copy.data(), bound.out(), bound.in}, Orientation::out_in};
    }
    for (std::size_t r = 0; r < bound.in; ++r) {
      for (std::size_t c = 0; c < bound.out(); ++c)
        copy[r * bound.out() + c] = stored[r * slices.all + slices.position(c)];
    }
    return {{copy.data(), bound.in, bound.out()}, Orientation::in_out};
  }

  /// Returns a weight as its file stores it; no data if the file does not have it in rows of encoded numbers.
  StoredMatrix encoded(const BoundMatrix& bound) {
    if (!can_stay_encoded(tensors_.encoding_of(bound.tensor), bound)) return {};
    const Slices& slices = bound.outputs;
    const auto stored = tensors_.encoded(bound.tensor, owners_for(slices), pool_);
    const bool by_output = (bound.axes == Axes::out_in) != stored->transposed;
    const linalg::EncodingBlock block = linalg::block_size(stored->encoding);
    linalg::EncodedMatrix made{.data = stored->bytes.data(), .encoding = stored->encoding};
    made.rows = by_output ? slices.all : bound.in;
    made.cols = by_output ? bound.in : slices.all;
    made.stride = made.cols / block.values * block.bytes;
    made.head_rows = stored->head_rows;
    made.data += bound.expert * made.rows * made.stride;
    if (slices.contiguous()) {
      return {
          {},
          by_output ? Orientation::out_in : Orientation::in_out,
          by_output ? made.row_range(slices.first, slices.each) : made.col_range(slices.first, slices.each)};
    }
    const auto copy = std::make_shared<std::vector<std::byte>>(bound.out() * made.stride);
    for (std::size_t r = 0; r < bound.out(); ++r)
      std::memcpy(copy->data() + r * made.stride, made.row(slices.position(r)), made.stride);
    owners_.push_back(copy);
    return {{}, Orientation::out_in, {copy->data(), made.encoding, bound.out(), made.cols, made.stride}};
  }

  /// Returns a projection that is stored as [heads, in, k] as a matrix [in, heads * k].
  StoredMatrix heads_last(const BoundMatrix& bound) {
    const std::size_t out = bound.out();
    const auto [found, is_new] = by_head_.try_emplace(bound.tensor);
    if (is_new) {
      const std::span<const float> stored = tensors_.values(bound.tensor, copied_from_, pool_);
      std::vector<float>& copy = add_buffer(stored.size());
      const std::size_t each = out / bound.heads;
      for (std::size_t head = 0; head < bound.heads; ++head) {
        for (std::size_t i = 0; i < bound.in; ++i) {
          std::memcpy(copy.data() + i * out + head * each, stored.data() + (head * bound.in + i) * each,
                      each * sizeof(float));
        }
      }
      found->second = copy.data();
    }
    return {{found->second, bound.in, out}, Orientation::in_out};
  }

  std::span<const float> joined(const std::vector<BoundVector>& parts, float offset) override {
    if (parts.empty()) return {};
    if (parts.size() == 1 && offset == 0) return vector(parts.front());
    std::vector<float>& all = add_buffer(0);
    for (const BoundVector& part : parts) {
      for (const float value : vector(part)) all.push_back(value + offset);
    }
    return all;
  }

  /// Returns the list that owns the values of a tensor: owners_ if the result is a view of these values;
  /// copied_from_, which exists only as long as this reader, if the result is a copy of slices.
  Owners& owners_for(const Slices& slices) { return slices.contiguous() ? owners_ : copied_from_; }
  std::vector<float>& add_buffer(std::size_t size) {
    auto buffer = std::make_shared<std::vector<float>>(size);
    owners_.push_back(buffer);
    return *buffer;
  }

  TensorCache& tensors_;
  Owners& owners_;
  Owners copied_from_;
  std::map<std::size_t, const float*> by_head_;  // key: index of a tensor; results of heads_last()
  Pool* pool_;
  WeightForm form_;
};

/// Computes an upper bound of the memory for the visited weights, without reading them. The sum contains each
/// tensor once as float32, the copies that WeightReader may make, the temporary memory of the largest
/// conversion, and tables in their stored type (a table that is used twice counts twice). It assumes that at
/// most `table_rows` rows of each table are read.
class WeightBytes final : public WeightVisitor {
 public:
  explicit WeightBytes(const checkpoint::Checkpoint& weights, WeightForm form, std::size_t table_rows = 0)
      : weights_(weights), form_(form), table_rows_(table_rows) {}

  [[nodiscard]] std::uint64_t total() const { return kept_ + conversion_; }

 private:
  LookupTable table(std::size_t tensor) override {
    if (tensor == kNoTensor) return {};
    const checkpoint::TensorInfo& info = weights_.tensors()[tensor];
    const auto& stored = weights_.encoded(tensor);
    const std::uint64_t all = stored ? stored->bytes.size() : element_count(info) * size_of(info.dtype);
    // Reading a row also loads neighbouring pages.
    constexpr std::uint64_t read_ahead = std::uint64_t{1} << 17U;
    const std::uint64_t row = all / std::max<std::uint64_t>(info.shape.empty() ? 1 : info.shape.front(), 1);
    const std::uint64_t read = checked_mul<std::uint64_t>(table_rows_, row + read_ahead).value_or(all);
    const std::uint64_t checked = std::uint64_t{kPieceElements} * size_of(info.dtype);
    const std::uint64_t copied = stored ? 0 : weights_.copied_bytes(tensor);
    kept_ += copied > 0 ? copied : std::min(all, std::max(read, checked));
    return {};
  }

  StoredMatrix matrix(const BoundMatrix& bound) override {
    if (bound.tensor == kNoTensor) return {};
    const auto& stored = weights_.encoded(bound.tensor);
    if (form_ == WeightForm::stored && can_stay_encoded(stored, bound)) {
      if (encoded_.insert(bound.tensor).second) kept_ += stored->bytes.size();
      if (!bound.outputs.contiguous()) kept_ += stored->bytes.size() / bound.outputs.all * bound.out();
      return {};
    }
    add_tensor(bound.tensor);
    if (bound.heads > 0) kept_ += element_count(weights_.tensors()[bound.tensor]) * sizeof(float);
    if (!bound.outputs.contiguous()) kept_ += std::uint64_t{bound.out()} * bound.in * sizeof(float);
    return {};
  }

  std::span<const float> vector(const BoundVector& bound) override {
    if (bound.tensor == kNoTensor) return {};
    add_tensor(bound.tensor);
    if (!bound.elements.contiguous()) kept_ += bound.elements.count() * sizeof(float);
    return {};
  }

  std::span<const float> joined(const std::vector<BoundVector>& parts, float /*offset*/) override {
    for (const BoundVector& part : parts) {
      (void)vector(part);
      kept_ += part.elements.count() * sizeof(float);  // copy made by the concatenation
    }
    return {};
  }

  void add_tensor(std::size_t tensor) {
    if (!tensors_.insert(tensor).second) return;
    const checkpoint::TensorInfo& info = weights_.tensors()[tensor];
    kept_ += element_count(info) * sizeof(float);
    std::uint64_t temporary = weights_.copied_bytes(tensor);
    if (info.dtype != DType::f32 && temporary == 0)
      temporary = std::min<std::uint64_t>(element_count(info), kPieceElements) * size_of(info.dtype);
    conversion_ = std::max(conversion_, temporary);
  }

  const checkpoint::Checkpoint& weights_;
  WeightForm form_;
  std::size_t table_rows_;
  std::set<std::size_t> tensors_;  // converted to float32
  std::set<std::size_t> encoded_;  // used as stored
  std::uint64_t kept_ = 0;
  std::uint64_t conversion_ = 0;
};

template <typename Weights, typename Read>
Lease<Weights> cached(TensorCache& tensors, Lease<Weights>& slot, Pool* pool, WeightForm form,
                      const Read& read) {
  const std::lock_guard lock(tensors.mutex());
  if (!slot) {
    const auto held = std::make_shared<std::pair<Owners, Weights>>();
    WeightReader reader(tensors, held->first, pool, form);
    held->second = read(reader);
    slot = Lease<Weights>(held, &held->second);
  }
  return slot;
}

/// Returns whether two weights have the same values. Compares encoded weights by their stored bytes.
bool same_bytes(checkpoint::Checkpoint& weights, const BoundMatrix& a, const BoundMatrix& b) {
  if (a.tensor == kNoTensor || b.tensor == kNoTensor) return a.tensor == b.tensor;
  const auto& stored_a = weights.encoded(a.tensor);
  const auto& stored_b = weights.encoded(b.tensor);
  const bool in_blocks = stored_a && linalg::block_size(stored_a->encoding).values > 1;
  if (in_blocks || (stored_b && linalg::block_size(stored_b->encoding).values > 1)) {
    return stored_a && stored_b && stored_a->encoding == stored_b->encoding && a.out() == b.out() &&
           a.outputs.count() == a.outputs.all && b.outputs.count() == b.outputs.all &&
           stored_a->head_rows == stored_b->head_rows && stored_a->transposed == stored_b->transposed &&
           std::ranges::equal(stored_a->bytes, stored_b->bytes);
  }
  const bool alike = a.axes == b.axes && a.heads == b.heads && a.in == b.in && a.out() == b.out();
  if (!alike || weights.tensors()[a.tensor].dtype != weights.tensors()[b.tensor].dtype) return false;
  const std::size_t size = size_of(weights.tensors()[a.tensor].dtype);
  const bool by_output = a.axes == Axes::out_in;
  // Returns row r of a weight, without the elements of other weights in the same tensor.
  const auto row = [&](const BoundMatrix& bound, std::size_t r) {
    const auto bytes = weights.tensor(bound.tensor).bytes;
    if (by_output) return bytes.subspan(bound.outputs.position(r) * bound.in * size, bound.in * size);
    const std::size_t stride = bytes.size() / size / bound.in;
    return bytes.subspan((r * stride + bound.outputs.first) * size, bound.out() * size);
  };
  for (std::size_t r = 0; r < (by_output ? a.out() : a.in); ++r) {
    if (!std::ranges::equal(row(a, r), row(b, r))) return false;
  }
  return true;
}

std::vector<TensorUse> find_tensor_uses(const Binding& binding, checkpoint::Checkpoint& weights) {
  const auto tensors = weights.tensors();
  std::vector<TensorUse> uses(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (binding.used[i]) {
      uses[i].role = TensorRole::parameter;
    } else if (!is_floating(tensors[i].dtype) || is_known_buffer(tensors[i].name)) {
      uses[i].role = TensorRole::buffer;
    }
  }
  for (const auto& [tensor, bound] : binding.alternatives) {
    if (uses[tensor].role == TensorRole::unused && same_values(weights, tensor, bound))
      uses[tensor] = {TensorRole::tied, bound};
  }
  return uses;
}

/// Adds a warning if the configuration requires a separate output matrix, but the checkpoint contains only
/// the embedding.
void warn_of_tied_head(const checkpoint::ModelSource& source, const ModelConfig& config,
                       const Binding& binding, std::span<const TensorUse> uses, Warnings& warnings) {
  const ConfigReader text = ConfigReader::of_text(source.config_path.string(), source.config);
  const auto tie = text.find("tie_word_embeddings");
  if (!config.head.present || !config.head.tied || !tie || *tie->json != false) return;
  const std::size_t token = config.decoder ? binding.target_embedding.token : binding.embedding.token;
  if (std::ranges::count(uses, TensorUse{TensorRole::tied, token}) > 0) return;
  warnings.add(
      "head_from_embedding",
      fmt::format("{}: {} is false, but the weights contain no output matrix; the token embedding is used "
                  "instead",
                  escaped(text.file()), text.pointer(tie->name)));
}

/// Returns the inputs [begin, begin + count) of a matrix, [count, out].
OwnedMatrix<double> to_double(const StoredMatrix& matrix, std::size_t begin, std::size_t count) {
  const bool in_rows = matrix.orientation == Orientation::in_out;
  StoredMatrix part = matrix;
  std::size_t skipped = 0;  // columns of `part` before the first input
  if (in_rows && matrix.encoded.present()) {
    part.encoded = matrix.encoded.row_range(begin, count);
  } else if (in_rows) {
    part.values = matrix.values.row_range(begin, count);
  } else if (matrix.encoded.present()) {
    const std::size_t block = linalg::block_size(matrix.encoded.encoding).values;
    skipped = begin % block;
    const std::size_t end = (begin + count + block - 1) / block * block;
    part.encoded = matrix.encoded.col_range(begin - skipped, end - begin + skipped);
  } else {
    part.values = matrix.values.col_range(begin, count);
  }
  OwnedMatrix<double> out(count, matrix.out());
  std::vector<float> row(part.cols());
  for (std::size_t r = 0; r < part.rows(); ++r) {
    part.row(r, row);
    if (in_rows) {
      std::ranges::copy(row, out.view().row(r).begin());
    } else {
      for (std::size_t i = 0; i < count; ++i) out(i, r) = double{row[skipped + i]};
    }
  }
  return out;
}

}  // namespace

void StoredMatrix::row(std::size_t r, std::span<float> out) const {
  if (encoded.present()) return encoded.decode_row(r, out);
  std::ranges::copy(values.row(r), out.begin());
}

Linear Linear::outputs(std::size_t begin, std::size_t count) const {
  Linear part = *this;
  const bool in_out = orientation == Orientation::in_out;
  if (encoded.present()) {
    part.encoded = in_out ? encoded.col_range(begin, count) : encoded.row_range(begin, count);
  } else {
    part.stored = in_out ? stored.col_range(begin, count) : stored.row_range(begin, count);
  }
  if (!bias.empty()) part.bias = bias.subspan(begin, count);
  return part;
}

OwnedMatrix<double> Linear::inputs_double(std::size_t begin, std::size_t count) const {
  if (!factorised()) return to_double(last(), begin, count);
  const OwnedMatrix<double> a = to_double(first, begin, count);
  const OwnedMatrix<double> b = to_double(last(), 0, rank());
  OwnedMatrix<double> product(a.rows(), b.cols());
  for (std::size_t i = 0; i < a.rows(); ++i) {
    for (std::size_t r = 0; r < a.cols(); ++r) {
      for (std::size_t j = 0; j < b.cols(); ++j) product(i, j) += a(i, r) * b(r, j);
    }
  }
  return product;
}

void LookupTable::row(std::size_t r, std::span<float> out) const {
  if (encoded.present()) return encoded.decode_row(r, out);
  const std::size_t bytes = width() * size_of(tensor.dtype);
  convert(tensor.dtype, tensor.bytes.subspan(r * bytes, bytes), out);
}

/// The data that all copies of a model share: its files and its cached weights.
struct Model::Shared {
  Shared(checkpoint::ModelSource of, Binding bound_tensors, Warnings& warnings)
      : source(std::move(of)),
        binding(std::move(bound_tensors)),
        uses(find_tensor_uses(binding, *source.weights)),
        tensors(*source.weights, warnings) {
    for (std::size_t i = 0; i < uses.size(); ++i) is_encoded = is_encoded || source.weights->encoded(i);
  }

  [[nodiscard]] const BoundLayer& bound(const LayerConfig& layer) const {
    return binding.layers.at(layer.stored());
  }

  checkpoint::ModelSource source;
  Binding binding;
  std::vector<TensorUse> uses;  // [tensors of the checkpoint]
  TensorCache tensors;          // its mutex guards the members below
  bool is_encoded = false;      // some tensors are encoded, so that the two forms of weights differ
  std::map<LayerConfig::Key, Lease<LayerWeights>> layers;  // by LayerConfig::stored()
  std::map<LayerConfig::Key, Lease<LayerWeights>> stored_layers;
  std::map<LayerConfig::Key, Lease<AttentionWeights>> attentions;
  Lease<EmbeddingWeights> embedding, target_embedding;
  Lease<NormWeights> encoder_norm, final_norm;
  Lease<HeadWeights> head, stored_head;
};

Model::Model(std::shared_ptr<const ModelConfig> config, std::shared_ptr<Shared> shared)
    : config_(std::move(config)), shared_(std::move(shared)) {}

Model Model::bind(checkpoint::ModelSource source, Warnings& warnings) {
  const FamilySpec row = family_of(source.config_path.string(), source.config);
  ModelConfig config = resolve_config(row, source);
  return bind(std::move(source), row, std::move(config), warnings);
}

Model Model::bind(checkpoint::ModelSource source, const FamilySpec& row, ModelConfig config,
                  Warnings& warnings) {
  Binding binding = bind_tensors(row, config, *source.weights, source.config_path.string());
  auto shared = std::make_shared<Shared>(std::move(source), std::move(binding), warnings);
  warn_of_tied_head(shared->source, config, shared->binding, shared->uses, warnings);
  return {std::make_shared<const ModelConfig>(std::move(config)), std::move(shared)};
}

Model Model::without_weights(const std::string& name, ModelConfig config, Warnings& warnings) {
  checkpoint::ModelSource source;
  source.given = name;
  source.weights = std::make_unique<checkpoint::Checkpoint>();
  return {std::make_shared<const ModelConfig>(std::move(config)),
          std::make_shared<Shared>(std::move(source), Binding(), warnings)};
}

const checkpoint::ModelSource& Model::source() const {
  return shared_->source;
}

Model Model::with_attention(AttentionKind kind, std::span<const std::size_t> layers) const {
  ModelConfig config = *config_;
  for (const std::size_t layer : layers) config.layers.at(layer).attention.kind = kind;
  return {std::make_shared<const ModelConfig>(std::move(config)), shared_};
}

std::size_t Model::shared_with(std::size_t index) const {
  const auto& layers = config_->layers;
  std::size_t first = 0;
  while (layers[first].stored() != layers.at(index).stored()) ++first;
  return first;
}

std::uint64_t Model::parameters() const {
  const auto tensors = source().weights->tensors();
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (shared_->uses[i].role == TensorRole::parameter) count += element_count(tensors[i]);
  }
  return count;
}

std::size_t Model::unused_tensors() const {
  return static_cast<std::size_t>(std::ranges::count(shared_->uses, TensorRole::unused, &TensorUse::role));
}

std::span<const TensorUse> Model::tensor_uses() const {
  return shared_->uses;
}

Lease<LayerWeights> Model::layer(std::size_t index, Pool* pool, WeightForm form) const {
  const std::lock_guard lock(shared_->tensors.mutex());
  const LayerConfig& layer = config_->layers.at(index);
  const BoundLayer& bound = shared_->bound(layer);
  if (form == WeightForm::stored && shared_->is_encoded) {
    return cached(shared_->tensors, shared_->stored_layers[layer.stored()], pool, form,
                  [&](WeightReader& reader) { return reader.layer(reader.attention(bound), bound); });
  }
  return cached(shared_->tensors, shared_->layers[layer.stored()], pool, form, [&](WeightReader& reader) {
    const auto found = shared_->attentions.find(layer.stored());
    const bool read = found != shared_->attentions.end() && found->second;  // null if reading failed
    if (!read) return reader.layer(reader.attention(bound), bound);
    reader.keep(found->second);
    return reader.layer(*found->second, bound);
  });
}

Lease<AttentionWeights> Model::attention(std::size_t index, Pool* pool, WeightForm form) const {
  const std::lock_guard lock(shared_->tensors.mutex());
  if (form == WeightForm::stored && shared_->is_encoded) return this->layer(index, pool, form);
  const LayerConfig& layer = config_->layers.at(index);
  const auto whole = shared_->layers.find(layer.stored());
  if (!shared_->attentions.contains(layer.stored()) && whole != shared_->layers.end() && whole->second)
    return whole->second;
  return cached(shared_->tensors, shared_->attentions[layer.stored()], pool, WeightForm::float32,
                [&](WeightReader& reader) { return reader.attention(shared_->bound(layer)); });
}

Lease<EmbeddingWeights> Model::embedding() const {
  return cached(shared_->tensors, shared_->embedding, nullptr, WeightForm::float32,
                [&](WeightReader& reader) { return reader.embedding(shared_->binding.embedding); });
}

Lease<EmbeddingWeights> Model::target_embedding() const {
  return cached(shared_->tensors, shared_->target_embedding, nullptr, WeightForm::float32,
                [&](WeightReader& reader) { return reader.embedding(shared_->binding.target_embedding); });
}

NormWeights Model::encoder_norm() const {
  return *cached(shared_->tensors, shared_->encoder_norm, nullptr, WeightForm::float32,
                 [&](WeightReader& reader) { return reader.norm(shared_->binding.encoder_norm); });
}

NormWeights Model::final_norm() const {
  return *cached(shared_->tensors, shared_->final_norm, nullptr, WeightForm::float32,
                 [&](WeightReader& reader) { return reader.norm(shared_->binding.final_norm); });
}

Lease<HeadWeights> Model::head(Pool* pool, WeightForm form) const {
  const bool stored = form == WeightForm::stored && shared_->is_encoded;
  return cached(shared_->tensors, stored ? shared_->stored_head : shared_->head, pool, form,
                [&](WeightReader& reader) { return reader.head(shared_->binding); });
}

void Model::evict_layer(std::size_t index) const {
  const std::lock_guard lock(shared_->tensors.mutex());
  shared_->layers.erase(config_->layers.at(index).stored());
  shared_->stored_layers.erase(config_->layers.at(index).stored());
  shared_->attentions.erase(config_->layers.at(index).stored());
}

void Model::evict_embedding() const {
  const std::lock_guard lock(shared_->tensors.mutex());
  shared_->embedding.reset();
  shared_->target_embedding.reset();
}

void Model::evict_head() const {
  const std::lock_guard lock(shared_->tensors.mutex());
  shared_->head.reset();
  shared_->stored_head.reset();
}

void Model::evict_converted_layer(std::size_t index) const {
  if (!shared_->is_encoded) return;
  const std::lock_guard lock(shared_->tensors.mutex());
  shared_->layers.erase(config_->layers.at(index).stored());
  shared_->attentions.erase(config_->layers.at(index).stored());
}

void Model::evict_converted_head() const {
  if (!shared_->is_encoded) return;
  const std::lock_guard lock(shared_->tensors.mutex());
  shared_->head.reset();
}

std::uint64_t Model::layer_bytes(std::size_t index, WeightForm form) const {
  const BoundLayer& bound = shared_->bound(config_->layers.at(index));
  WeightBytes bytes(*source().weights, form);
  bytes.layer(bytes.attention(bound), bound);
  return bytes.total();
}

std::uint64_t Model::attention_bytes(std::size_t index) const {
  WeightBytes bytes(*source().weights, WeightForm::float32);
  bytes.attention(shared_->bound(config_->layers.at(index)));
  return bytes.total();
}

std::uint64_t Model::embedding_bytes(std::size_t rows) const {
  WeightBytes bytes(*source().weights, WeightForm::float32, rows);
  bytes.embedding(shared_->binding.embedding);
  bytes.embedding(shared_->binding.target_embedding);
  return bytes.total();
}

std::uint64_t Model::head_bytes(WeightForm form) const {
  WeightBytes bytes(*source().weights, form);
  bytes.head(shared_->binding);
  bytes.norm(shared_->binding.final_norm);
  bytes.norm(shared_->binding.encoder_norm);
  return bytes.total();
}

bool Model::key_is_query(std::size_t index) const {
  const LayerConfig& layer = config_->layers.at(index);
  if (!layer.attention.key.weight) return true;
  const BoundLayer& bound = shared_->bound(layer);
  checkpoint::Checkpoint& weights = *shared_->source.weights;
  const std::lock_guard lock(shared_->tensors.mutex());
  return same_bytes(weights, bound.query.weight, bound.key.weight) &&
         same_bytes(weights, bound.query.first, bound.key.first);
}

Model random_layer(const RandomLayer& sizes, Warnings& warnings) {
  checkpoint::ModelSource source;
  source.given = source.config_path = "random layer";
  source.config = {{"model_type", "attention"}, {"heads", sizes.heads}};
  source.config_text = source.config.dump();
  auto weights = std::make_unique<checkpoint::Checkpoint>();
  const auto& memory = weights->map("random weights", std::span<const std::byte>());
  const double deviation = 1 / std::sqrt(static_cast<double>(sizes.d_model));
  std::uint64_t stream = 1;
  for (const char* name : {"W_k", "W_o", "W_q", "W_v"}) {
    Random random(sizes.seed, stream++);
    std::vector<float> values(sizes.d_model * sizes.d_model);
    for (float& value : values) value = static_cast<float>(deviation * random.normal());
    weights->add(memory, {name, DType::f32, {sizes.d_model, sizes.d_model}}, {}, 0,
                 [values](std::vector<std::byte>&) { return std::as_bytes(std::span(values)); });
  }
  source.weights = std::move(weights);
  return Model::bind(std::move(source), warnings);
}

}  // namespace attnctl::model
