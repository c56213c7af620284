#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "checkpoint/checkpoint.hpp"
#include "model/model.hpp"

namespace attnctl::test {

/// A tensor whose bytes a test creates.
struct MemoryTensor {
  DType dtype = DType::f32;
  Shape shape;
  std::vector<std::byte> bytes;
};

[[nodiscard]] MemoryTensor floats(Shape shape, const std::vector<float>& values);
/// Returns a tensor with the values 0.01, 0.02, ... in an asymmetric order.
[[nodiscard]] MemoryTensor ramp(Shape shape);
[[nodiscard]] MemoryTensor zeros(DType dtype, Shape shape);

/// A configuration and tensors in memory that tests change and bind.
struct MemoryModel {  // NOLINT(bugprone-exception-escape): moving JSON throws nothing
  nlohmann::ordered_json config;
  std::map<std::string, MemoryTensor> tensors;

  /// Return a copy of a checkpoint on disk; golden() takes a name in tests/golden.
  [[nodiscard]] static MemoryModel read(const std::filesystem::path& path);
  [[nodiscard]] static MemoryModel golden(const std::string& name);
  /// Returns a copy with the keys of a JSON object set in the configuration; null removes a key.
  [[nodiscard]] MemoryModel patched(std::string_view keys) const;
  /// Returns a copy with `layers` layers: the tensors model.layers.N of the first layers, repeated in order.
  [[nodiscard]] MemoryModel with_layers(std::size_t layers) const;
  void rename(std::string_view from, std::string_view to);  // in all names; `from` at most once per name

  /// Writes config.json and model.safetensors to a folder.
  void write(const std::filesystem::path& folder) const;
  /// Writes the model, and copies the tokenizer of another model to the folder.
  void write_with_tokenizer(const std::filesystem::path& folder, const std::filesystem::path& of) const;

  /// Returns a model source. Errors name the files config.json and weights.bin.
  [[nodiscard]] checkpoint::ModelSource source() const;
  /// Binds the model and discards warnings.
  [[nodiscard]] model::Model bound() const;
};

}  // namespace attnctl::test
