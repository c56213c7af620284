#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/checked.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/strided.hpp"
#include "checkpoint/torch/torch.hpp"

namespace attnctl {
namespace {

using Kind = PickleValue::Kind;

/// Tensors that are not row-major are copied. All copies together may take this plus twice the size of the
/// file.
constexpr std::size_t kMinCopyLimit = std::size_t{1} << 20;

bool has_tensors(const Pickle& pickle, const PickleValue& value) {
  if (value.kind != Kind::dict) return false;
  const auto items = pickle.items(value);
  for (std::size_t i = 1; i < items.size(); i += 2) {
    if (items[i].kind == Kind::tensor) return true;
  }
  return false;
}

/// Returns the dictionary of tensors: the outermost, or the only one inside of it.
PickleValue find_state(const Pickle& pickle) {
  constexpr std::array<std::string_view, 3> kStateNames = {"state_dict", "model_state_dict", "model"};
  if (pickle.root().kind != Kind::dict) {
    fail(Status::bad_input, "{}: got {}, need a dictionary of tensors; save only the state_dict",
         pickle.where(), name_of(pickle.root().kind));
  }
  const auto items = pickle.items(pickle.root());
  std::optional<PickleValue> state;
  std::string names;
  for (std::size_t i = 0; i < items.size(); i += 2) {
    if (!has_tensors(pickle, items[i + 1])) continue;
    const std::string_view name = items[i].kind == Kind::text ? pickle.text(items[i]) : "";
    names += fmt::format("{}{}", names.empty() ? "" : ", ", in_quotes(name));
    const bool known = std::find(kStateNames.begin(), kStateNames.end(), name) != kStateNames.end();
    if (!known || state || has_tensors(pickle, pickle.root())) {
      fail(Status::bad_input,
           "{}: unsupported dictionaries of tensors inside the dictionary ({}), need one, under state_dict, "
           "model_state_dict or model; save only the state_dict",
           pickle.where(), names);
    }
    state = items[i + 1];
  }
  if (!state && !items.empty() && !has_tensors(pickle, pickle.root()))
    fail(Status::bad_input, "{}: got a dictionary without tensors, need one of tensors", pickle.where());
  return state.value_or(pickle.root());
}

struct TorchTensor {
  TensorInfo info;
  std::size_t storage = 0;
  Strided strided;                // elements within the storage
  bool copied = false;            // not row-major and little-endian
  std::vector<std::byte> buffer;  // the copy, if made
};

/// Returns the non-negative integers of a tuple.
Shape numbers_of(const Pickle& pickle, const PickleValue& tuple, std::string_view where,
                 std::string_view field) {
  constexpr std::size_t kMaxTorchDimensions = 64;
  if (tuple.kind != Kind::tuple && tuple.kind != Kind::list)
    fail(Status::bad_input, "{}: {}: got {}, need a tuple", where, field, name_of(tuple.kind));
  const auto items = pickle.items(tuple);
  if (items.size() > kMaxTorchDimensions) {
    fail(Status::bad_input, "{}: {}: got {} dimensions, need at most {}", where, field, items.size(),
         kMaxTorchDimensions);
  }
  Shape numbers;
  for (const PickleValue& item : items) {
    if (item.kind != Kind::integer)
      fail(Status::bad_input, "{}: {}: got {}, need an integer", where, field, name_of(item.kind));
    if (item.number < 0)
      fail(Status::bad_input, "{}: {}: got {}, need at least 0", where, field, item.number);
    numbers.push_back(static_cast<std::size_t>(item.number));
  }
  return numbers;
}

TorchTensor make_tensor(const FileBytes& file, const TorchLayout& layout, std::string_view name,
                        const PickleTensor& tensor) {
  const Pickle& pickle = *layout.pickle;
  const std::string where = fmt::format("{}: tensor {}", file.name(), in_quotes(name));
  if (find_ill_formed_utf8(name)) fail(Status::bad_input, "{}: got a name that is not UTF-8", where);
  TorchTensor entry;
  entry.info = {std::string(name), tensor.dtype, numbers_of(pickle, tensor.shape, where, "shape"),
                file.name()};
  entry.storage = tensor.storage;
  entry.strided.shape = entry.info.shape;
  entry.strided.strides = numbers_of(pickle, tensor.strides, where, "strides");
  entry.strided.element_size = size_of(tensor.dtype);
  if (tensor.offset.kind != Kind::integer || tensor.offset.number < 0)
    fail(Status::bad_input, "{}: offset: need an integer of at least 0", where);
  entry.strided.offset = static_cast<std::size_t>(tensor.offset.number);
  check_strided(where, entry.strided, layout.storages[tensor.storage].size());
  entry.copied = !is_row_major(entry.strided) || (layout.big_endian && entry.strided.element_size > 1);
  return entry;
}

class TorchFile final : public Checkpoint {
 public:
  TorchFile(FileBytes file, TorchLayout layout, std::vector<TorchTensor> entries)
      : file_(std::move(file)),
        layout_(std::move(layout)),
        entries_(std::move(entries)),
        intact_(layout_.archive.size()) {
    for (const TorchTensor& entry : entries_) tensors_.push_back(entry.info);
  }

  [[nodiscard]] std::span<const TensorInfo> tensors() const override { return tensors_; }

  [[nodiscard]] TensorView tensor(std::size_t index) override {
    const TensorInfo& info = tensors_.at(index);
    TorchTensor& entry = entries_[index];
    check_intact(entry);
    if (!entry.copied) return {info.dtype, info.shape, row_major_bytes(entry)};
    if (entry.buffer.empty()) {
      entry.buffer = to_row_major(entry.strided, layout_.storages[entry.storage], layout_.big_endian);
    }
    return {info.dtype, info.shape, entry.buffer};
  }

  void release(std::size_t index) override {
    TorchTensor& entry = entries_.at(index);
    std::vector<std::byte>().swap(entry.buffer);
    file_.forget(entry.copied ? layout_.storages[entry.storage] : row_major_bytes(entry));
  }

  void forget(std::size_t index, std::span<const std::byte> part) override {
    if (!entries_.at(index).copied) file_.forget(part);
  }

  [[nodiscard]] std::uint64_t copied_bytes(std::size_t index) const override {
    const TorchTensor& entry = entries_.at(index);
    return entry.copied ? layout_.storages[entry.storage].size() + byte_size(entry.strided) : 0;
  }

 private:
  [[nodiscard]] std::span<const std::byte> row_major_bytes(const TorchTensor& entry) const {
    const std::size_t size = byte_size(entry.strided);
    if (size == 0) return {};
    return layout_.storages[entry.storage].subspan(entry.strided.offset * entry.strided.element_size, size);
  }

  /// Checks the CRC of a storage's member at the first use.
  void check_intact(const TorchTensor& entry) {
    if (layout_.archive.empty()) return;
    const std::size_t member = layout_.members[entry.storage];
    if (intact_[member]) return;
    std::vector<std::byte> unused;  // members are uncompressed
    (void)unpack(file_, layout_.archive[member], unused);
    intact_[member] = true;
  }

  FileBytes file_;
  TorchLayout layout_;
  std::vector<TorchTensor> entries_;
  std::vector<bool> intact_;  // for each member of layout_.archive
  std::vector<TensorInfo> tensors_;
};

void check_copies(const FileBytes& file, const std::vector<TorchTensor>& entries) {
  const std::size_t allowed = 2 * file.bytes().size() + kMinCopyLimit;
  std::size_t total = 0;
  for (const TorchTensor& entry : entries) {
    if (!entry.copied) continue;
    const auto sum = checked_add(total, byte_size(entry.strided));
    if (!sum || *sum > allowed) {
      fail(Status::bad_input,
           "{}: tensor {}: unsupported: expanded tensors that take more than {} bytes in all; save them "
           "contiguous",
           file.name(), in_quotes(entry.info.name), allowed);
    }
    total = *sum;
  }
}

}  // namespace

std::unique_ptr<Checkpoint> open_torch_file(FileBytes file, Warnings& warnings) {
  TorchLayout layout = read_torch_layout(file);
  const Pickle& pickle = *layout.pickle;
  std::vector<TorchTensor> entries;
  const auto items = pickle.items(find_state(pickle));
  for (std::size_t i = 0; i < items.size(); i += 2) {
    if (items[i].kind != Kind::text) {
      fail(Status::bad_input, "{}: got {} for the name of a tensor, need a text", pickle.where(),
           name_of(items[i].kind));
    }
    const std::string_view name = pickle.text(items[i]);
    if (items[i + 1].kind != Kind::tensor) {
      warnings.add("ignored_value", fmt::format("{}: {} is {}, not a tensor", file.name(), in_quotes(name),
                                                name_of(items[i + 1].kind)));
      continue;
    }
    const auto& tensor = pickle.tensors()[static_cast<std::size_t>(items[i + 1].number)];
    entries.push_back(make_tensor(file, layout, name, tensor));
  }
  std::sort(entries.begin(), entries.end(),
            [](const TorchTensor& a, const TorchTensor& b) { return a.info.name < b.info.name; });
  const auto twice = std::adjacent_find(
      entries.begin(), entries.end(),
      [](const TorchTensor& a, const TorchTensor& b) { return a.info.name == b.info.name; });
  if (twice != entries.end()) {
    fail(Status::bad_input, "{}: tensor {}: got the key twice, need different keys", file.name(),
         in_quotes(twice->info.name));
  }
  check_copies(file, entries);
  return std::make_unique<TorchFile>(std::move(file), std::move(layout), std::move(entries));
}

}  // namespace attnctl
