#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include <fmt/format.h>

#include "base/numbers.hpp"
#include "checkpoint/gguf/gguf.hpp"
#include "checkpoint/readers.hpp"

namespace attnctl::checkpoint {
namespace {

constexpr std::size_t kStringLengthBytes = 8;
// Size of a value in bytes, by GgufType: for a string, the size of its length field; for an array, not used.
constexpr std::array<std::size_t, 13> kTypeBytes = {1, 1, 2, 2, 4, 4, 4, 1, 8, 0, 8, 8, 8};

std::size_t bytes_of(GgufType type) {
  return kTypeBytes.at(static_cast<std::size_t>(type));
}

/// Returns the stored bits, extended to 64 bits by the sign if the type is a signed integer.
std::uint64_t bits_of(GgufType type, std::string_view bytes) {
  using enum GgufType;
  const std::uint64_t bits = little_endian(bytes);
  if (type != i8 && type != i16 && type != i32 && type != i64) return bits;
  const std::size_t unused = 64 - 8 * bytes.size();
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(bits << unused) >> unused);
}

GgufContent scalar_of(GgufType type, std::string_view bytes) {
  const std::uint64_t bits = bits_of(type, bytes);
  if (type == GgufType::f32) return double{std::bit_cast<float>(static_cast<std::uint32_t>(bits))};
  if (type == GgufType::f64) return std::bit_cast<double>(bits);
  if (type == GgufType::boolean) return bits != 0;
  const auto number = static_cast<std::int64_t>(bits);
  if (number < 0 && type != GgufType::u64) return number;
  return bits;
}

std::string format_content(const GgufContent& content) {
  return std::visit(
      [](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, GgufArray>) {
          return fmt::format("an array of {}", value.count);
        } else if constexpr (std::is_same_v<T, std::string_view>) {
          return in_quotes(value);
        } else {
          return fmt::to_string(value);
        }
      },
      content);
}

constexpr std::string_view kGgufMagic = "GGUF";
constexpr std::uint32_t kMinVersion = 2;
constexpr std::uint32_t kMaxVersion = 3;
constexpr std::size_t kMaxKeyBytes = 65'535;
constexpr std::uint32_t kMaxGgufDimensions = 4;
constexpr std::uint64_t kDefaultAlignment = 32;
constexpr std::uint64_t kMinAlignment = 8;
constexpr std::uint64_t kMaxAlignment = std::uint64_t{1} << 20;
// Lower bounds of the size in bytes of a metadata entry and of a tensor's description.
constexpr std::size_t kMinValueBytes = 8 + 1 + 4 + 1;
constexpr std::size_t kMinTensorBytes = 8 + 4 + 4 + 8;

class GgufLayoutReader {
 public:
  explicit GgufLayoutReader(const MappedFile& file) : file_(file) {}

  GgufLayout read() {
    read_version();
    const std::uint64_t tensors = count(kMinTensorBytes, "tensor count");
    const std::uint64_t values = count(kMinValueBytes, "metadata count");
    std::vector<GgufValue> metadata;
    for (std::uint64_t i = 0; i < values; ++i) metadata.push_back(read_value());
    layout_.metadata = {file_.name(), std::move(metadata)};
    constexpr std::string_view key = "general.alignment";
    alignment_ = layout_.metadata.integer(key).value_or(kDefaultAlignment);
    if (!std::has_single_bit(alignment_) || alignment_ < kMinAlignment || alignment_ > kMaxAlignment)
      layout_.metadata.reject(key, fmt::format("a power of two from {} to {}", kMinAlignment, kMaxAlignment));
    for (std::uint64_t i = 0; i < tensors; ++i) read_tensor();
    place_tensors();
    return std::move(layout_);
  }

 private:
  std::string_view take(std::uint64_t size, std::string_view what) {
    const std::size_t left = file_.bytes().size() - at_;
    if (size > left) {
      refuse(file_.name(), "{} @byte {}: got {} bytes up to the end, need {}; was it downloaded whole?", what,
             at_, left, size);
    }
    const auto taken = file_.text().substr(at_, static_cast<std::size_t>(size));
    at_ += taken.size();
    return taken;
  }

  template <typename Number>
  Number number(std::string_view what) {
    return static_cast<Number>(little_endian(take(sizeof(Number), what)));
  }

  std::string_view string(std::string_view what) { return take(number<std::uint64_t>(what), what); }

  /// Reads an 8-byte count. Throws Error(bad_input) if the rest of the file is too short for this many items
  /// of at least `each` bytes. `what` names the count in the message.
  std::uint64_t count(std::size_t each, std::string_view what) {
    const std::size_t where = at_;
    const auto count = number<std::uint64_t>(what);
    const std::size_t left = file_.bytes().size() - at_;
    if (count > left / each) {
      refuse(
          file_.name(),
          "{} @byte {}: got a count of {}, need at most {} for the {} bytes that follow; was it downloaded "
          "whole?",
          what, where, count, left / each, left);
    }
    return count;
  }

  void read_version() {
    const std::string_view magic = take(kGgufMagic.size(), "magic");
    if (magic != kGgufMagic)
      refuse(file_.name(), "magic @byte 0: got {}, need \"GGUF\"; is it a GGUF file?", in_quotes(magic));
    const auto version = number<std::uint32_t>("version");
    if (version >= kMinVersion && version <= kMaxVersion) return;
    // In a big-endian file, a small version number reads as a multiple of 2^16.
    refuse(file_.name(), "version @byte 4: unsupported {}{}; need {} or {}, little-endian", version,
           version != 0 && version % 65'536 == 0 ? " (big-endian)" : "", kMinVersion, kMaxVersion);
  }

  GgufType read_type(std::string_view what) {
    const std::size_t at = at_;
    const auto type = number<std::uint32_t>(what);
    if (type >= kTypeBytes.size()) {
      refuse(file_.name(), "{} @byte {}: unsupported type {}, need 0 to {}", what, at, type,
             kTypeBytes.size() - 1);
    }
    return static_cast<GgufType>(type);
  }

  GgufValue read_value() {
    GgufValue value;
    value.at = at_;
    value.key = string("metadata key");
    if (value.key.empty() || value.key.size() > kMaxKeyBytes) {
      refuse(file_.name(), "metadata key @byte {}: got {} bytes, need 1 to {}", value.at, value.key.size(),
             kMaxKeyBytes);
    }
    const std::string what = "metadata " + in_quotes(value.key);
    GgufType type = read_type(what);
    if (type == GgufType::array) {
      type = read_type(what);
      if (type == GgufType::array)
        refuse(file_.name(), "{} @byte {}: unsupported array of arrays", what, value.at);
      const std::uint64_t elements = count(bytes_of(type), what);
      value.content = GgufArray{type, elements, read_elements(type, elements, what)};
    } else if (type == GgufType::string) {
      value.content = string(what);
    } else {
      value.content = scalar_of(type, take(bytes_of(type), what));
    }
    return value;
  }

  std::string_view read_elements(GgufType type, std::uint64_t elements, std::string_view what) {
    // The product cannot overflow, because the count was checked against the remaining bytes.
    if (type != GgufType::string) return take(elements * bytes_of(type), what);
    const std::size_t begin = at_;
    for (std::uint64_t i = 0; i < elements; ++i) static_cast<void>(string(what));
    return file_.text().substr(begin, at_ - begin);
  }

  void read_tensor() {
    GgufTensor tensor;
    tensor.at = at_;
    tensor.name = string("tensor name");
    if (tensor.name.empty()) refuse(file_.name(), "tensor name @byte {}: got an empty name", tensor.at);
    const std::string what = fmt::format("tensor {}", in_quotes(tensor.name));
    tensor.shape = read_shape(what);
    tensor.type = &ggml_type(number<std::uint32_t>(what), file_.name(), what);
    tensor.begin = number<std::uint64_t>(what);
    tensor.size = size_of_tensor(tensor, what);
    if (tensor.begin % alignment_ != 0) {
      refuse(file_.name(), "{} @byte {}: got offset {}, need a multiple of the alignment {}", what, tensor.at,
             tensor.begin, alignment_);
    }
    layout_.tensors.push_back(std::move(tensor));
  }

  Shape read_shape(std::string_view what) {
    const std::size_t at = at_;
    const auto count = number<std::uint32_t>(what);
    if (count > kMaxGgufDimensions) {
      refuse(file_.name(), "{} @byte {}: got {} dimensions, need at most {}", what, at, count,
             kMaxGgufDimensions);
    }
    Shape shape;
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto extent = number<std::uint64_t>(what);
      if (!std::in_range<std::int64_t>(extent)) {
        refuse(file_.name(), "{} @byte {}: got dimension {}, need 0 to {}", what, at,
               static_cast<std::int64_t>(extent), std::numeric_limits<std::int64_t>::max());
      }
      shape.push_back(static_cast<std::size_t>(extent));
    }
    std::ranges::reverse(shape);
    return shape;
  }

  [[nodiscard]] std::uint64_t size_of_tensor(const GgufTensor& tensor, std::string_view what) const {
    const std::size_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
    if (row % tensor.type->block_values != 0) {
      refuse(file_.name(), "{}: got rows of {} values, need a multiple of {}, the block size of {}", what,
             row, tensor.type->block_values, tensor.type->name);
    }
    const std::size_t value_size = size_of(tensor.type->dtype);
    const auto decoded = checked_product(tensor.shape, value_size);  // at least the size in the file
    if (!decoded) {
      refuse(file_.name(), "{}: got shape {}, whose size does not fit 64 bits", what,
             to_string(tensor.shape));
    }
    return *decoded / value_size / tensor.type->block_values * tensor.type->block_bytes;
  }

  void place_tensors() {
    if (layout_.tensors.empty()) return;
    std::ranges::sort(layout_.tensors, {}, [](const GgufTensor& t) { return std::pair(t.begin, t.size); });
    const std::uint64_t begin = padded(at_).value();  // file offsets are far below 2^64
    std::uint64_t covered = 0;
    for (GgufTensor& tensor : layout_.tensors) {
      if (tensor.begin < covered) {
        refuse(file_.name(), "tensor {} @byte {}: got offset {}, need {} or more: it overlaps another",
               in_quotes(tensor.name), tensor.at, tensor.begin, covered);
      }
      const auto end = checked_add(tensor.begin, tensor.size);
      const auto rounded = end ? padded(*end) : std::nullopt;
      const auto last = rounded ? checked_add(*rounded, begin) : std::nullopt;
      if (!last || *last > file_.bytes().size()) {
        refuse(file_.name(),
               "tensor {} @byte {}: got offset {} and {} bytes, need it to end, with its padding, in the {} "
               "bytes after the header; was the file downloaded whole?",
               in_quotes(tensor.name), tensor.at, tensor.begin, tensor.size,
               file_.bytes().size() - std::min<std::uint64_t>(begin, file_.bytes().size()));
      }
      tensor.bytes = file_.bytes().subspan(begin + tensor.begin, tensor.size);
      covered = *end;
    }
    if (const GgufTensor* const twice = sort_by_name(layout_.tensors, &GgufTensor::name))
      refuse_tensor(file_.name(), twice->name, "got the name twice, need different names");
  }

  /// Returns `size` rounded up to a multiple of the alignment; nullopt if the result does not fit 64 bits.
  [[nodiscard]] std::optional<std::uint64_t> padded(std::uint64_t size) const {
    const auto beyond = checked_add(size, alignment_ - 1);
    if (!beyond) return std::nullopt;
    return *beyond - *beyond % alignment_;
  }

  const MappedFile& file_;
  std::size_t at_ = 0;  // offset of the next unread byte in the file
  std::uint64_t alignment_ = kDefaultAlignment;
  GgufLayout layout_;
};

}  // namespace

GgufMetadata::GgufMetadata(std::string file, std::vector<GgufValue> values)
    : file_(std::move(file)), values_(std::move(values)) {
  if (const GgufValue* const twice = sort_by_name(values_, &GgufValue::key))
    refuse(file_, "metadata {}: got the key twice, need different keys", in_quotes(twice->key));
}

const GgufValue* GgufMetadata::find(std::string_view key) const {
  const auto found = std::ranges::lower_bound(values_, key, {}, &GgufValue::key);
  return found != values_.end() && found->key == key ? &*found : nullptr;
}

std::optional<double> GgufMetadata::number(std::string_view key) const {
  constexpr std::string_view kNeed = "a finite floating-point number";
  const auto number = read<double>(key, kNeed);
  if (number && !std::isfinite(*number)) reject(key, kNeed);
  return number;
}

std::optional<std::vector<std::string>> GgufMetadata::texts(std::string_view key) const {
  constexpr std::string_view kNeed = "an array of strings";
  const auto array = read<GgufArray>(key, kNeed);
  if (!array) return std::nullopt;
  if (array->type != GgufType::string) reject(key, kNeed);
  std::vector<std::string> texts;
  // The lengths of the strings are checked when the file is opened.
  std::string_view rest = array->bytes;
  for (std::uint64_t i = 0; i < array->count; ++i) {
    const std::size_t length = little_endian(rest.substr(0, kStringLengthBytes));
    texts.emplace_back(rest.substr(kStringLengthBytes, length));
    rest.remove_prefix(kStringLengthBytes + length);
  }
  return texts;
}

std::optional<std::vector<float>> GgufMetadata::floats(std::string_view key) const {
  constexpr std::string_view kNeed = "an array of finite numbers in float32";
  const auto array = read<GgufArray>(key, kNeed);
  if (!array) return std::nullopt;
  if (array->type != GgufType::f32) reject(key, kNeed);
  std::vector<float> numbers(array->count);
  convert(DType::f32, std::as_bytes(std::span(array->bytes)), std::span(numbers));
  if (!std::ranges::all_of(numbers, [](float number) { return std::isfinite(number); })) reject(key, kNeed);
  return numbers;
}

std::optional<std::vector<std::int64_t>> GgufMetadata::integers(std::string_view key) const {
  constexpr std::string_view kNeed = "an array of integers of at most 32 bits";
  const auto array = read<GgufArray>(key, kNeed);
  if (!array) return std::nullopt;
  if (array->type >= GgufType::f32) reject(key, kNeed);
  const std::size_t width = bytes_of(array->type);
  std::vector<std::int64_t> numbers;
  for (std::uint64_t i = 0; i < array->count; ++i)
    numbers.push_back(static_cast<std::int64_t>(bits_of(array->type, array->bytes.substr(i * width, width))));
  return numbers;
}

void GgufMetadata::reject(std::string_view key, std::string_view need) const {
  const GgufValue& value = *find(key);
  refuse(file_, "metadata {} @byte {}: got {}, need {}", in_quotes(key), value.at,
         format_content(value.content), need);
}

GgufLayout read_gguf_layout(const MappedFile& file) {
  return GgufLayoutReader(file).read();
}

}  // namespace attnctl::checkpoint
