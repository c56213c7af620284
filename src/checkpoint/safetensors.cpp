#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/checked.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/readers.hpp"
#include "formats/json.hpp"

namespace attnctl {
namespace {

constexpr std::size_t kLengthBytes = 8;
/// In bytes; the safetensors format has this limit.
constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;
constexpr std::size_t kMaxSafetensorsDimensions = 64;

constexpr std::array<DType, 13> kSafetensorsTypes = {
    DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32,    DType::i16,
    DType::i8,  DType::u64, DType::u32, DType::u16,  DType::u8,  DType::boolean};

/// A tensor in a safetensors header. The tensor's data are bytes [begin, end), counted from the end of the
/// header.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Parses a header {"__metadata__": {key: string}, name: {"dtype", "shape", "data_offsets"}, ...}. Does not
/// build a JSON tree, because a header may list a hundred thousand tensors.
class HeaderEvents final : public JsonEvents {
 public:
  std::vector<SafetensorsEntry> entries;
  std::vector<std::string> metadata_keys;

 private:
  enum class Place { start, file, metadata, tensor, dtype, shape, offsets };

  void on_begin(Container container) override {
    const bool object = container == Container::object;
    if (place_ == Place::start && object) {
      place_ = Place::file;
    } else if (place_ == Place::file && object && metadata_) {
      place_ = Place::metadata;
    } else if (place_ == Place::file && object) {
      place_ = Place::tensor;
      fields_ = 0;
    } else if ((place_ == Place::shape || place_ == Place::offsets) && !object && !in_list_) {
      in_list_ = true;
    } else {
      refuse(fmt::format("got {}, need {}", object ? "an object" : "an array", needed()));
    }
  }

  void on_end(Container container) override {
    if (container == Container::array) {
      in_list_ = false;
      if (place_ == Place::offsets && offsets_ != 2)
        refuse(fmt::format("got {} offsets, need [begin, end]", offsets_));
      place_ = Place::tensor;
    } else if (place_ == Place::tensor) {
      if (fields_ != kAllFields) refuse("a field is missing, need dtype, shape and data_offsets");
      place_ = Place::file;
    } else {
      place_ = Place::file;
    }
  }

  void on_key(std::string& key) override {
    if (place_ == Place::file) {
      metadata_ = key == "__metadata__";
      if (!metadata_) {
        entries.emplace_back().name = std::move(key);
      } else if (std::exchange(had_metadata_, true)) {
        refuse("got the key \"__metadata__\" twice, need different keys");
      }
    } else if (place_ == Place::metadata) {
      metadata_keys.push_back(std::move(key));
    } else {
      enter_field(key);
    }
  }

  void on_scalar(const JsonScalar& scalar) override {
    const auto* const text = std::get_if<std::string*>(&scalar);
    const auto* const number = std::get_if<std::uint64_t>(&scalar);
    if (place_ == Place::metadata && text != nullptr) return;
    if (place_ == Place::dtype && text != nullptr) {
      entries.back().dtype = dtype_named(**text);
      place_ = Place::tensor;
    } else if (place_ == Place::shape && in_list_ && number != nullptr) {
      if (entries.back().shape.size() == kMaxSafetensorsDimensions)
        refuse(fmt::format("got more dimensions, need at most {}", kMaxSafetensorsDimensions));
      entries.back().shape.push_back(static_cast<std::size_t>(*number));
    } else if (place_ == Place::offsets && in_list_ && number != nullptr) {
      if (++offsets_ > 2) refuse("got more than two offsets, need [begin, end]");
      (offsets_ == 1 ? entries.back().begin : entries.back().end) = static_cast<std::size_t>(*number);
    } else {
      refuse(fmt::format("got {}, need {}", describe(scalar), needed()));
    }
  }

  void enter_field(const std::string& key) {
    struct Field {
      std::string_view name;
      Place place;
      unsigned bit;
    };
    static constexpr std::array<Field, 3> fields = {
        {{"dtype", Place::dtype, 1}, {"shape", Place::shape, 2}, {"data_offsets", Place::offsets, 4}}};
    const auto* const field = std::ranges::find(fields, key, &Field::name);
    if (field == fields.end()) refuse("unsupported field, need dtype, shape and data_offsets");
    if ((fields_ & field->bit) != 0)
      refuse(fmt::format("got the key \"{}\" twice, need different keys", key));
    fields_ |= field->bit;
    place_ = field->place;
    offsets_ = 0;
  }

  [[nodiscard]] DType dtype_named(const std::string& name) const {
    const auto* const found =
        std::ranges::find(kSafetensorsTypes, name, [](DType dtype) { return name_of(dtype); });
    if (found != kSafetensorsTypes.end()) return *found;
    std::string known;
    for (const DType dtype : kSafetensorsTypes) known += fmt::format(" {}", name_of(dtype));
    refuse(
        fmt::format("unsupported dtype {}, need one of{}; convert the checkpoint", in_quotes(name), known));
  }

  [[nodiscard]] std::string_view needed() const {
    switch (place_) {
      case Place::start:
        return "an object of tensors";
      case Place::file:
        return metadata_ ? "an object of strings" : "an object with dtype, shape, data_offsets";
      case Place::metadata:
        return "a string";
      case Place::tensor:
        return "a field";
      case Place::dtype:
        return "the name of a dtype";
      case Place::shape:
      case Place::offsets:
        return in_list_ ? "an integer from 0 to 2^64-1" : "an array of integers";
    }
    return "nothing";
  }

  static constexpr unsigned kAllFields = 7;
  Place place_ = Place::start;
  bool metadata_ = false;
  bool had_metadata_ = false;
  bool in_list_ = false;
  unsigned fields_ = 0;
  unsigned offsets_ = 0;
};

void check_entry(const FileBytes& file, const SafetensorsEntry& entry, std::size_t data_size) {
  if (entry.begin > entry.end) {
    refuse_tensor(file.name(), entry.name, "data_offsets: got begin {} after end {}, need begin <= end",
                  entry.begin, entry.end);
  }
  if (entry.end > data_size) {
    refuse_tensor(file.name(), entry.name,
                  "data_offsets: got end {}, need at most the {} bytes after the header", entry.end,
                  data_size);
  }
  const auto count = checked_product(entry.shape);
  const auto size = count ? checked_mul(*count, size_of(entry.dtype)) : std::nullopt;
  if (!size) refuse_tensor(file.name(), entry.name, "shape: got one whose size does not fit 64 bits");
  if (*size != entry.end - entry.begin) {
    refuse_tensor(file.name(), entry.name, "data_offsets: got {} bytes, need {} for shape {} of {}",
                  entry.end - entry.begin, *size, to_string(entry.shape), name_of(entry.dtype));
  }
}

/// Throws Error(bad_input) unless every byte after the header belongs to exactly one tensor.
void check_cover(const FileBytes& file, const std::vector<SafetensorsEntry>& entries, std::size_t data_size) {
  std::vector<std::size_t> order(entries.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return std::pair(entries[i].begin, entries[i].end); });
  std::size_t covered = 0;
  for (const std::size_t i : order) {
    const SafetensorsEntry& entry = entries[i];
    if (entry.begin != covered) {
      refuse_tensor(
          file.name(), entry.name, "data_offsets: got begin {}, need {}: {}", entry.begin, covered,
          entry.begin < covered ? "it overlaps the tensor before it" : "bytes before it belong to no tensor");
    }
    covered = entry.end;
  }
  if (covered != data_size) {
    refuse(file.name(), "got {} bytes after the last tensor @byte {}, need none", data_size - covered,
           file.bytes().size() - (data_size - covered));
  }
}

/// Checks the length of the header and returns the text of the header.
std::string_view header_text(const FileBytes& file) {
  const std::size_t size = file.bytes().size();
  if (size < kLengthBytes) {
    refuse(file.name(), "got {} bytes, need at least 8 for the header's length; was it downloaded whole?",
           size);
  }
  std::uint64_t length = 0;
  std::memcpy(&length, file.bytes().data(), kLengthBytes);
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

std::unique_ptr<Checkpoint> open_safetensors(FileBytes file) {
  const std::string_view text = header_text(file);
  HeaderEvents header;
  header.parse({.file = file.name(), .text = text, .byte = kLengthBytes});
  if (const auto* const twice = sort_by_name(header.entries, &SafetensorsEntry::name))
    refuse_tensor(file.name(), twice->name, "got the key twice, need different keys");
  if (const std::string* const key = sort_by_name(header.metadata_keys, std::identity()))
    refuse(file.name(), "/__metadata__: got the key {} twice, need different keys", in_quotes(*key));
  const auto data = file.bytes().subspan(kLengthBytes + text.size());
  for (const SafetensorsEntry& entry : header.entries) check_entry(file, entry, data.size());
  check_cover(file, header.entries, data.size());
  auto checkpoint = std::make_unique<FileCheckpoint>(std::move(file));
  const std::string_view name = checkpoint->file().name();
  for (SafetensorsEntry& entry : header.entries) {
    checkpoint->add({std::move(entry.name), entry.dtype, std::move(entry.shape), name},
                    data.subspan(entry.begin, entry.end - entry.begin));
  }
  return checkpoint;
}

}  // namespace attnctl
