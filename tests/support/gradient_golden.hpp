#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "input/batch.hpp"
#include "model/model.hpp"
#include "support/golden.hpp"

namespace attnctl::test {

/// A golden of tests/golden/interventions, as far as gradients need it, with its model.
struct GradientGolden {
  std::string name;
  Golden golden;
  model::Model model;
  input::Sequence sequence;
  std::vector<std::size_t> queries;
  std::vector<std::int64_t> targets;

  GradientGolden(const std::filesystem::path& file, Warnings& warnings);

  /// Returns the gradients of all layers in the order of ModelConfig::layers, each [h, n, v].
  [[nodiscard]] std::vector<std::vector<double>> gradients() const;
  /// Returns the largest difference of the gradients of `transformers` in float32.
  [[nodiscard]] double float32_difference() const;
};

/// Returns the goldens in tests/golden/interventions whose model is here, sorted by name.
[[nodiscard]] std::vector<std::filesystem::path> gradient_goldens();

}  // namespace attnctl::test
