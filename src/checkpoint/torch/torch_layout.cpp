#include <algorithm>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/checked.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/torch/torch.hpp"

namespace attnctl {
namespace {

constexpr std::string_view kObjects = "/data.pkl";

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Returns the bytes of a storage before an element.
std::size_t bytes_until(const Pickle& pickle, const PickleStorage& storage, std::int64_t element) {
  const auto count = checked_narrow<std::size_t>(element);
  const auto size = count ? checked_mul(*count, storage.element_size()) : std::nullopt;
  if (!size) {
    fail(Status::bad_input, "{}: storage {}: got {} elements, whose size does not fit 64 bits",
         pickle.where(), in_quotes(storage.key), element);
  }
  return *size;
}

std::span<const std::byte> view_of(const Pickle& pickle, const PickleStorage& storage,
                                   std::span<const std::byte> whole) {
  const std::size_t need = bytes_until(pickle, storage, storage.count);
  if (whole.size() < need) {
    fail(Status::bad_input, "{}: storage {}: got {} bytes, need {} for its {} elements", pickle.where(),
         in_quotes(storage.key), whole.size(), need, storage.count);
  }
  const std::size_t begin = bytes_until(pickle, storage, storage.view_offset);
  return whole.subspan(begin, bytes_until(pickle, storage, storage.view_count));
}

class TorchArchive {
 public:
  explicit TorchArchive(const FileBytes& file) : file_(file), members_(read_zip_directory(file)) {
    for (const StoredMember& member : members_) {
      if (!member.name.ends_with(kObjects)) continue;
      const std::string folder = member.name.substr(0, member.name.size() - kObjects.size());
      if (folder.find('/') != std::string::npos) continue;
      if (!folder_.empty()) {
        fail(Status::bad_input, "{}: got data.pkl in {} and in {}, need one", file.name(), in_quotes(folder_),
             in_quotes(folder));
      }
      folder_ = folder;
    }
    if (folder_.empty()) {
      fail(Status::bad_input,
           "{}: got a ZIP archive without data.pkl, need a PyTorch checkpoint; is it an .npz?", file.name());
    }
    if (find("constants.pkl") != members_.end()) {
      fail(Status::bad_input, "{}: unsupported: a TorchScript program; save only the state_dict",
           file.name());
    }
  }

  [[nodiscard]] TorchLayout read() {
    TorchLayout layout;
    layout.big_endian = is_big_endian();
    const StoredMember& objects = member("data.pkl");
    std::vector<std::byte> unused;  // members are uncompressed
    layout.pickle = std::make_unique<Pickle>(
        Pickle::Source{at_member(file_, objects), text_of(unpack(file_, objects, unused)), 0});
    const Pickle& pickle = *layout.pickle;
    if (pickle.end() != objects.size) {
      fail(Status::bad_input, "{}: got {} bytes after the pickle @byte {}, need none", pickle.where(),
           objects.size - pickle.end(), pickle.end());
    }
    for (const PickleStorage& storage : pickle.storages()) {
      check_key(pickle, storage.key);
      const StoredMember& data = member("data/" + std::string(storage.key));
      layout.storages.push_back(view_of(pickle, storage, data.data));
      layout.members.push_back(static_cast<std::size_t>(&data - members_.data()));
    }
    layout.archive = std::move(members_);
    return layout;
  }

 private:
  using Found = std::vector<StoredMember>::const_iterator;

  [[nodiscard]] Found find(std::string_view name) const {
    const std::string whole = fmt::format("{}/{}", folder_, name);
    const auto found =
        std::lower_bound(members_.begin(), members_.end(), whole,
                         [](const StoredMember& each, const std::string& want) { return each.name < want; });
    return found != members_.end() && found->name == whole ? found : members_.end();
  }

  [[nodiscard]] const StoredMember& member(std::string_view name) const {
    const Found found = find(name);
    if (found == members_.end()) {
      fail(Status::bad_input, "{}: member {} is missing, need it for the checkpoint", file_.name(),
           in_quotes(fmt::format("{}/{}", folder_, name)));
    }
    if (found->deflated) {
      fail(Status::bad_input, "{}: unsupported: compressed, need members as torch.save stores them",
           at_member(file_, *found));
    }
    return *found;
  }

  [[nodiscard]] bool is_big_endian() const {
    if (find("byteorder") == members_.end()) return false;
    const StoredMember& record = member("byteorder");
    const std::string_view order = text_of(record.data);
    if (order != "little" && order != "big") {
      fail(Status::bad_input, "{}: got {}, need little or big", at_member(file_, record), in_quotes(order));
    }
    return order == "big";
  }

  static void check_key(const Pickle& pickle, std::string_view key) {
    const bool plain = !key.empty() && key.find_first_not_of("0123456789") == std::string_view::npos;
    if (!plain)
      fail(Status::bad_input, "{}: storage {}: need a key of digits", pickle.where(), in_quotes(key));
  }

  const FileBytes& file_;
  std::vector<StoredMember> members_;
  std::string folder_;
};

/// The layout before torch 1.6: five pickles (magic number, protocol version, machine, objects, storage
/// keys), then the storages in the order of the keys, each with its element count in 8 bytes. All numbers are
/// little-endian.
class LegacyTorchFile {
 public:
  explicit LegacyTorchFile(const FileBytes& file) : file_(file), text_(file.text()) {}

  [[nodiscard]] TorchLayout read() {
    constexpr std::string_view kMagic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
    constexpr std::int64_t kVersion = 1001;
    const Pickle magic = next();
    if (magic.root().kind != PickleValue::Kind::wide || magic.text(magic.root()) != kMagic) {
      fail(Status::bad_input,
           "{}: got a pickle of {}, need the magic number of torch.save; nothing was "
           "executed",
           file_.name(), name_of(magic.root().kind));
    }
    const Pickle version = next();
    if (version.root().kind != PickleValue::Kind::integer || version.root().number != kVersion) {
      fail(Status::bad_input, "{}: unsupported version of the layout before torch 1.6, need {}", file_.name(),
           kVersion);
    }
    (void)next();  // the machine; elements are always little-endian
    TorchLayout layout;
    layout.pickle = std::make_unique<Pickle>(Pickle::Source{file_.name(), text_, at_});
    at_ = layout.pickle->end();
    const auto wholes = read_storages(*layout.pickle, next());
    for (const PickleStorage& storage : layout.pickle->storages()) {
      const auto whole = wholes.find(storage.key);
      if (whole == wholes.end()) {
        fail(Status::bad_input, "{}: storage {} is missing from the file", file_.name(),
             in_quotes(storage.key));
      }
      layout.storages.push_back(view_of(*layout.pickle, storage, whole->second));
    }
    return layout;
  }

 private:
  using Wholes = std::map<std::string_view, std::span<const std::byte>>;

  [[nodiscard]] Pickle next() {
    Pickle pickle({file_.name(), text_, at_});
    at_ = pickle.end();
    return pickle;
  }

  [[nodiscard]] Wholes read_storages(const Pickle& objects, const Pickle& keys) {
    if (keys.root().kind != PickleValue::Kind::list) {
      fail(Status::bad_input, "{}: got {} after the objects, need the list of storages", file_.name(),
           name_of(keys.root().kind));
    }
    std::map<std::string_view, std::size_t> sizes;
    for (const PickleStorage& storage : objects.storages()) {
      const std::size_t size = storage.element_size();
      if (sizes.try_emplace(storage.key, size).first->second != size) {
        fail(Status::bad_input, "{}: storage {}: got two types of elements, need one", file_.name(),
             in_quotes(storage.key));
      }
    }
    Wholes wholes;
    for (const PickleValue& value : keys.items(keys.root())) {
      const std::string_view key = value.kind == PickleValue::Kind::text ? keys.text(value) : "";
      const auto size = sizes.find(key);
      if (size == sizes.end()) {
        fail(Status::bad_input, "{}: storage {}: no tensor uses it, need only storages of tensors",
             file_.name(), in_quotes(key));
      }
      if (!wholes.try_emplace(key, read_storage(key, size->second)).second)
        fail(Status::bad_input, "{}: storage {}: got it twice", file_.name(), in_quotes(key));
    }
    if (at_ != text_.size()) {
      fail(Status::bad_input, "{}: got {} bytes after the last storage @byte {}, need none", file_.name(),
           text_.size() - at_, at_);
    }
    return wholes;
  }

  [[nodiscard]] std::span<const std::byte> read_storage(std::string_view key, std::size_t element_size) {
    constexpr std::size_t kCountBytes = 8;
    const std::size_t rest = text_.size() - at_;
    std::uint64_t count = 0;
    for (std::size_t i = kCountBytes; rest >= kCountBytes && i-- > 0;)
      count = count << 8 | static_cast<unsigned char>(text_[at_ + i]);
    const auto size = checked_mul<std::uint64_t>(count, element_size);
    if (rest < kCountBytes || !size || *size > rest - kCountBytes) {
      fail(Status::bad_input,
           "{}: storage {} @byte {}: got {} bytes, need {} elements of {}; was it downloaded whole?",
           file_.name(), in_quotes(key), at_, rest, count, element_size);
    }
    const auto bytes = file_.bytes().subspan(at_ + kCountBytes, static_cast<std::size_t>(*size));
    at_ += kCountBytes + bytes.size();
    return bytes;
  }

  const FileBytes& file_;
  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

TorchLayout read_torch_layout(const FileBytes& file) {
  return file.text().starts_with("PK") ? TorchArchive(file).read() : LegacyTorchFile(file).read();
}

}  // namespace attnctl
