#include "cli/commands/reference_file.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "base/checked.hpp"
#include "base/dtype.hpp"
#include "base/error.hpp"
#include "base/warnings.hpp"
#include "checkpoint/checkpoint.hpp"
#include "forward/block.hpp"
#include "inspect/describe.hpp"

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

/// Returns item `index` of an array as a matrix of its last two axes.
OwnedMatrix<double> matrix_of(const DoubleArray& array, std::size_t index) {
  const std::size_t rows = array.shape[array.shape.size() - 2];
  const std::size_t cols = array.shape.back();
  OwnedMatrix<double> matrix(rows, cols);
  const auto first = array.values.begin() + static_cast<std::ptrdiff_t>(index * rows * cols);
  std::copy_n(first, rows * cols, matrix.values().begin());
  return matrix;
}

/// The layers of the reference arrays of one component, as indices into the model's layers.
struct ReferenceLayers {
  std::string prefix;  // prefix of the array names
  std::vector<std::size_t> layers;
};

/// Returns the layers of the array `layers`, or all layers of the component if there is none.
ReferenceLayers layers_of(Checkpoint& file, const std::string& path, const ModelConfig& config,
                          Component component) {
  ReferenceLayers found{inspect::prefix_of(component), {}};
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    if (config.layers[i].component == component) all.push_back(i);
  }
  const auto named = read_array(file, found.prefix + "layers");
  if (!named) {
    found.layers = all;
    return found;
  }
  for (const std::int64_t layer : integers(*named)) {
    if (layer < 0 || static_cast<std::size_t>(layer) >= all.size()) {
      fail(Status::bad_input, "{}: \"{}layers\": got {}, the model has {}", path, found.prefix, layer,
           all.size());
    }
    found.layers.push_back(all[static_cast<std::size_t>(layer)]);
  }
  return found;
}

/// Reads the arrays of one input into a ReferencePass.
class PassReader {
 public:
  PassReader(Checkpoint& file, std::string path, const ModelConfig& config)
      : file_(file), path_(std::move(path)), config_(config) {
    std::set<Component> components;
    for (const LayerConfig& layer : config.layers) components.insert(layer.component);
    for (const Component component : components) stacks_.push_back(layers_of(file, path_, config, component));
  }

  /// Returns nullopt if the file has no arrays for that input.
  std::optional<ReferencePass> read(std::size_t input) {
    ReferencePass pass;
    pass.layers.resize(config_.layers.size());
    bool found = false;
    for (const ReferenceLayers& stack : stacks_) {
      found |= read_heads(input, "pattern", stack, pass, &ReferencePass::Layer::pattern);
      found |= read_heads(input, "scores", stack, pass, &ReferencePass::Layer::scores);
      found |= read_heads(input, "z", stack, pass, &ReferencePass::Layer::z);
      if (const auto output = read_checked(fmt::format("{}output_{}", stack.prefix, input), 3, &stack)) {
        found = true;
        for (std::size_t i = 0; i < stack.layers.size(); ++i)
          pass.layers[stack.layers[i]].output = matrix_of(*output, i);
      }
    }
    if (const auto logits = read_checked(fmt::format("logits_{}", input), 2, nullptr)) {
      found = true;
      pass.logits = matrix_of(*logits, 0);
    }
    if (!found) return std::nullopt;
    return pass;
  }

 private:
  /// `stack` is null for arrays without a layer axis.
  std::optional<DoubleArray> read_checked(const std::string& name, std::size_t axes,
                                          const ReferenceLayers* stack) {
    auto array = read_array(file_, name);
    if (!array) return array;
    const bool fits =
        array->shape.size() == axes && (stack == nullptr || array->shape[0] == stack->layers.size());
    if (!fits) {
      fail(Status::bad_input, "{}: \"{}\": got shape {}, need {} axes{}", path_, name,
           to_string(array->shape), axes,
           stack == nullptr ? "" : fmt::format(", the first of {} layers", stack->layers.size()));
    }
    return array;
  }

  bool read_heads(std::size_t input, const char* kind, const ReferenceLayers& stack, ReferencePass& pass,
                  std::vector<OwnedMatrix<double>> ReferencePass::Layer::*member) {
    const std::string name = fmt::format("{}{}_{}", stack.prefix, kind, input);
    const auto array = read_checked(name, 4, &stack);
    if (!array) return false;
    for (std::size_t i = 0; i < stack.layers.size(); ++i) {
      const std::size_t heads = config_.layers[stack.layers[i]].attention.heads;
      if (array->shape[1] != heads) {
        fail(Status::bad_input, "{}: \"{}\": got {} heads, the model has {}", path_, name, array->shape[1],
             heads);
      }
      for (std::size_t h = 0; h < heads; ++h) {
        (pass.layers[stack.layers[i]].*member).push_back(matrix_of(*array, i * heads + h));
      }
    }
    return true;
  }

  Checkpoint& file_;
  std::string path_;
  const ModelConfig& config_;
  std::vector<ReferenceLayers> stacks_;
};

}  // namespace

void check_reference_shapes(const ReferencePass& pass, const ModelConfig& config, const Sequence& sequence,
                            const std::string& path) {
  const auto check = [&](const OwnedMatrix<double>& matrix, const char* name, std::size_t queries,
                         std::size_t keys) {
    if (matrix.rows() == 0) return;
    if (matrix.rows() != queries || (keys != 0 && matrix.cols() != keys)) {
      fail(Status::bad_input, "{}: {} of input \"{}\": got [{}, {}], the input has {} queries and {} keys",
           escaped(path), name, escaped(sequence.id), matrix.rows(), matrix.cols(), queries, keys);
    }
  };
  for (std::size_t i = 0; i < pass.layers.size(); ++i) {
    const Component component = config.layers[i].component;
    const ReferencePass::Layer& layer = pass.layers[i];
    if (needs_target(component) && !sequence.target) continue;
    const Sides sides = sides_of(component, sequence);
    for (const auto& pattern : layer.pattern) check(pattern, "pattern", sides.queries(), sides.keys());
    for (const auto& scores : layer.scores) check(scores, "scores", sides.queries(), sides.keys());
    for (const auto& z : layer.z) check(z, "z", sides.queries(), 0);
    check(layer.output, "output", sides.queries(), 0);
  }
  check(pass.logits, "logits", sequence.target ? sequence.target->queries() : sequence.queries(), 0);
}

ReferenceFile read_reference(const std::string& path, const ModelConfig& config) {
  Warnings unused;
  const std::unique_ptr<Checkpoint> file = open_checkpoint(path, unused);
  PassReader reader(*file, escaped(path), config);
  ReferenceFile reference;
  while (auto pass = reader.read(reference.passes.size())) {
    const auto ids = read_array(*file, fmt::format("ids_{}", reference.passes.size()));
    reference.ids.push_back(ids ? integers(*ids) : std::vector<std::int64_t>());
    const auto target_ids = read_array(*file, fmt::format("target_ids_{}", reference.passes.size()));
    reference.target_ids.push_back(target_ids ? integers(*target_ids) : std::vector<std::int64_t>());
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
