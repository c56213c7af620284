#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/matrix_view.hpp"
#include "checkpoint/checkpoint.hpp"

namespace attnctl::model {

enum class Orientation { in_out, out_in };

/// A stored weight, [in, out] or [out, in]. It may be some rows or columns of a tensor that holds several
/// weights.
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

/// y = x W + b for row vectors x. If the weight is factorized, y = (x A) B + b, where `stored` is B and
/// `first` is A. The forward pass never computes the product A B.
struct Linear {
  MatrixView<const float> stored;  // W or B; no data if the projection does not exist
  Orientation orientation = Orientation::in_out;
  std::span<const float> bias;  // [out] or empty
  StoredMatrix first = {};      // A; no data if the weight is not factorized

  [[nodiscard]] bool present() const { return stored.data != nullptr; }
  [[nodiscard]] bool factorised() const { return first.values.data != nullptr; }
  [[nodiscard]] std::size_t rank() const { return first.out(); }  // only if factorized
  [[nodiscard]] std::size_t in() const { return factorised() ? first.in() : last().in(); }
  [[nodiscard]] std::size_t out() const { return last().out(); }
  /// Returns the matrix whose columns are the outputs: W, or B if factorized.
  [[nodiscard]] StoredMatrix last() const { return {stored, orientation}; }
  /// The two steps of a factorized projection: first_product() is x A, last_product() multiplies by B and
  /// adds the bias.
  [[nodiscard]] Linear first_product() const { return {first.values, first.orientation, {}}; }
  [[nodiscard]] Linear last_product() const { return {stored, orientation, bias}; }
  /// Returns the part of the projection that computes outputs [begin, begin + count).
  [[nodiscard]] Linear outputs(std::size_t begin, std::size_t count) const;
  /// Returns the part of the projection that uses inputs [begin, begin + count), without the bias.
  [[nodiscard]] Linear inputs(std::size_t begin, std::size_t count) const;
  /// Returns W as [in, out] in float64; the product A B if factorized.
  [[nodiscard]] OwnedMatrix<double> in_out_double() const;
};

struct NormWeights {
  std::span<const float> gain;  // [width], the family's gain offset is added; empty: all 1
  std::span<const float> bias;  // [width]; empty: all 0
};

/// The weights for AttentionConfig::disentangled.
struct DisentangledWeights {
  MatrixView<const float> table = {};  // [2 span, d]
  NormWeights norm = {};
  Linear key = {}, query = {};  // [d, heads * k]
};

struct AttentionWeights {
  Linear query;   // [d, query_slices * k]
  Linear key;     // [kdim, kv_heads * k]; uses the weight of `query` if the checkpoint has no key weight
  Linear value;   // [vdim, kv_heads * v]; if absent, the layer has no output
  Linear output;  // [heads * v, d_out]; if absent, the output is the concatenated z of all heads
  NormWeights query_norm = {}, key_norm = {};  // for shapes, see HeadNormSpan
  MatrixView<const float> relative_bias = {};  // [rows, heads], for AttentionConfig::relative_buckets
  std::span<const float> sinks = {};           // [heads] or empty
  DisentangledWeights disentangled = {};
};

/// An MLP: down(act(gate(x)) * up(x)), or down(act(up(x))) without a gate.
struct MlpWeights {
  Linear up, gate, down;
};

struct LayerWeights : AttentionWeights {
  NormWeights attention_norm, mlp_norm;
  NormWeights attention_output_norm, mlp_output_norm;  // only for NormPlace::both
  MlpWeights mlp;
  Linear router;                    // [d_model, experts]
  std::vector<MlpWeights> experts;  // [experts] or empty
  MlpWeights shared;                // the expert that every token uses
  Linear shared_factor;             // [d_model, 1]
  Linear convolution;  // [d_model / groups * kernel, d_model]; the kernel elements of a channel are adjacent
  NormWeights convolution_norm;
};

/// A table [rows, width] whose rows are converted to float32 only when they are read.
struct LookupTable {
  checkpoint::TensorView tensor;

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
  LookupTable class_token;  // [1, width]; only in models for images
  Linear patches;           // [channels * height * width of a patch, d]
};

struct HeadWeights {
  Linear projection;
  Linear transform;
  NormWeights transform_norm;
  Linear decoder;
};

/// Weights that stay in memory as long as the lease exists. At least one copy of the Model must outlive the
/// lease.
template <typename Weights>
using Lease = std::shared_ptr<const Weights>;

}  // namespace attnctl::model
