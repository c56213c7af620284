#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "input/batch.hpp"
#include "model/model.hpp"

/// The pieces of the float64 pass, as their formulas say; nothing of the fast pass is used.
namespace attnctl::reference {

/// x W + b: [n, in] to [n, out]. Each sum runs over the inputs in their order.
[[nodiscard]] OwnedMatrix<double> apply(const Linear& linear, MatrixView<const double> x, Pool& pool);

/// Each row normalised; a norm of kind `none` changes nothing.
[[nodiscard]] OwnedMatrix<double> apply(const NormConfig& config, const NormWeights& weights,
                                        MatrixView<const double> x);

[[nodiscard]] double activate(Activation activation, double x);

/// Turns the rows of one head [n, k] by their positions 0, 1, ...; `length` is that of the sequence. Angles,
/// cosines and sines are float32, as the reference implementation has them even in a float64 model.
void rotate(const RotaryConfig& rotary, std::size_t length, MatrixView<double> x);

/// A query and a key, by their positions.
struct Pair {
  std::size_t query = 0, key = 0;
};
/// What their positions add to the scaled score of a pair.
[[nodiscard]] double position_bias(const AttentionConfig& config, const AttentionWeights& weights,
                                   std::size_t head, Pair pair);

/// What ALiBi adds to the scaled scores of each key of one head [m]; zeros where the layer has none.
[[nodiscard]] std::vector<double> alibi(const AttentionConfig& config, const Sequence& sequence,
                                        std::size_t head);

/// What a layer's MLP, or its experts, make of x [n, d].
[[nodiscard]] OwnedMatrix<double> run_mlp(const LayerConfig& config, const LayerWeights& weights,
                                          const OwnedMatrix<double>& x, Pool& pool);

/// The embedded distances of disentangled attention as keys and queries of a layer [2 span, heads k]; empty
/// where the layer has no such term.
struct Distances {
  OwnedMatrix<double> keys, queries;
};
[[nodiscard]] Distances project_distances(const AttentionConfig& config, const AttentionWeights& weights,
                                          Pool& pool);
struct HeadPair : Pair {
  std::size_t head = 0;
  std::span<const double> q, k;  // the head's, of this query and this key
};
/// What they add to the scaled score of a pair, scaled themselves.
[[nodiscard]] double disentangled_bias(const AttentionConfig& config, const Distances& distances,
                                       const HeadPair& pair);

/// x = N(x + act(conv(embeddings))), where the layer has a convolution.
void add_convolution(const LayerConfig& config, const LayerWeights& weights,
                     const OwnedMatrix<double>& embeddings, OwnedMatrix<double>& x);

[[nodiscard]] OwnedMatrix<double> widened(const OwnedMatrix<float>& values);

/// How a stack embeds its tokens.
struct Embedding {
  const EmbeddingConfig& config;
  Lease<EmbeddingWeights> lease;
  const EmbeddingWeights& weights;

  explicit Embedding(const Model& model) : Embedding(model.config().embedding, model.embedding()) {}
  Embedding(const EmbeddingConfig& of_stack, Lease<EmbeddingWeights> with)
      : config(of_stack), lease(std::move(with)), weights(*lease) {}
};

/// The rows of the token table, or the embeddings that the sequence has in their place [n, width].
[[nodiscard]] OwnedMatrix<double> token_embeddings(const Embedding& embedding, const Sequence& sequence);
/// The same with positions and token types.
[[nodiscard]] OwnedMatrix<double> embedding_sum(const Embedding& embedding, const Sequence& sequence);
/// The input of the first layer [n, d]: the sum normalised and projected.
[[nodiscard]] OwnedMatrix<double> embed(const Embedding& embedding, const Sequence& sequence, Pool& pool);

/// sin(pos / 10000^(2i/d)) at 2i, cos of the same at 2i + 1.
[[nodiscard]] double sinusoid(std::size_t position, std::size_t column, std::size_t width);

/// softmax of a row of scores; where all are -inf: zeros.
void softmax(std::span<const double> scores, std::span<double> pattern);

void add(MatrixView<const double> x, OwnedMatrix<double>& sum);

}  // namespace attnctl::reference
