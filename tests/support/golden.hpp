#pragma once

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/dtype.hpp"
#include "base/error.hpp"
#include "checkpoint/checkpoint.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"

namespace attnctl::test {

/// Numbers with a shape, converted to double.
struct GoldenArray {
  Shape shape;
  std::vector<double> values;
};

/// The golden.npz of a case (tests/golden/README.md), or another NPZ file.
class Golden {
 public:
  explicit Golden(const std::filesystem::path& directory);  // or an NPZ file

  [[nodiscard]] bool has(const std::string& name) const;
  /// Throws std::out_of_range if the array is missing.
  [[nodiscard]] GoldenArray array(const std::string& name) const;
  [[nodiscard]] std::vector<std::int64_t> integers(const std::string& name) const;

  /// inputs() returns the number of inputs; sequence() returns one of them with its masks and embeddings.
  [[nodiscard]] std::size_t inputs() const;
  [[nodiscard]] input::Sequence sequence(std::size_t input) const;

 private:
  std::filesystem::path directory_;
  Warnings warnings_;
  std::unique_ptr<checkpoint::Checkpoint> arrays_;
};

/// Returns the part of an array name between the name proper and the input number: "", "_enc", "_dec",
/// "_cross".
[[nodiscard]] std::string component_suffix(model::Component component);
[[nodiscard]] std::set<model::Component> components_of(const model::ModelConfig& config);

/// Returns the folders in tests/golden that hold a model and its golden.npz, sorted by name.
[[nodiscard]] std::vector<std::filesystem::path> golden_models();

/// Opens and binds a checkpoint folder or file.
[[nodiscard]] model::Model bind_model(const std::filesystem::path& path, Warnings& warnings);

}  // namespace attnctl::test
