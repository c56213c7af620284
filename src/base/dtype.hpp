#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace attnctl {

/// Element types of stored tensors.
enum class DType : std::uint8_t { f64, f32, f16, bf16, i64, i32, i16, i8, u64, u32, u16, u8, boolean };

[[nodiscard]] std::size_t size_of(DType dtype);       // bytes of one element
[[nodiscard]] std::string_view name_of(DType dtype);  // as safetensors writes it: "F32", "BF16", ...
[[nodiscard]] bool is_floating(DType dtype);

/// Extents, outermost first; empty for a scalar.
using Shape = std::vector<std::size_t>;

/// "[2, 3]", as errors show it.
[[nodiscard]] std::string to_string(const Shape& shape);

/// IEEE half and bfloat16 to float, exact, subnormals and NaN payloads included.
[[nodiscard]] float float_from_f16(std::uint16_t bits);
[[nodiscard]] float float_from_bf16(std::uint16_t bits);

/// Converts `out.size()` elements of `dtype`, packed little-endian at `bytes` (any alignment), to float or
/// double. F64 to float rounds to nearest, beyond its range to infinity; integers round to nearest; BOOL
/// gives 0 or 1. Throws std::length_error where `bytes` holds fewer elements.
void convert(DType dtype, std::span<const std::byte> bytes, std::span<float> out);
void convert(DType dtype, std::span<const std::byte> bytes, std::span<double> out);

}  // namespace attnctl
