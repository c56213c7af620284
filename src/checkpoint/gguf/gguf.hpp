#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/dtype.hpp"
#include "base/files/mapped_file.hpp"
#include "formats/tokenizer_section.hpp"

namespace attnctl {

/// A storage type of ggml: plain numbers, or blocks of small integers with scales.
struct GgmlType {
  std::uint32_t id = 0;  // number in the file
  std::string_view name;
  std::size_t block_values = 1;
  std::size_t block_bytes = 0;
  DType dtype = DType::f32;  // of the decoded values
  /// Decodes one block of `block_values` values; null if values are stored plainly as `dtype`.
  void (*decode)(const std::byte* block, float* values) = nullptr;
};

/// Returns the type with this number; null if unsupported.
[[nodiscard]] const GgmlType* find_ggml_type(std::uint32_t id);

/// Returns ggml's name, such as "Q2_K", or "number 99", for messages.
[[nodiscard]] std::string ggml_type_name(std::uint32_t id);
/// Returns the names of all supported types: "F32, F16, ...".
[[nodiscard]] std::string supported_ggml_types();

/// Decodes whole blocks of a type with a `decode`; `values` has their number of values.
void decode_blocks(const GgmlType& type, std::span<const std::byte> blocks, std::span<float> values);

/// Types of metadata values, with their numbers in the file.
enum class GgufType : std::uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  string,
  array,
  u64,
  i64,
  f64
};

/// A value within the file. Array elements are not checked except for their lengths.
struct GgufValue {
  std::string_view key;
  GgufType type = GgufType::u8;        // type of the elements, for arrays
  std::optional<std::uint64_t> count;  // number of elements, for arrays
  std::span<const std::byte> bytes;    // a string's characters; other types as stored
  std::size_t at = 0;                  // offset in the file, for messages
};

/// Keys and values of a GGUF file. Reading a value as a wrong type throws Error(bad_input).
class GgufMetadata {
 public:
  GgufMetadata() = default;
  /// Throws Error(bad_input) for duplicate keys. The file must outlive this object.
  GgufMetadata(std::string file, std::vector<GgufValue> values);

  [[nodiscard]] const GgufValue* find(std::string_view key) const;
  /// Non-negative integers of any width.
  [[nodiscard]] std::optional<std::uint64_t> integer(std::string_view key) const;
  [[nodiscard]] std::optional<double> number(std::string_view key) const;  // finite
  [[nodiscard]] std::optional<std::string_view> text(std::string_view key) const;
  [[nodiscard]] std::optional<bool> flag(std::string_view key) const;
  /// Arrays of strings, of finite float32 numbers, and of integers with 8 to 32 bits.
  [[nodiscard]] std::optional<std::vector<std::string>> texts(std::string_view key) const;
  [[nodiscard]] std::optional<std::vector<float>> floats(std::string_view key) const;
  [[nodiscard]] std::optional<std::vector<std::int64_t>> integers(std::string_view key) const;

  /// Throws Error(bad_input) about the value of an existing key.
  [[noreturn]] void reject(std::string_view key, std::string_view need) const { reject(*find(key), need); }

 private:
  [[noreturn]] void reject(const GgufValue& value, std::string_view need) const;

  std::string file_;               // escaped
  std::vector<GgufValue> values_;  // sorted by key
};

struct GgufTensor {
  std::string_view name;  // a view of the file
  const GgmlType* type = nullptr;
  Shape shape;  // outermost first; the file stores it innermost first
  std::span<const std::byte> bytes;
};

struct GgufLayout {
  GgufMetadata metadata;
  std::vector<GgufTensor> tensors;  // sorted by unique names
};

/// Reads the metadata and the descriptions of tensors, and checks that the tensors are aligned, complete with
/// padding, and do not overlap. The result has views of the file. Throws Error(bad_input).
[[nodiscard]] GgufLayout read_gguf_layout(const FileBytes& file);

/// Reads the tokenizer of a GGUF file; null if it has none. Throws Error(bad_input) for lists of a wrong type
/// or length, byte tokens that are not a byte (such as <0x-1>), and ids without a token. `file` is escaped.
[[nodiscard]] std::shared_ptr<const TokenizerSection> read_gguf_tokenizer(const std::string& file,
                                                                          const GgufMetadata& metadata);

/// The order of a GGUF matrix, compared with a Hugging Face checkpoint.
enum class GgufOrder {
  as_stored,
  rotary_pairs,  // rows of each head are in pairs (0, k/2, 1, k/2 + 1, ...) instead of two halves
  transposed     // [out, in] instead of [in, out]
};

/// A tensor under its Hugging Face name.
struct GgufMapped {
  std::string name;
  std::size_t tensor = 0;  // index in the layout
  GgufOrder order = GgufOrder::as_stored;
  std::size_t heads = 0;  // number of heads, for rotary_pairs
  float added = 0;        // subtracted from every value, which makes the tensor float32
};

/// A GGUF file as a Hugging Face checkpoint. Unknown tensors keep their names; the tensor of rotary factors
/// becomes part of the configuration.
struct GgufModel {  // NOLINT(bugprone-exception-escape): moving JSON throws nothing
  nlohmann::ordered_json config;
  std::vector<GgufMapped> tensors;  // sorted by unique names
};

/// Throws Error(bad_input) for an unknown architecture, missing, wrong or unsupported keys, and tensors whose
/// shape does not fit their order.
[[nodiscard]] GgufModel map_gguf(const std::string& file, const GgufLayout& layout);

}  // namespace attnctl
