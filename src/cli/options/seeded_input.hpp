#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "base/matrix_view.hpp"
#include "input/batch.hpp"
#include "model/config/config.hpp"

namespace attnctl::cli {

/// Reproducible inputs for a model: the same in every run and on every machine.
class SeededInputs {
 public:
  explicit SeededInputs(const ModelConfig& config) : config_(config) {}

  /// Returns random ids, or an image if the model reads images, or embeddings in -1..1 if it has no embedding
  /// table. An image ignores `length`: it has one token per patch plus one. Adds a target of `target_length`
  /// ids if the model has a decoder that reads an encoder.
  [[nodiscard]] Sequence next(std::size_t length, std::size_t target_length);

 private:
  std::vector<std::int64_t> ids(std::size_t length, std::size_t vocabulary);
  void fill(std::span<float> values);
  OwnedMatrix<float> matrix(std::size_t rows, std::size_t columns);

  const ModelConfig& config_;
  std::mt19937 random_{20170612};  // the standard fixes its sequence, but not that of distributions
};

}  // namespace attnctl::cli
