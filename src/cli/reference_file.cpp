#include "cli/reference_file.hpp"

#include "attnctl/base/checked.hpp"
#include "attnctl/base/dtype.hpp"
#include "attnctl/base/error.hpp"
#include "attnctl/base/warnings.hpp"
#include "attnctl/checkpoint/checkpoint.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

namespace attnctl::cli {
namespace {

struct DoubleArray {
  Shape shape;
  std::vector<double> values;
};

std::optional<DoubleArray> read_array(Checkpoint& file, const std::string& name) {
  const std::size_t index = file.find(name);
  if (index == Checkpoint::npos) return std::nullopt;
  const TensorView tensor = file.tensor(index);
  DoubleArray array{tensor.shape, std::vector<double>(checked_product(tensor.shape).value())};
  convert(tensor.dtype, tensor.bytes, array.values);
  return array;
}

std::vector<std::int64_t> integers(const DoubleArray& array) {
  std::vector<std::int64_t> values;
  for (const double value : array.values) values.push_back(static_cast<std::int64_t>(value));
  return values;
}

/// The last two axes of an array, item `index`.
OwnedMatrix<double> matrix_of(const DoubleArray& array, std::size_t index) {
  const std::size_t rows = array.shape[array.shape.size() - 2];
  const std::size_t cols = array.shape.back();
  OwnedMatrix<double> matrix(rows, cols);
  const auto first = array.values.begin() + static_cast<std::ptrdiff_t>(index * rows * cols);
  std::copy_n(first, rows * cols, matrix.values().begin());
  return matrix;
}

/// Reads one input's arrays into a pass.
class PassReader {
 public:
  PassReader(Checkpoint& file, std::string path, const ModelConfig& config)
      : file_(file), path_(std::move(path)), config_(config) {
    if (const auto layers = read_array(file_, "layers")) {
      for (const std::int64_t layer : integers(*layers)) {
        if (layer < 0 || static_cast<std::size_t>(layer) >= config.layers.size()) {
          fail(Status::bad_input, "{}: \"layers\": got {}, the model has {}", path_, layer,
               config.layers.size());
        }
        layers_.push_back(static_cast<std::size_t>(layer));
      }
    } else {
      for (std::size_t i = 0; i < config.layers.size(); ++i) layers_.push_back(i);
    }
  }

  /// nullopt where the file has nothing of that input.
  std::optional<ReferencePass> read(std::size_t input) {
    ReferencePass pass;
    pass.layers.resize(config_.layers.size());
    bool found = read_heads(input, "pattern", pass, &ReferencePass::Layer::pattern);
    found |= read_heads(input, "scores", pass, &ReferencePass::Layer::scores);
    found |= read_heads(input, "z", pass, &ReferencePass::Layer::z);
    if (const auto output = read_checked(input, "output", 3)) {
      found = true;
      for (std::size_t i = 0; i < layers_.size(); ++i) pass.layers[layers_[i]].output = matrix_of(*output, i);
    }
    if (const auto logits = read_checked(input, "logits", 2)) {
      found = true;
      pass.logits = matrix_of(*logits, 0);
    }
    if (!found) return std::nullopt;
    return pass;
  }

 private:
  std::optional<DoubleArray> read_checked(std::size_t input, const char* name, std::size_t axes) {
    const std::string full = fmt::format("{}_{}", name, input);
    auto array = read_array(file_, full);
    if (!array) return array;
    const bool fits = array->shape.size() == axes && (axes == 2 || array->shape[0] == layers_.size());
    if (!fits) {
      fail(Status::bad_input, "{}: \"{}\": got shape {}, need {} axes{}", path_, full,
           to_string(array->shape), axes,
           axes == 2 ? "" : fmt::format(", the first of {} layers", layers_.size()));
    }
    return array;
  }

  bool read_heads(std::size_t input, const char* name, ReferencePass& pass,
                  std::vector<OwnedMatrix<double>> ReferencePass::Layer::*member) {
    const auto array = read_checked(input, name, 4);
    if (!array) return false;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const std::size_t heads = config_.layers[layers_[i]].attention.heads;
      if (array->shape[1] != heads) {
        fail(Status::bad_input, "{}: \"{}_{}\": got {} heads, the model has {}", path_, name, input,
             array->shape[1], heads);
      }
      for (std::size_t h = 0; h < heads; ++h) {
        (pass.layers[layers_[i]].*member).push_back(matrix_of(*array, i * heads + h));
      }
    }
    return true;
  }

  Checkpoint& file_;
  std::string path_;
  const ModelConfig& config_;
  std::vector<std::size_t> layers_;
};

}  // namespace

void check_reference_shapes(const ReferencePass& pass, const Sequence& sequence, const std::string& path) {
  const auto check = [&](const OwnedMatrix<double>& matrix, const char* name, std::size_t cols) {
    if (matrix.rows() == 0) return;
    if (matrix.rows() != sequence.queries() || (cols != 0 && matrix.cols() != cols)) {
      fail(Status::bad_input, "{}: {} of input \"{}\": got [{}, {}], the input has {} queries and {} keys",
           escaped(path), name, escaped(sequence.id), matrix.rows(), matrix.cols(), sequence.queries(),
           sequence.keys());
    }
  };
  for (const ReferencePass::Layer& layer : pass.layers) {
    for (const OwnedMatrix<double>& pattern : layer.pattern) check(pattern, "pattern", sequence.keys());
    for (const OwnedMatrix<double>& scores : layer.scores) check(scores, "scores", sequence.keys());
    for (const OwnedMatrix<double>& z : layer.z) check(z, "z", 0);
    check(layer.output, "output", 0);
  }
  check(pass.logits, "logits", 0);
}

ReferenceFile read_reference(const std::string& path, const ModelConfig& config) {
  Warnings unused;
  const std::unique_ptr<Checkpoint> file = open_checkpoint(path, unused);
  PassReader reader(*file, escaped(path), config);
  ReferenceFile reference;
  while (auto pass = reader.read(reference.passes.size())) {
    const auto ids = read_array(*file, fmt::format("ids_{}", reference.passes.size()));
    reference.ids.push_back(ids ? integers(*ids) : std::vector<std::int64_t>());
    reference.passes.push_back(std::move(*pass));
  }
  if (reference.passes.empty()) {
    fail(Status::bad_input,
         "{}: need arrays of input 0 to compare with: pattern_0, scores_0, z_0, output_0 or logits_0",
         escaped(path));
  }
  return reference;
}

}  // namespace attnctl::cli
