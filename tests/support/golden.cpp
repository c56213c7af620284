#include "support/golden.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint.hpp"
#include "input/sequences.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::test {
namespace {

OwnedMatrix<float> matrix_of(const GoldenArray& array) {
  OwnedMatrix<float> matrix(array.shape.at(0), array.shape.at(1));
  std::ranges::transform(array.values, matrix.values().begin(),
                         [](double x) { return static_cast<float>(x); });
  return matrix;
}

/// Converts an array [n, m] or [h, n, m] to a mask. Booleans: 1 = may attend. Floats are added to the scores.
input::ScoreMask mask_of(const GoldenArray& array, bool added) {
  const std::size_t rank = array.shape.size();
  input::ScoreMask mask = {.heads = rank == 3 ? array.shape[0] : 1,
                           .queries = array.shape.at(rank - 2),
                           .keys = array.shape.at(rank - 1),
                           .added = {}};
  for (const double value : array.values) {
    const double hidden = value == 0 ? -std::numeric_limits<double>::infinity() : 0;
    mask.added.push_back(static_cast<float>(added ? value : hidden));
  }
  return mask;
}

/// Cuts an image [channels, height, width] into patches. The patch size is that of config.json in
/// `directory`.
input::Sequence image_of(const std::filesystem::path& directory, const GoldenArray& array) {
  const std::size_t patch = nlohmann::json::parse(slurp(directory / "config.json")).at("patch_size");
  const PatchGrid grid = {.channels = array.shape.at(0),
                          .height = array.shape.at(1),
                          .width = array.shape.at(2),
                          .patch_height = patch,
                          .patch_width = patch};
  const std::vector<float> pixels(array.values.begin(), array.values.end());
  return input::make_pixel_sequence(pixels, grid);
}

}  // namespace

Golden::Golden(const std::filesystem::path& directory)
    : directory_(directory),
      arrays_(checkpoint::open_checkpoint(
          std::filesystem::is_directory(directory) ? directory / "golden.npz" : directory, warnings_)) {}

bool Golden::has(const std::string& name) const {
  return arrays_->find(name) != checkpoint::Checkpoint::npos;
}

GoldenArray Golden::array(const std::string& name) const {
  const std::size_t index = arrays_->find(name);
  if (index == checkpoint::Checkpoint::npos) throw std::out_of_range("no golden array " + name);
  const checkpoint::TensorView view = arrays_->tensor(index);
  GoldenArray array = {view.shape, std::vector<double>(view.bytes.size() / size_of(view.dtype))};
  convert(view.dtype, view.bytes, array.values);
  return array;
}

std::vector<std::int64_t> Golden::integers(const std::string& name) const {
  std::vector<std::int64_t> integers;
  for (const double value : array(name).values) integers.push_back(static_cast<std::int64_t>(value));
  return integers;
}

std::size_t Golden::inputs() const {
  std::size_t count = 0;
  while (has("pattern_" + std::to_string(count)) || has("pattern_enc_" + std::to_string(count))) ++count;
  return count;
}

input::Sequence Golden::sequence(std::size_t input) const {
  const std::string number = std::to_string(input);
  input::Sequence sequence;
  if (has("ids_" + number)) sequence.ids = integers("ids_" + number);
  if (has("pixels_" + number)) sequence = image_of(directory_, array("pixels_" + number));
  sequence.id = number;
  if (has("token_type_ids_" + number)) sequence.token_type_ids = integers("token_type_ids_" + number);
  if (has("key_mask_" + number)) {
    for (const double value : array("key_mask_" + number).values) sequence.key_visible.push_back(value != 0);
  }
  if (has("embeddings_" + number)) sequence.embeddings = matrix_of(array("embeddings_" + number));
  if (has("key_inputs_" + number)) sequence.key_embeddings = matrix_of(array("key_inputs_" + number));
  if (has("value_inputs_" + number)) sequence.value_embeddings = matrix_of(array("value_inputs_" + number));
  if (has("mask_" + number)) {
    const bool added = is_floating(arrays_->tensors()[arrays_->find("mask_" + number)].dtype);
    sequence.mask = mask_of(array("mask_" + number), added);
  }
  if (has("target_ids_" + number)) {
    sequence.target = std::make_shared<input::Sequence>();
    sequence.target->ids = integers("target_ids_" + number);
  }
  return sequence;
}

std::string component_suffix(model::Component component) {
  return component == model::Component::none ? "" : "_" + std::string(name_of(component));
}

std::set<model::Component> components_of(const model::ModelConfig& config) {
  std::set<model::Component> components;
  for (const model::LayerConfig& layer : config.layers) components.insert(layer.component);
  return components;
}

std::vector<std::filesystem::path> golden_models() {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(ATTNCTL_SOURCE_DIR "/tests/golden")) {
    if (exists(entry.path() / "golden.npz") && exists(entry.path() / "config.json"))
      found.push_back(entry.path());
  }
  std::ranges::sort(found);
  return found;
}

model::Model bind_model(const std::filesystem::path& path, Warnings& warnings) {
  return model::Model::bind(checkpoint::open_model_source(path.string(), {}, warnings), warnings);
}

}  // namespace attnctl::test
