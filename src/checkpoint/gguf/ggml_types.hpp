#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/dtype.hpp"

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

}  // namespace attnctl
