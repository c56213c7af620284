#include "support/gradient_golden.hpp"

#include <algorithm>
#include <map>

namespace attnctl::test {
namespace {

namespace fs = std::filesystem;

const fs::path kGoldens = ATTNCTL_SOURCE_DIR "/tests/golden";

/// Returns the folder of the model of a golden; an empty path if it is not here.
fs::path model_of(const std::string& name) {
  for (const fs::path& path : {kGoldens / name, fs::path(ATTNCTL_SOURCE_DIR "/data") / name,
                               fs::path(ATTNCTL_SHARED_DIR "/models") / name}) {
    if (fs::exists(path / "config.json")) return path;
  }
  return {};
}

}  // namespace

GradientGolden::GradientGolden(const fs::path& file, Warnings& warnings)
    : name(file.stem().string()),
      golden(file),
      model(bind_model(model_of(name), warnings)),
      targets(golden.integers("targets")) {
  sequence.id = name;
  sequence.ids = golden.integers("ids");
  if (golden.has("target_ids")) {
    sequence.target = std::make_shared<input::Sequence>();
    sequence.target->ids = golden.integers("target_ids");
  }
  for (const std::int64_t query : golden.integers("queries"))
    queries.push_back(static_cast<std::size_t>(query));
}

std::vector<std::vector<double>> GradientGolden::gradients() const {
  std::map<model::Component, std::size_t> next;  // the next layer of each component
  std::vector<std::vector<double>> gradients;
  for (const model::LayerConfig& layer : model.config().layers) {
    const GoldenArray array = golden.array("gradient" + component_suffix(layer.component));
    const std::size_t size = array.values.size() / array.shape.at(0);
    const auto first = array.values.begin() + static_cast<std::ptrdiff_t>(next[layer.component]++ * size);
    gradients.emplace_back(first, first + static_cast<std::ptrdiff_t>(size));
  }
  return gradients;
}

double GradientGolden::float32_difference() const {
  double largest = 0;
  for (const model::Component component : components_of(model.config()))
    largest = std::max(largest, golden.array("bound_gradient" + component_suffix(component)).values.at(0));
  return largest;
}

std::vector<fs::path> gradient_goldens() {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(kGoldens / "interventions")) {
    if (!model_of(entry.path().stem().string()).empty()) found.push_back(entry.path());
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace attnctl::test
