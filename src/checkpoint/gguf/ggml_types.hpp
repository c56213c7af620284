#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/dtype.hpp"

namespace attnctl {

/// How ggml stores a tensor's values: plainly, or as blocks of small integers with scales of their own.
struct GgmlType {
  std::uint32_t id = 0;  // as the file has it
  std::string_view name;
  std::size_t block_values = 1;
  std::size_t block_bytes = 0;
  DType dtype = DType::f32;  // of the values that a reader gets
  /// Values of one block, `block_values` of them; null where they are stored plainly as `dtype`.
  void (*decode)(const std::byte* block, float* values) = nullptr;
};

/// The type of this number; null where it is not supported.
[[nodiscard]] const GgmlType* find_ggml_type(std::uint32_t id);

/// "Q2_K", as ggml names it, or "number 99", for errors.
[[nodiscard]] std::string ggml_type_name(std::uint32_t id);
/// "F32, F16, ...": all that find_ggml_type knows.
[[nodiscard]] std::string supported_ggml_types();

/// Values of whole blocks: `values` holds as many as `blocks` do. For types with a `decode`.
void decode_blocks(const GgmlType& type, std::span<const std::byte> blocks, std::span<float> values);

}  // namespace attnctl
