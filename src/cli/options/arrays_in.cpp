#include "cli/options/arrays_in.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <span>
#include <utility>

#include "base/checked.hpp"
#include "base/dtype.hpp"
#include "base/error.hpp"
#include "base/warnings.hpp"
#include "checkpoint/checkpoint.hpp"
#include "input/sequences.hpp"

namespace attnctl::cli {
namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();

/// The type, shape and values (as float) of one .npy file.
struct FloatArray {
  std::string file;
  DType dtype = DType::f32;
  Shape shape;
  std::vector<float> values;
};

FloatArray read_npy(const std::string& path) {
  if (std::filesystem::path(path).extension() != ".npy") {
    fail(Status::bad_input, "{}: unsupported array file; need .npy", escaped(path));
  }
  Warnings unused;
  const std::unique_ptr<Checkpoint> file = open_checkpoint(path, unused);
  const TensorView tensor = file->tensor(0);
  FloatArray array{escaped(path), tensor.dtype, tensor.shape, {}};
  array.values.resize(checked_product(tensor.shape).value());
  convert(tensor.dtype, tensor.bytes, array.values);
  return array;
}

[[noreturn]] void refuse_shape(const FloatArray& array, const std::string& need) {
  fail(Status::bad_input, "{}: got shape {}, need {}", array.file, to_string(array.shape), need);
}

/// Turns integer masks (1 and 0) into added scores (0 and -inf). Leaves float masks unchanged.
void to_added(FloatArray& array) {
  for (std::size_t i = 0; i < array.values.size(); ++i) {
    float& value = array.values[i];
    if (is_floating(array.dtype)) {
      if (std::isnan(value) || value == std::numeric_limits<float>::infinity()) {
        fail(Status::bad_input, "{}: @value {}: got {}, need a number or -inf, added to the scores",
             array.file, i, value);
      }
    } else {
      if (value != 0.0F && value != 1.0F) {
        fail(Status::bad_input, "{}: @value {}: got {}, need 1 (may attend) or 0 (hidden)", array.file, i,
             value);
      }
      value = value == 1.0F ? 0.0F : kHidden;
    }
  }
}

}  // namespace

std::vector<OwnedMatrix<float>> read_embeddings(const std::string& path) {
  const FloatArray array = read_npy(path);
  if (array.shape.size() != 2 && array.shape.size() != 3) refuse_shape(array, "[n, d] or [batch, n, d]");
  const std::size_t batch = array.shape.size() == 3 ? array.shape[0] : 1;
  const std::size_t rows = array.shape[array.shape.size() - 2];
  const std::size_t width = array.shape.back();
  if (batch == 0 || rows == 0 || width == 0) refuse_shape(array, "no axis of length 0");
  std::vector<OwnedMatrix<float>> items;
  for (std::size_t b = 0; b < batch; ++b) {
    OwnedMatrix<float>& item = items.emplace_back(rows, width);
    std::copy_n(array.values.begin() + static_cast<std::ptrdiff_t>(b * rows * width), rows * width,
                item.values().begin());
  }
  return items;
}

std::vector<Sequence> read_images(const std::string& path, const PatchGrid& grid) {
  const FloatArray array = read_npy(path);
  if (!is_floating(array.dtype)) {
    fail(Status::bad_input,
         "{}: got {}, need floating-point pixels, scaled as the model's image processor does it", array.file,
         name_of(array.dtype));
  }
  const Shape image = {grid.channels, grid.height, grid.width};
  const std::size_t axes = array.shape.size();
  const bool fits =
      (axes == 3 || (axes == 4 && array.shape[0] > 0)) &&
      std::equal(image.begin(), image.end(), array.shape.end() - static_cast<std::ptrdiff_t>(3));
  if (!fits) {
    refuse_shape(array,
                 fmt::format("{0} or [batch, {1}, the channels, height and width of the model's images",
                             to_string(image), to_string(image).substr(1)));
  }
  std::vector<Sequence> sequences;
  for (std::size_t begin = 0; begin < array.values.size(); begin += grid.image_size())
    sequences.push_back(make_pixel_sequence(std::span(array.values).subspan(begin, grid.image_size()), grid));
  return sequences;
}

void read_score_masks(const std::string& path, Batch& batch) {
  FloatArray array = read_npy(path);
  const std::size_t axes = array.shape.size();
  const std::string need = fmt::format(
      "[n, m], [batch, n, m], [batch, 1, n, m] or [batch, h, n, m] for {} inputs", batch.sequences.size());
  if (axes < 2 || axes > 4 || (axes > 2 && array.shape[0] != batch.sequences.size()))
    refuse_shape(array, need);
  to_added(array);
  const std::size_t heads = axes == 4 ? array.shape[1] : 1;
  const std::size_t queries = array.shape[axes - 2];
  const std::size_t keys = array.shape[axes - 1];
  const std::size_t each = heads * queries * keys;
  for (std::size_t s = 0; s < batch.sequences.size(); ++s) {
    Sequence& sequence = batch.sequences[s];
    if (queries != sequence.queries() || keys != sequence.keys()) {
      refuse_shape(array, fmt::format("{} queries and {} keys as input \"{}\" has", sequence.queries(),
                                      sequence.keys(), escaped(sequence.id)));
    }
    const std::span<const float> values = std::span(array.values).subspan(axes == 2 ? 0 : s * each, each);
    sequence.mask = ScoreMask{heads, queries, keys, {values.begin(), values.end()}};
  }
}

void read_key_masks(const std::string& path, Batch& batch) {
  FloatArray array = read_npy(path);
  if (is_floating(array.dtype))
    fail(Status::bad_input, "{}: got {}, need bool or integer", array.file, name_of(array.dtype));
  if (array.shape.size() != 2 || array.shape[0] != batch.sequences.size()) {
    refuse_shape(array, fmt::format("[{}, m]", batch.sequences.size()));
  }
  to_added(array);
  const std::size_t keys = array.shape[1];
  for (std::size_t s = 0; s < batch.sequences.size(); ++s) {
    Sequence& sequence = batch.sequences[s];
    if (keys != sequence.keys()) {
      refuse_shape(array, fmt::format("{} keys as input \"{}\" has", sequence.keys(), escaped(sequence.id)));
    }
    sequence.key_visible.resize(keys);
    for (std::size_t j = 0; j < keys; ++j)
      sequence.key_visible[j] = array.values[s * keys + j] == 0.0F ? 1 : 0;
  }
}

}  // namespace attnctl::cli
