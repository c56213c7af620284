#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "checkpoint/checkpoint.hpp"
#include "linalg/encoded.hpp"
#include "model/config/config.hpp"

namespace attnctl::model {

struct FamilySpec;

enum class Orientation { in_out, out_in };

/// In which form a Model returns the matrices of its weights.
enum class WeightForm {
  float32,
  stored  // as EncodedMatrix where the file has encoded numbers; otherwise as float32
};

/// A stored weight, [in, out] or [out, in]. It may be some rows or columns of a tensor that holds several
/// weights.
struct StoredMatrix {
  MatrixView<const float> values;
  Orientation orientation = Orientation::in_out;
  linalg::EncodedMatrix encoded = {};  // if present, `values` has no data

  [[nodiscard]] bool present() const { return values.data != nullptr || encoded.present(); }
  [[nodiscard]] std::size_t rows() const { return encoded.present() ? encoded.rows : values.rows; }
  [[nodiscard]] std::size_t cols() const { return encoded.present() ? encoded.cols : values.cols; }
  [[nodiscard]] std::size_t in() const { return orientation == Orientation::in_out ? rows() : cols(); }
  [[nodiscard]] std::size_t out() const { return orientation == Orientation::in_out ? cols() : rows(); }
  /// Writes row r to out [cols]. The row must have whole blocks if it is encoded.
  void row(std::size_t r, std::span<float> out) const;
};

/// y = x W + b for row vectors x. If the weight is factorized, y = (x A) B + b, where `stored` is B and
/// `first` is A. The forward pass never computes the product A B.
struct Linear {
  MatrixView<const float> stored;  // W or B; no data if the projection does not exist
  Orientation orientation = Orientation::in_out;
  std::span<const float> bias;         // [out] or empty
  StoredMatrix first = {};             // A; no data if the weight is not factorized
  linalg::EncodedMatrix encoded = {};  // W or B instead of `stored`, only with WeightForm::stored

  [[nodiscard]] bool present() const { return last().present(); }
  [[nodiscard]] bool factorised() const { return first.present(); }
  [[nodiscard]] std::size_t rank() const { return first.out(); }  // only if factorized
  [[nodiscard]] std::size_t in() const { return factorised() ? first.in() : last().in(); }
  [[nodiscard]] std::size_t out() const { return last().out(); }
  /// Returns the matrix that gives the outputs: W, or B if factorized.
  [[nodiscard]] StoredMatrix last() const { return {stored, orientation, encoded}; }
  /// The two steps of a factorized projection: first_product() is x A, last_product() multiplies by B and
  /// adds the bias.
  [[nodiscard]] Linear first_product() const {
    return {first.values, first.orientation, {}, {}, first.encoded};
  }
  [[nodiscard]] Linear last_product() const { return {stored, orientation, bias, {}, encoded}; }
  /// Returns the part of the projection that computes outputs [begin, begin + count).
  [[nodiscard]] Linear outputs(std::size_t begin, std::size_t count) const;
  /// Returns W as [in, out] in float64; the product A B if factorized.
  [[nodiscard]] OwnedMatrix<double> in_out_double() const { return inputs_double(0, in()); }
  /// Returns the rows [begin, begin + count) of in_out_double(). Reads only these inputs.
  [[nodiscard]] OwnedMatrix<double> inputs_double(std::size_t begin, std::size_t count) const;
};

struct NormWeights {
  std::span<const float> gain;  // [width], including FamilySpec::gain_offset; empty: all 1
  std::span<const float> bias;  // [width]; empty: all 0
};

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
  linalg::EncodedMatrix encoded = {};  // if present, `tensor` has a shape but no bytes

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

/// How a model uses a tensor of its checkpoint.
enum class TensorRole {
  parameter,  // the model computes with it
  tied,       // a stored copy of a parameter
  buffer,     // position ids, causal masks, rotary frequencies, integers: not trained
  unused      // trained, but not used by the model: poolers, heads of other tasks
};

struct TensorUse {
  TensorRole role = TensorRole::unused;
  std::size_t copy_of = checkpoint::Checkpoint::npos;  // index of the copied parameter if `role` is tied
  bool operator==(const TensorUse&) const = default;
};

/// A checkpoint and its configuration, checked against each other: every tensor that the configuration needs
/// exists and has the right shape. A model does not change after its construction, except that it caches
/// weights. Copies share the weights. All functions are thread-safe.
class Model {
 public:
  /// Reads the configuration and finds the weights; source.weights must not be null. Throws Error(bad_input)
  /// with the JSON pointer if the configuration is wrong, or with a list of tensors that are missing or have
  /// a wrong shape or type. Throws Error(limit) if a size is too large. May add the warning
  /// head_from_embedding; the first use of a tensor may add non_finite_weight. `warnings` must outlive the
  /// model.
  [[nodiscard]] static Model bind(checkpoint::ModelSource source, Warnings& warnings);
  /// As above, but uses `row` and `config` instead of the family and the configuration of the source.
  [[nodiscard]] static Model bind(checkpoint::ModelSource source, const FamilySpec& row, ModelConfig config,
                                  Warnings& warnings);
  /// Returns a model that has layers and heads but no weights, for patterns that another program computed.
  /// Only config(), name() and source() of it may be used.
  [[nodiscard]] static Model without_weights(const std::string& name, ModelConfig config, Warnings& warnings);

  [[nodiscard]] const ModelConfig& config() const { return *config_; }
  [[nodiscard]] const checkpoint::ModelSource& source() const;
  /// The MODEL argument of the command, for messages.
  [[nodiscard]] const std::string& name() const { return source().given; }

  /// Returns a copy of this model with attention of kind `kind` in `layers`. The copy shares the weights.
  [[nodiscard]] Model with_attention(AttentionKind kind, std::span<const std::size_t> layers) const;

  /// Return weights, as float32 unless `form` is WeightForm::stored. Where possible, weights that are stored
  /// as float32, and encoded weights with WeightForm::stored, are views of the checkpoint's data. Other
  /// weights are converted or copied when they are first requested, on `pool` if it is not null. The rows of
  /// a LookupTable are converted only when they are read. The weights stay in memory until they are evicted.
  /// For layers that share weights, the functions return the same object. attention() returns the layer if it
  /// is in memory.
  [[nodiscard]] Lease<LayerWeights> layer(std::size_t index, Pool* pool = nullptr,
                                          WeightForm form = WeightForm::float32) const;
  [[nodiscard]] Lease<AttentionWeights> attention(std::size_t index, Pool* pool = nullptr,
                                                  WeightForm form = WeightForm::float32) const;
  [[nodiscard]] Lease<EmbeddingWeights> embedding() const;
  /// The decoder's embedding in encoder-decoder models.
  [[nodiscard]] Lease<EmbeddingWeights> target_embedding() const;
  [[nodiscard]] Lease<HeadWeights> head(Pool* pool = nullptr, WeightForm form = WeightForm::float32) const;
  [[nodiscard]] NormWeights encoder_norm() const;  // stays in memory; cannot be evicted
  [[nodiscard]] NormWeights final_norm() const;    // stays in memory; cannot be evicted

  /// Remove weights from the cache. Their memory, including pages of the mapped file, is freed as soon as no
  /// lease and no other cached weights use it. If the weights are requested later, they are read again.
  /// evict_layer() also removes what attention() returned, evict_embedding() also the target embedding;
  /// evict_head() leaves the norms.
  void evict_layer(std::size_t index) const;
  void evict_embedding() const;
  void evict_head() const;
  /// Remove only copies of encoded weights as float32. Without encoded weights, they do nothing.
  void evict_converted_layer(std::size_t index) const;
  void evict_converted_head() const;

  /// Return upper bounds, in bytes, of the memory of the weights above in a form (by default float32),
  /// including pages of mapped files and the temporary memory during their conversion. These functions do not
  /// read the weights. embedding_bytes() counts both embeddings; `rows` is the number of rows that are read
  /// from each embedding table. These rows are counted in their stored type, with the neighbouring pages that
  /// the system loads; a table that must be decoded as a whole, such as a compressed one, is counted as a
  /// whole. head_bytes() includes the final norm and the norm of the encoder.
  [[nodiscard]] std::uint64_t layer_bytes(std::size_t index, WeightForm form = WeightForm::float32) const;
  [[nodiscard]] std::uint64_t attention_bytes(std::size_t index) const;
  [[nodiscard]] std::uint64_t embedding_bytes(std::size_t rows) const;
  [[nodiscard]] std::uint64_t head_bytes(WeightForm form = WeightForm::float32) const;

  /// Returns true if W_K equals W_Q in a layer: the checkpoint has no W_K, or both tensors have the same
  /// bytes and the same layout. Ignores biases.
  [[nodiscard]] bool key_is_query(std::size_t index) const;

  /// Returns the first layer that has the same weights as layer `index`; `index` itself if no earlier layer
  /// has.
  [[nodiscard]] std::size_t shared_with(std::size_t index) const;

  /// Returns the number of values in all tensors with TensorRole::parameter.
  [[nodiscard]] std::uint64_t parameters() const;
  [[nodiscard]] std::size_t unused_tensors() const;
  /// Returns the use of each tensor of the checkpoint, in the order of source().weights->tensors().
  [[nodiscard]] std::span<const TensorUse> tensor_uses() const;

 private:
  struct Shared;
  Model(std::shared_ptr<const ModelConfig> config, std::shared_ptr<Shared> shared);

  std::shared_ptr<const ModelConfig> config_;
  std::shared_ptr<Shared> shared_;
};

/// The sizes of a single attention layer with W_q, W_k, W_v and W_o, and the seed of its weights.
struct RandomLayer {
  std::size_t d_model = 64;
  std::size_t heads = 4;  // must divide d_model
  std::uint64_t seed = 0;
};

/// Returns a model with one layer whose weights are independent normal numbers with standard deviation 1 /
/// sqrt(d_model). With this deviation, independent inputs of variance 1 give queries, keys and values of
/// variance 1. `warnings` must outlive the model.
[[nodiscard]] Model random_layer(const RandomLayer& sizes, Warnings& warnings);

}  // namespace attnctl::model
