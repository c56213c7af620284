#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/warnings.hpp"
#include "model/model.hpp"
#include "study/corpus/corpus_blocks.hpp"

// Null models and null inputs: shuffled weights and shuffled tokens.
namespace attnctl {

/// Returns the batch of a block with the ordinary tokens of each sequence in random order; all other tokens
/// keep their positions. Only the ids change, because a pass reads only them. The order depends only on the
/// seed, the repetition, the number of the block and the index of the sequence.
[[nodiscard]] Batch shuffled_tokens(const CorpusBlock& block, std::uint64_t seed, std::uint64_t repetition);

/// Returns `count` untrained models of the same shape: the values of each matrix are shuffled within the
/// matrix, which keeps their distribution. Vectors (gains and biases) stay unchanged. The models have the
/// seeds `seed`, `seed` + 1, and so on; a result depends only on the model and its seed. The matrices are
/// copies; `model` and `warnings` must outlive the result.
[[nodiscard]] std::vector<Model> random_twins(const Model& model, std::size_t count, std::uint64_t seed,
                                              Warnings& warnings);

}  // namespace attnctl
