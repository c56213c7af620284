#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace attnctl {

enum class DType : std::uint8_t {
  f64,
  f32,
  f16,
  bf16,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean,
  f8_e4m3,  // 8 bits as in the OCP Microscaling Formats: 4 of exponent, 3 of fraction, no infinity
  f8_e5m2,  // the upper half of a float16
  f8_e8m0   // a power of two
};

[[nodiscard]] std::size_t size_of(DType dtype);       // bytes of one element
[[nodiscard]] std::string_view name_of(DType dtype);  // as in safetensors: "F32", "BF16", ...
[[nodiscard]] bool is_floating(DType dtype);

/// Extents of a tensor, outermost first; empty for a scalar.
using Shape = std::vector<std::size_t>;

[[nodiscard]] std::string to_string(const Shape& shape);  // "[2, 3]"

/// Converts IEEE half to float exactly, including subnormals and NaN payloads.
[[nodiscard]] float float_from_f16(std::uint16_t bits);

/// Converts the first `out.size()` elements of `bytes` (packed, little-endian, any alignment) to float or
/// double. Rounds to nearest. An F64 value outside the range of float becomes an infinity of the same sign.
/// BOOL becomes 0 or 1. Throws std::length_error if `bytes` is too short.
void convert(DType dtype, std::span<const std::byte> bytes, std::span<float> out);
void convert(DType dtype, std::span<const std::byte> bytes, std::span<double> out);

/// The division of an image into patches, row by row from the top left corner. Pixels that do not fill a
/// whole patch are ignored.
struct PatchGrid {
  std::size_t channels = 0;  // 0 if inputs are not images
  std::size_t height = 0, width = 0;
  std::size_t patch_height = 0, patch_width = 0;

  [[nodiscard]] bool present() const { return channels > 0; }
  [[nodiscard]] std::size_t rows() const { return height / patch_height; }
  [[nodiscard]] std::size_t columns() const { return width / patch_width; }
  [[nodiscard]] std::size_t patches() const { return rows() * columns(); }
  /// The number of values of one patch [channels, patch_height, patch_width].
  [[nodiscard]] std::size_t patch_size() const { return channels * patch_height * patch_width; }
  [[nodiscard]] std::size_t image_size() const { return channels * height * width; }
};

}  // namespace attnctl
