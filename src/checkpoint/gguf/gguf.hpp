#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/dtype.hpp"
#include "base/files/input_file.hpp"
#include "formats/tokenizer_section.hpp"
#include "linalg/encoded.hpp"

namespace attnctl::checkpoint {

/// A ggml type, which says how numbers are stored: one by one, or in blocks of small integers with scales.
struct GgmlType {
  std::uint32_t id = 0;  // number that identifies the type in a GGUF file
  std::string_view name;
  std::size_t block_values = 1;
  std::size_t block_bytes = 0;
  DType dtype = DType::f32;  // type of the decoded values
  /// How blocks are decoded to float32; nullopt if values are stored one by one as `dtype`.
  std::optional<linalg::NumberEncoding> blocks = {};
};

/// Returns the type with this number. Throws Error(bad_input) if the type is not supported. `file` is the
/// escaped name of the file, and `what` names the tensor.
[[nodiscard]] const GgmlType& ggml_type(std::uint32_t id, std::string_view file, std::string_view what);

/// The types of metadata values. The enumerators are equal to the type numbers in a GGUF file.
enum class GgufType : std::uint8_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

/// An array in the metadata. Opening the file checks that the elements and the texts of strings end before
/// the end of the file. It does not check their values.
struct GgufArray {
  GgufType type = GgufType::u8;  // of the elements
  std::uint64_t count = 0;
  std::string_view bytes;  // view of the elements in the file
};

/// A metadata value. An integer is an int64 if it is negative, otherwise a uint64.
using GgufContent = std::variant<std::uint64_t, std::int64_t, double, bool, std::string_view, GgufArray>;

struct GgufValue {
  std::string_view key;
  GgufContent content;
  std::size_t at = 0;  // offset of the entry (key, then value) in the file, for messages
};

/// The metadata of a GGUF file: keys with values. The getters return nullopt if the key is missing, and throw
/// Error(bad_input) if the value has another type.
class GgufMetadata {
 public:
  GgufMetadata() = default;
  /// The bytes of the file must outlive this object. Throws Error(bad_input) if a key occurs twice.
  GgufMetadata(std::string file, std::vector<GgufValue> values);

  [[nodiscard]] const GgufValue* find(std::string_view key) const;
  /// Returns a non-negative integer that is stored with any width.
  [[nodiscard]] std::optional<std::uint64_t> integer(std::string_view key) const {
    return read<std::uint64_t>(key, "an integer of at least 0");
  }
  /// Returns a floating-point number. Throws Error(bad_input) for an integer, and if the number is not
  /// finite.
  [[nodiscard]] std::optional<double> number(std::string_view key) const;
  [[nodiscard]] std::optional<std::string_view> text(std::string_view key) const {
    return read<std::string_view>(key, "a string");
  }
  [[nodiscard]] std::optional<bool> flag(std::string_view key) const {
    return read<bool>(key, "true or false");
  }
  [[nodiscard]] std::optional<std::vector<std::string>> texts(std::string_view key) const;
  /// Returns an array of float32 numbers. Throws Error(bad_input) also if a number is not finite.
  [[nodiscard]] std::optional<std::vector<float>> floats(std::string_view key) const;
  /// Returns an array of integers, which are stored with 8 to 32 bits.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> integers(std::string_view key) const;

  /// Throws Error(bad_input) with the key, its value and `need`, which says what value is needed. The key
  /// must exist.
  [[noreturn]] void reject(std::string_view key, std::string_view need) const;

 private:
  template <typename T>
  [[nodiscard]] std::optional<T> read(std::string_view key, std::string_view need) const {
    const GgufValue* const value = find(key);
    if (value == nullptr) return std::nullopt;
    const T* const content = std::get_if<T>(&value->content);
    if (content == nullptr) reject(key, need);
    return *content;
  }

  std::string file_;               // the file's name, escaped
  std::vector<GgufValue> values_;  // sorted by key
};

struct GgufTensor {
  std::string_view name;  // the name in the file
  const GgmlType* type = nullptr;
  Shape shape;  // outermost dimension first; the file stores the innermost first
  std::span<const std::byte> bytes;
  std::uint64_t begin = 0;  // offset of `bytes` from the beginning of the tensor data
  std::uint64_t size = 0;   // number of bytes that the tensor takes
  std::size_t at = 0;       // offset of the tensor's description in the file, for messages
};

struct GgufLayout {
  GgufMetadata metadata;
  std::vector<GgufTensor> tensors;  // sorted by name; no name occurs twice
};

/// Reads and checks the metadata and the descriptions of the tensors. The result contains views of the file.
/// Throws Error(bad_input).
[[nodiscard]] GgufLayout read_gguf_layout(const MappedFile& file);

/// How the elements of a matrix are ordered in GGUF, compared with a Hugging Face checkpoint.
enum class GgufOrder {
  as_stored,
  rotary_pairs,  // the k rows of each head are stored in the order 0, k/2, 1, k/2 + 1, ...
  transposed     // the shape is [out, in] in GGUF and [in, out] in the Hugging Face checkpoint
};

/// A tensor of a GGUF file with its name in a Hugging Face checkpoint.
struct GgufMapped {
  std::string name;
  std::size_t tensor = 0;  // index in GgufLayout::tensors
  GgufOrder order = GgufOrder::as_stored;
  std::size_t heads = 0;  // number of heads, if `order` is rotary_pairs
  /// Number that GGUF adds to each value; if it is not 0, reading subtracts it and the result is float32.
  float added = 0;
};

/// A GGUF file as a Hugging Face checkpoint. Unknown tensors keep their names. If the architecture has rotary
/// positions, the tensor of rotary frequency factors is not in `tensors`, but a part of `config`.
struct GgufModel {  // NOLINT(bugprone-exception-escape): moving JSON throws nothing
  nlohmann::ordered_json config;
  std::vector<GgufMapped> tensors;  // sorted by name; no name occurs twice
};

/// Returns the Hugging Face configuration and tensor names of a GGUF file. `file` is the file's escaped name.
/// Throws Error(bad_input) if the metadata or a tensor is invalid or not supported.
[[nodiscard]] GgufModel map_gguf(const std::string& file, const GgufLayout& layout);

}  // namespace attnctl::checkpoint
