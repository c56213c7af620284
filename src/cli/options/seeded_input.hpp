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

/// Inputs of a model that are the same at every run and on every machine.
class SeededInputs {
 public:
  explicit SeededInputs(const ModelConfig& config) : config_(config) {}

  /// Ids; an image where the model reads images, which has as many tokens as it has patches and one more;
  /// embeddings from -1 to 1 where there is no embedding table. With a target of `target_length` ids where
  /// the model has a decoder that reads an encoder.
  [[nodiscard]] Sequence next(std::size_t length, std::size_t target_length);

 private:
  std::vector<std::int64_t> ids(std::size_t length, std::size_t vocabulary);
  void fill(std::span<float> values);
  OwnedMatrix<float> matrix(std::size_t rows, std::size_t columns);

  const ModelConfig& config_;
  std::mt19937 random_{20170612};  // its sequence is fixed by the standard; distributions are not
};

}  // namespace attnctl::cli
