#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/warnings.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/source.hpp"
#include "model/model.hpp"

namespace attnctl::test {

/// A tensor of a test: its bytes are made there.
struct MemoryTensor {
  DType dtype = DType::f32;
  Shape shape;
  std::vector<std::byte> bytes;
};

[[nodiscard]] MemoryTensor floats(Shape shape, const std::vector<float>& values);
/// 0.01, 0.02, ... in a pattern without symmetry.
[[nodiscard]] MemoryTensor ramp(Shape shape);
[[nodiscard]] MemoryTensor zeros(DType dtype, Shape shape);

/// A configuration and tensors in memory, to be changed and bound.
struct MemoryModel {  // NOLINT(bugprone-exception-escape): moving JSON throws nothing
  nlohmann::ordered_json config;
  std::map<std::string, MemoryTensor> tensors;

  /// A copy of a checkpoint on disk; of one below tests/golden.
  [[nodiscard]] static MemoryModel read(const std::filesystem::path& path);
  [[nodiscard]] static MemoryModel golden(const std::string& name);
  /// Takes over the keys of a JSON object into the configuration; a null takes a key away.
  [[nodiscard]] MemoryModel patched(std::string_view keys) const;
  void rename(std::string_view from, std::string_view to);  // in all names; `from` at most once in each

  /// The files are called config.json and weights.bin in errors.
  [[nodiscard]] ModelSource source() const;
  /// Warnings go nowhere.
  [[nodiscard]] Model bound() const;
};

}  // namespace attnctl::test
