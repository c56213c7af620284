#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "causal/interventions.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"
#include "support/golden.hpp"

namespace attnctl::test {

/// Returns the folder of a model of tests/golden, of data/ or of the shared models; an empty path if it is
/// not here.
[[nodiscard]] std::filesystem::path model_folder(const std::string& name);

/// Returns the files NAME.npz of a folder of tests/golden whose model NAME is here, sorted by name. Prints
/// the names of the others.
[[nodiscard]] std::vector<std::filesystem::path> goldens_of_models(const std::string& folder);

/// Returns the input of a golden with one input: the arrays ids and target_ids (if any), whose names begin
/// with `prefix`.
[[nodiscard]] input::Batch batch_of(const Golden& golden, const std::string& prefix = "");

/// A golden of tests/golden/interventions, with its model.
struct InterventionGolden {
  std::string name;
  Golden golden;
  model::Model model;
  causal::ScoredQueries scored;

  InterventionGolden(const std::filesystem::path& file, Warnings& warnings);

  /// Returns the gradients of all layers in the order of ModelConfig::layers, each [h, n, v].
  [[nodiscard]] std::vector<std::vector<double>> gradients() const;
  /// Returns the largest difference of the gradients of `transformers` in float32.
  [[nodiscard]] double float32_difference() const;
};

}  // namespace attnctl::test
