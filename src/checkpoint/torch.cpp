#include <map>
#include <set>

#include <fmt/format.h>

#include "base/numbers.hpp"
#include "checkpoint/pickle.hpp"
#include "checkpoint/readers.hpp"
#include "formats/zip.hpp"

namespace attnctl::checkpoint {
namespace {

using Kind = PickleValue::Kind;

/// The objects of a torch.save file and the bytes of its storages: storages[i] has the bytes of
/// pickle.storages[i] that tensors may use.
struct TorchLayout {
  Pickle pickle;
  std::vector<std::span<const std::byte>> storages = {};
  /// The archive member of each storage; empty for files from before torch 1.6.
  std::vector<const formats::StoredMember*> members = {};
  std::vector<formats::StoredMember> archive = {};     // owns the members
  std::set<const formats::StoredMember*> intact = {};  // the members whose checksum (CRC) was checked
  bool big_endian = false;
};

constexpr std::string_view kObjects = "/data.pkl";

std::span<const std::byte> view_of(const Pickle& pickle, const PickleStorage& storage,
                                   std::span<const std::byte> whole) {
  const std::size_t size = storage.element_size();
  const auto need = checked_mul(static_cast<std::size_t>(storage.count), size);
  if (!need) {
    refuse(pickle.where, "storage {}: got {} elements, whose size does not fit 64 bits",
           in_quotes(storage.key), storage.count);
  }
  if (whole.size() < *need) {
    refuse(pickle.where, "storage {}: got {} bytes, need {} for its {} elements", in_quotes(storage.key),
           whole.size(), *need, storage.count);
  }
  // The view is inside the storage: Pickle checked this.
  return whole.subspan(static_cast<std::size_t>(storage.view_offset) * size,
                       static_cast<std::size_t>(storage.view_count) * size);
}

/// Reads the layout of torch 1.6 and later: an uncompressed ZIP archive with data.pkl and one member per
/// storage.
class TorchArchive {
 public:
  explicit TorchArchive(const MappedFile& file) : file_(file), members_(formats::read_zip_directory(file)) {
    for (const formats::StoredMember& member : members_) {
      if (!member.name.ends_with(kObjects)) continue;
      const std::string folder = member.name.substr(0, member.name.size() - kObjects.size());
      if (folder.find('/') != std::string::npos) continue;
      if (!folder_.empty())
        refuse(file.name(), "got data.pkl in {} and in {}, need one", in_quotes(folder_), in_quotes(folder));
      folder_ = folder;
    }
    if (folder_.empty())
      refuse(file.name(),
             "got a ZIP archive without FOLDER/data.pkl, need a PyTorch checkpoint; is it an .npz?");
    if (find("constants.pkl") != nullptr)
      refuse(file.name(), "unsupported: a TorchScript program; save only the state_dict");
  }

  [[nodiscard]] TorchLayout read() {
    bool big_endian = false;
    if (find("byteorder") != nullptr) {
      const formats::StoredMember& record = member("byteorder");
      const std::string_view order = text_of(record.data);
      if (order != "little" && order != "big")
        refuse(formats::at_member(file_, record), "got {}, need little or big", in_quotes(order));
      big_endian = order == "big";
    }
    const formats::StoredMember& objects = member("data.pkl");
    std::vector<std::byte> unused;  // members are uncompressed
    TorchLayout layout = {
        .pickle = {formats::at_member(file_, objects), text_of(formats::unpack(file_, objects, unused)), 0},
        .big_endian = big_endian};
    const Pickle& pickle = layout.pickle;
    if (pickle.end != objects.size) {
      refuse(pickle.where, "@byte {}: got {} bytes after the end of the pickle, need none", pickle.end,
             objects.size - pickle.end);
    }
    for (const PickleStorage& storage : pickle.storages) {
      if (storage.key.empty() || storage.key.find_first_not_of("0123456789") != std::string_view::npos)
        refuse(pickle.where, "storage {}: need a key of digits", in_quotes(storage.key));
      const formats::StoredMember& data = member("data/" + std::string(storage.key));
      layout.storages.push_back(view_of(pickle, storage, data.data));
      layout.members.push_back(&data);
    }
    layout.archive = std::move(members_);
    return layout;
  }

 private:
  [[nodiscard]] const formats::StoredMember* find(std::string_view name) const {
    const std::string whole = fmt::format("{}/{}", folder_, name);
    const auto found = std::ranges::lower_bound(members_, whole, {}, &formats::StoredMember::name);
    return found != members_.end() && found->name == whole ? &*found : nullptr;
  }

  [[nodiscard]] const formats::StoredMember& member(std::string_view name) const {
    const formats::StoredMember* const found = find(name);
    if (found == nullptr) {
      refuse(file_.name(), "member {} is missing from the archive; was it saved with torch.save?",
             in_quotes(fmt::format("{}/{}", folder_, name)));
    }
    if (found->deflated)
      refuse(formats::at_member(file_, *found),
             "unsupported: compressed, need members as torch.save stores them");
    return *found;
  }

  const MappedFile& file_;
  std::vector<formats::StoredMember> members_;
  std::string folder_;
};

/// Reads the layout before torch 1.6. The file has five pickles: magic number, protocol version, properties
/// of the machine, objects, and storage keys. The storages follow in the order of the keys. A storage has its
/// number of elements in 8 bytes, then the elements. All numbers are little-endian.
class LegacyTorchFile {
 public:
  explicit LegacyTorchFile(const MappedFile& file) : file_(file), text_(file.text()) {}

  [[nodiscard]] TorchLayout read() {
    constexpr std::string_view kMagic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
    constexpr std::int64_t kVersion = 1001;
    const Pickle magic = next();
    if (magic.root.kind != Kind::wide || magic.text(magic.root) != kMagic) {
      refuse(file_.name(), "got a pickle of {}, need the magic number of torch.save; nothing was executed",
             name_of(magic.root.kind));
    }
    const Pickle version = next();
    if (version.root.kind != Kind::integer || version.root.number != kVersion)
      refuse(file_.name(),
             "unsupported protocol version of torch.save, need {} (file layout before torch 1.6)", kVersion);
    (void)next();  // skips the properties of the machine; elements are always little-endian
    TorchLayout layout = {.pickle = next()};
    const auto wholes = read_storages(layout.pickle, next());
    for (const PickleStorage& storage : layout.pickle.storages) {
      const auto whole = wholes.find(storage.key);
      if (whole == wholes.end())
        refuse(file_.name(), "storage {} is missing from the file", in_quotes(storage.key));
      layout.storages.push_back(view_of(layout.pickle, storage, whole->second));
    }
    return layout;
  }

 private:
  [[nodiscard]] Pickle next() {
    Pickle pickle(file_.name(), text_, at_);
    at_ = pickle.end;
    return pickle;
  }

  [[nodiscard]] std::map<std::string_view, std::span<const std::byte>> read_storages(const Pickle& objects,
                                                                                     const Pickle& keys) {
    if (keys.root.kind != Kind::list)
      refuse(file_.name(), "got {} after the objects, need the list of storages", name_of(keys.root.kind));
    std::map<std::string_view, std::size_t> sizes;
    for (const PickleStorage& storage : objects.storages) {
      const std::size_t size = storage.element_size();
      if (sizes.try_emplace(storage.key, size).first->second != size)
        refuse(file_.name(), "storage {}: got two types of elements, need one", in_quotes(storage.key));
    }
    std::map<std::string_view, std::span<const std::byte>> wholes;
    for (const PickleValue& value : keys.items(keys.root)) {
      const std::string_view key = value.kind == Kind::text ? keys.text(value) : "";
      const auto size = sizes.find(key);
      if (size == sizes.end())
        refuse(file_.name(), "storage {}: no tensor uses it, need only storages of tensors", in_quotes(key));
      if (!wholes.try_emplace(key, read_storage(key, size->second)).second)
        refuse(file_.name(), "storage {}: stored twice, need it once", in_quotes(key));
    }
    if (at_ != text_.size()) {
      refuse(file_.name(), "@byte {}: got {} bytes after the end of the last storage, need none", at_,
             text_.size() - at_);
    }
    return wholes;
  }

  [[nodiscard]] std::span<const std::byte> read_storage(std::string_view key, std::size_t element_size) {
    constexpr std::size_t kCountBytes = 8;
    const std::size_t rest = text_.size() - at_;
    if (rest < kCountBytes) {
      refuse(file_.name(),
             "storage {} @byte {}: got {} bytes, need {}, which contain the number of elements; was it "
             "downloaded whole?",
             in_quotes(key), at_, rest, kCountBytes);
    }
    const std::uint64_t count = little_endian(text_.substr(at_, kCountBytes));
    const auto size = checked_mul<std::uint64_t>(count, element_size);
    if (!size || *size > rest - kCountBytes) {
      refuse(file_.name(),
             "storage {} @byte {}: got {} bytes, need {} elements of {} bytes; was it downloaded whole?",
             in_quotes(key), at_, rest - kCountBytes, count, element_size);
    }
    const auto bytes = file_.bytes().subspan(at_ + kCountBytes, static_cast<std::size_t>(*size));
    at_ += kCountBytes + bytes.size();
    return bytes;
  }

  const MappedFile& file_;
  std::string_view text_;
  std::size_t at_ = 0;
};

/// Tensors that are not row-major or not little-endian are copied. All copies together may take at most this
/// number of bytes plus twice the size of the file.
constexpr std::size_t kMinCopyLimit = std::size_t{1} << 20;

bool has_tensors(const Pickle& pickle, const PickleValue& value) {
  const auto is_tensor = [](const PickleValue& item) { return item.kind == Kind::tensor; };
  return value.kind == Kind::dict && std::ranges::any_of(pickle.items(value), is_tensor);
}

/// Returns the dictionary of tensors: the outermost dictionary, or the only dictionary of tensors in it.
PickleValue find_state(const Pickle& pickle) {
  constexpr std::string_view kStateNames[] = {"state_dict", "model_state_dict", "model"};
  if (pickle.root.kind != Kind::dict) {
    refuse(pickle.where, "got {}, need a dictionary of tensors; save only the state_dict",
           name_of(pickle.root.kind));
  }
  const auto items = pickle.items(pickle.root);
  std::optional<PickleValue> state;
  std::string names;
  for (std::size_t i = 0; i < items.size(); i += 2) {
    if (!has_tensors(pickle, items[i + 1])) continue;
    const std::string_view name = items[i].kind == Kind::text ? pickle.text(items[i]) : "";
    names += fmt::format("{}{}", names.empty() ? "" : ", ", in_quotes(name));
    const bool known = std::ranges::count(kStateNames, name) > 0;
    if (!known || state || has_tensors(pickle, pickle.root)) {
      refuse(pickle.where,
             "unsupported: tensors in inner dictionaries ({}); need all tensors in the outermost dictionary, "
             "or all in one inside it: state_dict, model_state_dict or model; save only the state_dict",
             names);
    }
    state = items[i + 1];
  }
  if (!state && !items.empty() && !has_tensors(pickle, pickle.root))
    refuse(pickle.where, "got a dictionary without tensors, need a dictionary of tensors");
  return state.value_or(pickle.root);
}

struct TorchTensor {
  TensorInfo info;
  std::size_t storage = 0;
  Strided strided;      // layout of the elements in the storage
  bool copied = false;  // true if tensor() must reorder the elements or their bytes
};

Shape numbers_of(const Pickle& pickle, const PickleValue& tuple, std::string_view where,
                 std::string_view field) {
  constexpr std::size_t kMaxTorchDimensions = 64;
  if (tuple.kind != Kind::tuple && tuple.kind != Kind::list)
    refuse(where, "{}: got {}, need a tuple", field, name_of(tuple.kind));
  const auto items = pickle.items(tuple);
  if (items.size() > kMaxTorchDimensions)
    refuse(where, "{}: got {} dimensions, need at most {}", field, items.size(), kMaxTorchDimensions);
  Shape numbers;
  for (const PickleValue& item : items) {
    if (item.kind != Kind::integer) refuse(where, "{}: got {}, need an integer", field, name_of(item.kind));
    if (item.number < 0) refuse(where, "{}: got {}, need at least 0", field, item.number);
    numbers.push_back(static_cast<std::size_t>(item.number));
  }
  return numbers;
}

TorchTensor make_tensor(const MappedFile& file, const TorchLayout& layout, std::string_view name,
                        const PickleTensor& tensor) {
  const Pickle& pickle = layout.pickle;
  const std::string where = fmt::format("{}: tensor {}", file.name(), in_quotes(name));
  if (find_ill_formed_utf8(name)) refuse(where, "got a name that is not UTF-8");
  TorchTensor entry;
  entry.info = {std::string(name), tensor.dtype, numbers_of(pickle, tensor.shape, where, "shape")};
  entry.storage = tensor.storage;
  entry.strided.shape = entry.info.shape;
  entry.strided.strides = numbers_of(pickle, tensor.strides, where, "strides");
  entry.strided.element_size = size_of(tensor.dtype);
  if (tensor.offset.kind != Kind::integer || tensor.offset.number < 0)
    refuse(where, "offset: need an integer of at least 0");
  entry.strided.offset = static_cast<std::size_t>(tensor.offset.number);
  check_strided(where, entry.strided, layout.storages[tensor.storage].size());
  entry.copied = !is_row_major(entry.strided) || (layout.big_endian && entry.strided.element_size > 1);
  return entry;
}

void check_intact(const MappedFile& file, TorchLayout& layout, std::size_t storage) {
  if (layout.members.empty() || layout.intact.contains(layout.members[storage])) return;
  std::vector<std::byte> unused;  // members are uncompressed
  (void)formats::unpack(file, *layout.members[storage], unused);
  layout.intact.insert(layout.members[storage]);
}

void check_copies(const MappedFile& file, const std::vector<TorchTensor>& entries) {
  const std::size_t allowed = 2 * file.bytes().size() + kMinCopyLimit;
  std::size_t total = 0;
  for (const TorchTensor& entry : entries) {
    if (!entry.copied) continue;
    const auto sum = checked_add(total, byte_size(entry.strided));
    if (!sum || *sum > allowed) {
      refuse_tensor(
          file.name(), entry.info.name,
          "unsupported: expanded, strided or big-endian tensors take more than {} bytes in all; save them "
          "contiguous and little-endian",
          allowed);
    }
    total = *sum;
  }
}

}  // namespace

void read_torch_file(const MappedFile& file, Checkpoint& checkpoint, Warnings& warnings) {
  TorchLayout layout =
      file.text().starts_with("PK") ? TorchArchive(file).read() : LegacyTorchFile(file).read();
  const Pickle& pickle = layout.pickle;
  std::vector<TorchTensor> entries;
  const auto items = pickle.items(find_state(pickle));
  for (std::size_t i = 0; i < items.size(); i += 2) {
    if (items[i].kind != Kind::text)
      refuse(pickle.where, "got {} for the name of a tensor, need a text", name_of(items[i].kind));
    const std::string_view name = pickle.text(items[i]);
    if (items[i + 1].kind != Kind::tensor) {
      warnings.add("ignored_value", fmt::format("{}: {} is {}, not a tensor", file.name(), in_quotes(name),
                                                name_of(items[i + 1].kind)));
      continue;
    }
    const auto& tensor = pickle.tensors[static_cast<std::size_t>(items[i + 1].number)];
    entries.push_back(make_tensor(file, layout, name, tensor));
  }
  const auto name_of_tensor = [](const TorchTensor& entry) -> const std::string& { return entry.info.name; };
  if (const TorchTensor* const twice = sort_by_name(entries, name_of_tensor))
    refuse_tensor(file.name(), twice->info.name, "got the key twice, need different keys");
  check_copies(file, entries);
  const auto shared = std::make_shared<TorchLayout>(std::move(layout));
  for (const TorchTensor& entry : entries) {
    auto bytes = shared->storages[entry.storage];
    const std::size_t size = byte_size(entry.strided);
    const std::uint64_t copied = entry.copied ? bytes.size() + size : 0;
    if (!entry.copied)
      bytes = bytes.subspan(size == 0 ? 0 : entry.strided.offset * entry.strided.element_size, size);
    checkpoint.add(file, entry.info, bytes, copied,
                   [&file, shared, entry, bytes](std::vector<std::byte>& copy) -> std::span<const std::byte> {
                     check_intact(file, *shared, entry.storage);
                     if (!entry.copied) return bytes;
                     copy = to_row_major(entry.strided, bytes, shared->big_endian);
                     return copy;
                   });
  }
}

}  // namespace attnctl::checkpoint
