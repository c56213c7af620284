#include "support/intervention_golden.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>

#include <doctest/doctest.h>

namespace attnctl::test {
namespace {

namespace fs = std::filesystem;

const fs::path kGoldens = ATTNCTL_SOURCE_DIR "/tests/golden";

}  // namespace

fs::path model_folder(const std::string& name) {
  for (const fs::path& path : {kGoldens / name, fs::path(ATTNCTL_SOURCE_DIR "/data") / name,
                               fs::path(ATTNCTL_SHARED_DIR "/models") / name}) {
    if (fs::exists(path / "config.json")) return path;
  }
  return {};
}

std::vector<fs::path> goldens_of_models(const std::string& folder) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(kGoldens / folder)) {
    const std::string name = entry.path().stem().string();
    if (model_folder(name).empty()) {
      MESSAGE("skipped ", name, ": the model is not here");
    } else {
      found.push_back(entry.path());
    }
  }
  std::ranges::sort(found);
  return found;
}

input::Batch batch_of(const Golden& golden, const std::string& prefix) {
  input::Batch batch;
  input::Sequence& sequence = batch.sequences.emplace_back();
  sequence.id = "0";
  sequence.ids = golden.integers(prefix + "ids");
  if (golden.has(prefix + "target_ids")) {
    sequence.target = std::make_shared<input::Sequence>();
    sequence.target->ids = golden.integers(prefix + "target_ids");
  }
  return batch;
}

InterventionGolden::InterventionGolden(const fs::path& file, Warnings& warnings)
    : name(file.stem().string()), golden(file), model(bind_model(model_folder(name), warnings)) {
  for (const std::int64_t query : golden.integers("queries"))
    scored.queries.push_back(static_cast<std::size_t>(query));
  scored.targets = golden.integers("targets");
}

std::vector<std::vector<double>> InterventionGolden::gradients() const {
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

double InterventionGolden::float32_difference() const {
  double largest = 0;
  for (const model::Component component : components_of(model.config()))
    largest = std::max(largest, golden.array("bound_gradient" + component_suffix(component)).values.at(0));
  return largest;
}

}  // namespace attnctl::test
