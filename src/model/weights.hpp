#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/matrix_view.hpp"
#include "checkpoint/checkpoint.hpp"

namespace attnctl {

enum class Orientation { in_out, out_in };

/// A weight as stored, possibly a slice of a packed tensor: [in, out] or [out, in].
struct StoredMatrix {
  MatrixView<const float> values;
  Orientation orientation = Orientation::in_out;

  [[nodiscard]] std::size_t in() const {
    return orientation == Orientation::in_out ? values.rows : values.cols;
  }
  [[nodiscard]] std::size_t out() const {
    return orientation == Orientation::in_out ? values.cols : values.rows;
  }
};

/// y = x W + b for row vectors x, or y = (x A) B + b if the weight is factorized: then `stored` is B and
/// `first` is A. The forward pass never forms the product A B.
struct Linear {
  MatrixView<const float> stored;  // no data: the projection does not exist
  Orientation orientation = Orientation::in_out;
  std::span<const float> bias;  // [out] or empty
  StoredMatrix first = {};      // no data: not factorized

  [[nodiscard]] bool present() const { return stored.data != nullptr; }
  [[nodiscard]] bool factorised() const { return first.values.data != nullptr; }
  [[nodiscard]] std::size_t rank() const { return first.out(); }  // if factorized
  [[nodiscard]] std::size_t in() const { return factorised() ? first.in() : last().in(); }
  [[nodiscard]] std::size_t out() const { return last().out(); }
  /// The matrix whose columns are the outputs: W or B.
  [[nodiscard]] StoredMatrix last() const { return {stored, orientation}; }
  /// The two steps of a factorized projection: x A, and the rest with the bias.
  [[nodiscard]] Linear first_product() const { return {first.values, first.orientation, {}}; }
  [[nodiscard]] Linear last_product() const { return {stored, orientation, bias}; }
  /// Returns the projection to outputs [begin, begin + count).
  [[nodiscard]] Linear outputs(std::size_t begin, std::size_t count) const;
  /// Returns the projection from inputs [begin, begin + count), without the bias.
  [[nodiscard]] Linear inputs(std::size_t begin, std::size_t count) const;
  /// Returns W, or the product A B, as [in, out] in float64.
  [[nodiscard]] OwnedMatrix<double> in_out_double() const;
};

struct NormWeights {
  std::span<const float> gain;  // [width], offset included; empty: 1
  std::span<const float> bias;  // [width]; empty: 0
};

/// Weights of AttentionConfig::disentangled.
struct DisentangledWeights {
  MatrixView<const float> table = {};  // [2 span, d]
  NormWeights norm = {};
  Linear key = {}, query = {};  // [d, heads * k]
};

struct AttentionWeights {
  Linear query;   // [d, query_slices * k]
  Linear key;     // [kdim, kv_heads * k]; the query's weight if the checkpoint has no key weight
  Linear value;   // [vdim, kv_heads * v]; may be absent; then the layer has no output
  Linear output;  // [heads * v, d_out]; may be absent: then the output is the concatenation of z
  NormWeights query_norm = {}, key_norm = {};  // shapes as AttentionConfig::head_norm_span says
  MatrixView<const float> relative_bias = {};  // [rows, heads] of AttentionConfig::relative_buckets
  std::span<const float> sinks = {};           // [heads] or empty
  DisentangledWeights disentangled = {};
};

/// An MLP: down(act(gate(x)) * up(x)), or down(act(up(x))) without a gate.
struct MlpWeights {
  Linear up, gate, down;
};

struct LayerWeights : AttentionWeights {
  NormWeights attention_norm, mlp_norm;
  NormWeights attention_output_norm, mlp_output_norm;  // NormPlace::both
  MlpWeights mlp;
  Linear router;                    // [d_model, experts]
  std::vector<MlpWeights> experts;  // [experts] or empty
  MlpWeights shared;                // the expert that every token uses
  Linear shared_factor;             // [d_model, 1]
  Linear convolution;               // [d_model / groups * kernel, d_model], a channel's offsets adjacent
  NormWeights convolution_norm;
};

/// A table [rows, width] whose rows are converted to float32 one at a time.
struct LookupTable {
  TensorView tensor;

  [[nodiscard]] bool present() const { return !tensor.shape.empty(); }
  [[nodiscard]] std::size_t rows() const { return tensor.shape.at(0); }
  [[nodiscard]] std::size_t width() const { return tensor.shape.at(1); }
  /// Writes row r to out [width].
  void row(std::size_t r, std::span<float> out) const;
};

struct EmbeddingWeights {
  LookupTable token, position, token_type;
  NormWeights norm;
  Linear projection;
  LookupTable class_token;  // [1, width], of models that read images
  Linear patches;           // [channels * height * width of a patch, d]
};

struct HeadWeights {
  Linear projection;
  Linear transform;
  NormWeights transform_norm;
  Linear decoder;
};

/// Weights that stay in memory, with all views into them, as long as the lease exists. A lease must not
/// outlive all copies of its Model.
template <typename Weights>
using Lease = std::shared_ptr<const Weights>;

}  // namespace attnctl
