
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/numbers.hpp"
#include "checkpoint/readers.hpp"
#include "formats/json.hpp"

namespace attnctl::checkpoint {
namespace {

constexpr std::size_t kLengthBytes = 8;
/// The largest size of the header in bytes, a limit of the safetensors format.
constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;
constexpr std::size_t kMaxSafetensorsDimensions = 64;

struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::size_t begin = 0, end = 0;  // the data are bytes [begin, end), counted from the end of the header
};

constexpr std::string_view kMetadata = "__metadata__";

/// Parses a header {"__metadata__": {key: string}, name: {"dtype", "shape", "data_offsets"}, ...}. Builds one
/// JSON tree per tensor instead of one for all, because a header may list a hundred thousand tensors.
// NOLINTNEXTLINE(bugprone-exception-escape): moving JSON throws nothing
class HeaderEvents final : public formats::JsonTree {
 public:
  std::vector<SafetensorsEntry> entries;

 private:
  void on_begin(Container container) override {
    const bool object = container == Container::object;
    if (object ? depth() > 1 : depth() != 2 || name_ == kMetadata)
      refuse(fmt::format("got {}, need {}", object ? "an object" : "an array", needed()));
    list_size_ = 0;
    if (depth() > 0) formats::JsonTree::on_begin(container);
  }

  void on_end(Container container) override {
    if (depth() == 0) return;
    formats::JsonTree::on_end(container);
    if (depth() == 1 && name_ != kMetadata) add_entry(take());
  }

  void on_key(std::string& key) override {
    if (depth() > 1) {
      const bool known = key == "dtype" || key == "shape" || key == "data_offsets";
      if (name_ != kMetadata && !known) refuse("unsupported field, need dtype, shape and data_offsets");
      return formats::JsonTree::on_key(key);
    }
    if (key == kMetadata && std::exchange(has_metadata_, true))
      refuse("got the key \"__metadata__\" twice, need different keys");
    name_ = std::move(key);
  }

  void on_scalar(const formats::JsonScalar& scalar) override {
    const bool fits = (depth() == 2 && std::holds_alternative<std::string*>(scalar)) ||
                      (depth() == 3 && std::holds_alternative<std::uint64_t>(scalar));
    if (!fits) refuse(fmt::format("got {}, need {}", formats::describe(scalar), needed()));
    if (++list_size_ > kMaxSafetensorsDimensions && depth() == 3)
      refuse(fmt::format("got more than {} numbers", kMaxSafetensorsDimensions));
    formats::JsonTree::on_scalar(scalar);
  }

  [[nodiscard]] std::string_view needed() const {
    if (depth() == 0) return "an object of tensors";
    if (depth() == 3) return "an integer from 0 to 2^64-1";
    if (name_ == kMetadata) return depth() == 1 ? "an object of strings" : "a string";
    return depth() == 1 ? "an object with dtype, shape and data_offsets"
                        : "the name of a dtype, or an array of integers";
  }

  void add_entry(const nlohmann::ordered_json& object) {
    if (object.size() != 3) refuse("a field is missing, need dtype, shape and data_offsets");
    const auto& dtype = object.at("dtype");
    if (!dtype.is_string() || !object.at("shape").is_array() || !object.at("data_offsets").is_array())
      refuse("need the name of a dtype, and arrays for shape and data_offsets");
    const auto offsets = object.at("data_offsets").get<Shape>();
    if (offsets.size() != 2) {
      attnctl::refuse(text().file, "{}/data_offsets: got {} offsets, need [begin, end]", pointer(),
                      offsets.size());
    }
    entries.push_back({name_, dtype_named(dtype.get<std::string>()), object.at("shape").get<Shape>(),
                       offsets[0], offsets[1]});
  }

  [[nodiscard]] DType dtype_named(const std::string& name) const {
    std::string known;
    for (int i = 0; i <= static_cast<int>(DType::f8_e8m0); ++i) {
      const auto dtype = static_cast<DType>(i);
      if (name_of(dtype) == name) return dtype;
      known += fmt::format(" {}", name_of(dtype));
    }
    attnctl::refuse(text().file, "{}/dtype: unsupported dtype {}, need one of{}; convert the checkpoint",
                    pointer(), in_quotes(name), known);
  }

  std::string name_;  // key of the current tensor, or kMetadata
  bool has_metadata_ = false;
  std::size_t list_size_ = 0;  // number of scalars so far in the current array
};

void check_entry(const MappedFile& file, const SafetensorsEntry& entry, std::size_t data_size) {
  if (entry.begin > entry.end) {
    refuse_tensor(file.name(), entry.name, "data_offsets: got begin {} after end {}, need begin <= end",
                  entry.begin, entry.end);
  }
  if (entry.end > data_size) {
    refuse_tensor(file.name(), entry.name,
                  "data_offsets: got end {}, need at most the {} bytes after the header; was the file "
                  "downloaded whole?",
                  entry.end, data_size);
  }
  const auto size = checked_product(entry.shape, size_of(entry.dtype));
  if (!size) {
    refuse_tensor(file.name(), entry.name, "shape: got {}, whose size does not fit 64 bits",
                  to_string(entry.shape));
  }
  if (*size != entry.end - entry.begin) {
    refuse_tensor(file.name(), entry.name, "data_offsets: got {} bytes, need {} for shape {} of {}",
                  entry.end - entry.begin, *size, to_string(entry.shape), name_of(entry.dtype));
  }
}

/// Throws Error(bad_input) unless every byte after the header belongs to exactly one tensor. Sorts the
/// entries by offset.
void check_cover(const MappedFile& file, std::vector<SafetensorsEntry>& entries, std::size_t data_size) {
  std::ranges::sort(entries, {},
                    [](const SafetensorsEntry& entry) { return std::pair(entry.begin, entry.end); });
  std::size_t covered = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.begin != covered) {
      refuse_tensor(
          file.name(), entry.name, "data_offsets: got begin {}, need {}: {}", entry.begin, covered,
          entry.begin < covered ? "it overlaps the tensor before it" : "bytes before it belong to no tensor");
    }
    covered = entry.end;
  }
  if (covered != data_size) {
    refuse(file.name(), "got {} bytes @byte {} that belong to no tensor, need none", data_size - covered,
           file.bytes().size() - (data_size - covered));
  }
}

std::string_view header_text(const MappedFile& file) {
  const std::size_t size = file.bytes().size();
  if (size < kLengthBytes) {
    refuse(file.name(), "got {} bytes, need at least 8 for the header's length; was it downloaded whole?",
           size);
  }
  const std::uint64_t length = little_endian(file.text().substr(0, kLengthBytes));
  if (length == 0) refuse(file.name(), "header length @byte 0: got 0, need a JSON object");
  if (length > kMaxSafetensorsHeader) {
    refuse(file.name(), "header length @byte 0: got {}, need at most {}; is it a safetensors file?", length,
           kMaxSafetensorsHeader);
  }
  if (length > size - kLengthBytes) {
    refuse(file.name(),
           "header length @byte 0: got {}, need at most the {} bytes that follow; was it downloaded whole?",
           length, size - kLengthBytes);
  }
  return file.text().substr(kLengthBytes, static_cast<std::size_t>(length));
}

}  // namespace

void read_safetensors(const MappedFile& file, Checkpoint& checkpoint, Warnings& /*warnings*/) {
  const std::string_view text = header_text(file);
  HeaderEvents header;
  header.parse({.file = file.name(), .text = text, .byte = kLengthBytes});
  if (const auto* const twice = sort_by_name(header.entries, &SafetensorsEntry::name))
    refuse_tensor(file.name(), twice->name, "got the key twice, need different keys");
  const auto data = file.bytes().subspan(kLengthBytes + text.size());
  for (const SafetensorsEntry& entry : header.entries) check_entry(file, entry, data.size());
  check_cover(file, header.entries, data.size());
  for (SafetensorsEntry& entry : header.entries) {
    checkpoint.add(file, {std::move(entry.name), entry.dtype, std::move(entry.shape)},
                   data.subspan(entry.begin, entry.end - entry.begin));
  }
}

}  // namespace attnctl::checkpoint
