#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/numbers.hpp"
#include "checkpoint/readers.hpp"

// Tensors whose numbers have scales in other tensors.
namespace attnctl::checkpoint {
namespace {

constexpr std::size_t kNone = Checkpoint::npos;
constexpr std::size_t kTile = 128;  // rows and columns of a block of DeepSeek

bool is_fp8(DType dtype) {
  return dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2;
}

/// Throws the Error(bad_input) for scales that do not fit to their tensor.
[[noreturn]] void refuse_scales(const TensorInfo& scales, const TensorInfo& of, std::string_view need) {
  refuse_tensor(scales.file, scales.name, "got {} {}, need {} for the {} tensor {} {}", name_of(scales.dtype),
                to_string(scales.shape), need, name_of(of.dtype), in_quotes(of.name), to_string(of.shape));
}

/// Which scale belongs to an element of a matrix: the one at [row / rows, column / cols] of a table.
struct ScaleGrid {
  std::size_t rows = 1, cols = 1;  // of a block with one scale
  std::size_t per_row = 1;         // columns of the table
};

ScaleGrid grid_of(const TensorInfo& weight, const TensorInfo& scales) {
  const Shape& shape = weight.shape;
  const std::size_t count = checked_product(scales.shape).value_or(0);
  if (is_floating(scales.dtype) && shape.size() == 2 && shape[0] > 0 && shape[1] > 0) {
    const Shape tiles = {(shape[0] + kTile - 1) / kTile, (shape[1] + kTile - 1) / kTile};
    if (count == 1) return {shape[0], shape[1], 1};
    if (scales.shape == Shape{shape[0], 1} || scales.shape == Shape{shape[0]}) return {1, shape[1], 1};
    if (scales.shape == tiles) return {kTile, kTile, tiles[1]};
  }
  refuse_scales(scales, weight, "one scale, one for each row, or one for each block of 128 x 128");
}

std::span<float> as_floats(std::vector<std::byte>& copy, std::size_t count) {
  copy.resize(count * sizeof(float));
  return {reinterpret_cast<float*>(copy.data()), count};
}

void scale_fp8(Checkpoint& checkpoint, std::size_t weight, std::size_t scales) {
  const TensorInfo info = checkpoint.tensors()[weight];
  const TensorInfo& of_scales = checkpoint.tensors()[scales];
  const ScaleGrid grid = grid_of(info, of_scales);
  const auto bytes = checkpoint.stored_bytes(weight);
  const auto scale_bytes = checkpoint.stored_bytes(scales);
  const DType scale_type = of_scales.dtype;
  const auto load = [=](std::vector<std::byte>& copy) -> std::span<const std::byte> {
    std::vector<float> factors(scale_bytes.size() / size_of(scale_type));
    convert(scale_type, scale_bytes, std::span(factors));
    const std::size_t cols = info.shape[1];
    const std::span<float> values = as_floats(copy, info.shape[0] * cols);
    convert(info.dtype, bytes, values);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] *= factors[i / cols / grid.rows * grid.per_row + i % cols / grid.cols];
    return copy;
  };
  TensorInfo made{info.name, DType::f32, info.shape};
  checkpoint.replace(weight, std::move(made), bytes.size() * (1 + sizeof(float)), load);
}

/// Decodes MXFP4 as transformers does. Block g of row r has 32 values in 16 bytes, the lower half of a byte
/// first, and the scale 2^(s - 127). The result is transposed: [..., 32 g, r].
void decode_mxfp4(Checkpoint& checkpoint, std::size_t blocks, std::size_t scales) {
  const TensorInfo info = checkpoint.tensors()[blocks];
  const TensorInfo& of_scales = checkpoint.tensors()[scales];
  Shape expected = info.shape;
  const bool plausible = info.dtype == DType::u8 && of_scales.dtype == DType::u8 && expected.size() >= 3 &&
                         expected.back() == 16;
  if (!expected.empty()) expected.pop_back();
  if (!plausible || of_scales.shape != expected)
    refuse_scales(of_scales, info, "U8 scales, one for each 16 bytes of U8 blocks [..., rows, groups, 16]");
  const std::size_t groups = expected.back();
  const std::size_t rows = expected[expected.size() - 2];
  Shape shape(expected.begin(), expected.end() - 2);
  shape.insert(shape.end(), {groups * 32, rows});
  const auto bytes = checkpoint.stored_bytes(blocks);
  const auto exponents = checkpoint.stored_bytes(scales);
  const auto load = [=](std::vector<std::byte>& copy) -> std::span<const std::byte> {
    static constexpr std::array<float, 16> kNumbers = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,
                                                       4.0F,  6.0F,  -0.0F, -0.5F, -1.0F, -1.5F,
                                                       -2.0F, -3.0F, -4.0F, -6.0F};
    const std::span<float> values = as_floats(copy, bytes.size() * 2);
    for (std::size_t block = 0; block < exponents.size(); ++block) {
      const std::size_t matrix = block / (rows * groups);
      const std::size_t row = block / groups % rows;
      const std::size_t first = block % groups * 32;
      const float scale = std::ldexp(1.0F, std::to_integer<int>(exponents[block]) - 127);
      for (std::size_t i = 0; i < 32; ++i) {
        const auto pair = std::to_integer<std::size_t>(bytes[block * 16 + i / 2]);
        const float number = kNumbers[i % 2 == 0 ? pair & 15 : pair >> 4];
        values[(matrix * groups * 32 + first + i) * rows + row] = number * scale;
      }
    }
    return copy;
  };
  std::string name = info.name.substr(0, info.name.size() - std::string_view("_blocks").size());
  checkpoint.replace(blocks, {std::move(name), DType::f32, std::move(shape)},
                     bytes.size() * (1 + 2 * sizeof(float)), load);
}

}  // namespace

void combine_scales(Checkpoint& checkpoint) {
  struct Packed {
    std::size_t blocks, scales;
  };
  std::vector<Packed> packed;
  std::vector<std::size_t> used;
  for (std::size_t i = 0; i < checkpoint.tensors().size(); ++i) {
    const TensorInfo& info = checkpoint.tensors()[i];
    if (info.name.ends_with("_blocks")) {
      const std::string stem = info.name.substr(0, info.name.size() - std::string_view("_blocks").size());
      const std::size_t scales = checkpoint.find(stem + "_scales");
      if (scales == kNone) continue;
      packed.push_back({i, scales});
    } else if (is_fp8(info.dtype)) {
      std::size_t scales = checkpoint.find(info.name + "_scale_inv");
      if (scales == kNone) scales = checkpoint.find(info.name + "_scale");
      if (scales == kNone) continue;
      scale_fp8(checkpoint, i, scales);
      used.push_back(scales);
    }
  }
  for (const Packed& one : packed) {  // after the last find(), because the names change
    decode_mxfp4(checkpoint, one.blocks, one.scales);
    used.push_back(one.scales);
  }
  std::ranges::sort(used);
  checkpoint.remove(used);
  if (!packed.empty()) checkpoint.sort();
}

}  // namespace attnctl::checkpoint
