#include "checkpoint/torch/torch_file.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/checked.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/torch/strided.hpp"
#include "checkpoint/torch/torch_layout.hpp"

namespace attnctl {
namespace {

using Kind = PickleValue::Kind;

/// A tensor that is not one of the elements in order is copied; all copies together stay below this and twice
/// the file.
constexpr std::size_t kFreeCopies = std::size_t{1} << 20;

bool has_tensors(const Pickle& pickle, const PickleValue& value) {
  if (value.kind != Kind::dict) return false;
  const auto items = pickle.items(value);
  for (std::size_t i = 1; i < items.size(); i += 2) {
    if (items[i].kind == Kind::tensor) return true;
  }
  return false;
}

/// The dictionary of tensors: the outermost, or the only one of those inside.
PickleValue find_state(const Pickle& pickle) {
  constexpr std::array<std::string_view, 3> kNames = {"state_dict", "model_state_dict", "model"};
  if (pickle.root().kind != Kind::dict) {
    fail(Status::bad_input, "{}: got {}, need a dictionary of tensors; save the state_dict alone",
         pickle.where(), name_of(pickle.root().kind));
  }
  const auto items = pickle.items(pickle.root());
  std::optional<PickleValue> state;
  std::string names;
  for (std::size_t i = 0; i < items.size(); i += 2) {
    if (!has_tensors(pickle, items[i + 1])) continue;
    const std::string_view name = items[i].kind == Kind::text ? pickle.text(items[i]) : "";
    names += fmt::format("{}{}", names.empty() ? "" : ", ", in_quotes(name));
    const bool known = std::find(kNames.begin(), kNames.end(), name) != kNames.end();
    if (!known || state || has_tensors(pickle, pickle.root())) {
      fail(Status::bad_input,
           "{}: unsupported dictionaries of tensors inside the dictionary ({}), need one, under state_dict, "
           "model_state_dict or model; save the state_dict alone",
           pickle.where(), names);
    }
    state = items[i + 1];
  }
  if (!state && !items.empty() && !has_tensors(pickle, pickle.root()))
    fail(Status::bad_input, "{}: got a dictionary without tensors, need one of tensors", pickle.where());
  return state.value_or(pickle.root());
}

struct Entry {
  TensorInfo info;
  std::size_t storage = 0;
  Strided strided;                // of the storage's bytes
  bool copied = false;            // not as a TensorView has them
  std::vector<std::byte> buffer;  // the copy, once it was made
};

/// The non-negative integers of a tuple.
Shape numbers_of(const Pickle& pickle, const PickleValue& tuple, std::string_view where,
                 std::string_view field) {
  constexpr std::size_t kMostDimensions = 64;
  if (tuple.kind != Kind::tuple && tuple.kind != Kind::list)
    fail(Status::bad_input, "{}: {}: got {}, need a tuple", where, field, name_of(tuple.kind));
  const auto items = pickle.items(tuple);
  if (items.size() > kMostDimensions) {
    fail(Status::bad_input, "{}: {}: got {} dimensions, need at most {}", where, field, items.size(),
         kMostDimensions);
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

Entry make_entry(const FileBytes& file, const TorchLayout& layout, std::string_view name,
                 const PickleTensor& tensor) {
  const Pickle& pickle = *layout.pickle;
  const std::string where = fmt::format("{}: tensor {}", file.name(), in_quotes(name));
  if (find_ill_formed_utf8(name)) fail(Status::bad_input, "{}: got a name that is not UTF-8", where);
  Entry entry;
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
  TorchFile(FileBytes file, TorchLayout layout, std::vector<Entry> entries)
      : file_(std::move(file)),
        layout_(std::move(layout)),
        entries_(std::move(entries)),
        intact_(layout_.archive.size()) {
    for (const Entry& entry : entries_) tensors_.push_back(entry.info);
  }

  [[nodiscard]] std::span<const TensorInfo> tensors() const override { return tensors_; }

  [[nodiscard]] TensorView tensor(std::size_t index) override {
    const TensorInfo& info = tensors_.at(index);
    Entry& entry = entries_[index];
    check_intact(entry);
    if (!entry.copied) return {info.dtype, info.shape, row_major_bytes(entry)};
    if (entry.buffer.empty()) {
      entry.buffer = to_row_major(entry.strided, layout_.storages[entry.storage], layout_.big_endian);
    }
    return {info.dtype, info.shape, entry.buffer};
  }

  void release(std::size_t index) override {
    Entry& entry = entries_.at(index);
    std::vector<std::byte>().swap(entry.buffer);
    file_.forget(entry.copied ? layout_.storages[entry.storage] : row_major_bytes(entry));
  }

  void forget(std::size_t index, std::span<const std::byte> part) override {
    if (!entries_.at(index).copied) file_.forget(part);
  }

  [[nodiscard]] std::uint64_t copied_bytes(std::size_t index) const override {
    const Entry& entry = entries_.at(index);
    return entry.copied ? layout_.storages[entry.storage].size() + byte_size(entry.strided) : 0;
  }

 private:
  [[nodiscard]] std::span<const std::byte> row_major_bytes(const Entry& entry) const {
    const std::size_t size = byte_size(entry.strided);
    if (size == 0) return {};
    return layout_.storages[entry.storage].subspan(entry.strided.offset * entry.strided.element_size, size);
  }

  /// A member is checked against its CRC when the first of its tensors is asked for.
  void check_intact(const Entry& entry) {
    if (layout_.archive.empty()) return;
    const std::size_t member = layout_.members[entry.storage];
    if (intact_[member]) return;
    std::vector<std::byte> unused;  // it is stored
    (void)unpack(file_, layout_.archive[member], unused);
    intact_[member] = true;
  }

  FileBytes file_;
  TorchLayout layout_;
  std::vector<Entry> entries_;
  std::vector<bool> intact_;  // of layout_.archive
  std::vector<TensorInfo> tensors_;
};

void check_copies(const FileBytes& file, const std::vector<Entry>& entries) {
  const std::size_t allowed = 2 * file.bytes().size() + kFreeCopies;
  std::size_t total = 0;
  for (const Entry& entry : entries) {
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
  std::vector<Entry> entries;
  const auto items = pickle.items(find_state(pickle));
  for (std::size_t i = 0; i < items.size(); i += 2) {
    if (items[i].kind != Kind::text) {
      fail(Status::bad_input, "{}: got {} for the name of a tensor, need a text", pickle.where(),
           name_of(items[i].kind));
    }
    const std::string_view name = pickle.text(items[i]);
    if (items[i + 1].kind != Kind::tensor) {
      warnings.add("ignored_value", fmt::format("{}: {} is {}, no tensor", file.name(), in_quotes(name),
                                                name_of(items[i + 1].kind)));
      continue;
    }
    const auto& tensor = pickle.tensors()[static_cast<std::size_t>(items[i + 1].number)];
    entries.push_back(make_entry(file, layout, name, tensor));
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.info.name < b.info.name; });
  const auto twice = std::adjacent_find(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.info.name == b.info.name;
  });
  if (twice != entries.end()) {
    fail(Status::bad_input, "{}: tensor {}: got the key twice, need different keys", file.name(),
         in_quotes(twice->info.name));
  }
  check_copies(file, entries);
  return std::make_unique<TorchFile>(std::move(file), std::move(layout), std::move(entries));
}

}  // namespace attnctl
