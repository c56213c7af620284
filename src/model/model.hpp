#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/matrix_view.hpp"
#include "base/pool.hpp"
#include "base/warnings.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/source.hpp"
#include "model/config/config.hpp"

namespace attnctl {

struct FamilySpec;

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

/// The use of a checkpoint's tensor.
enum class TensorRole {
  parameter,  // the model computes with it
  tied,       // a stored copy of a parameter
  buffer,     // position ids, causal masks, rotary frequencies, integers: not trained
  unused      // trained, but no part of the model: poolers, heads of other tasks
};

struct TensorUse {
  TensorRole role = TensorRole::unused;
  std::size_t copy_of = Checkpoint::npos;  // index of the parameter if tied
};

/// A checkpoint bound to its configuration: every tensor that the configuration needs exists with the right
/// shape.
class Model {
 public:
  /// Reads the configuration and binds the weights, which `source` must have. Throws Error(bad_input) for a
  /// wrong configuration (with the JSON pointer), or with all missing and misshapen tensors in one message.
  /// Adds the warning head_from_embedding; the first use of a tensor may add non_finite_weight. `warnings`
  /// must outlive the model.
  [[nodiscard]] static Model bind(ModelSource source, Warnings& warnings);
  /// Binds with another row or configuration than the source's own.
  [[nodiscard]] static Model bind(ModelSource source, const FamilySpec& row, ModelConfig config,
                                  Warnings& warnings);
  ~Model();
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;

  [[nodiscard]] const ModelConfig& config() const;
  [[nodiscard]] const ModelSource& source() const;
  /// Replaces the kind of attention in these layers.
  void replace_attention(AttentionKind kind, std::span<const std::size_t> layers);

  /// Weights as float32: views of the mapped file if stored so, otherwise converted on first use, on `pool`
  /// if given. References stay valid until the weights are released. Layers that share weights give the same
  /// object.
  [[nodiscard]] const LayerWeights& layer(std::size_t index, Pool* pool = nullptr) const;
  /// Reads only the attention of a layer.
  [[nodiscard]] const AttentionWeights& attention(std::size_t index, Pool* pool = nullptr) const;
  [[nodiscard]] const EmbeddingWeights& embedding() const;
  /// The embedding of the decoder in an encoder-decoder model.
  [[nodiscard]] const EmbeddingWeights& target_embedding() const;
  [[nodiscard]] NormWeights encoder_norm() const;
  [[nodiscard]] NormWeights final_norm() const;
  [[nodiscard]] const HeadWeights& head(Pool* pool = nullptr) const;

  /// Release weights. References to them become invalid, and memory that no other part needs is freed,
  /// including pages of the mapped file. Later calls read them again.
  void release_layer(std::size_t index) const;
  void release_attention(std::size_t index) const;
  void release_embedding() const;

  /// Upper bounds in bytes for these weights as float32, including the peak while they are converted. Nothing
  /// is read. `rows` is the number of rows looked up in each table.
  [[nodiscard]] std::uint64_t layer_bytes(std::size_t index) const;
  [[nodiscard]] std::uint64_t attention_bytes(std::size_t index) const;
  [[nodiscard]] std::uint64_t embedding_bytes(std::size_t rows) const;
  [[nodiscard]] std::uint64_t head_bytes() const;

  /// Returns true if W_K is W_Q: there is no W_K, or both hold the same bytes in the same layout. Ignores
  /// biases.
  [[nodiscard]] bool key_is_query(std::size_t index) const;

  /// Returns the first layer with the same weights, possibly `index` itself.
  [[nodiscard]] std::size_t shared_with(std::size_t index) const;

  [[nodiscard]] std::uint64_t parameters() const;  // values of all parameter tensors
  [[nodiscard]] std::size_t unused_tensors() const;
  /// Returns the use of each of source().weights->tensors().
  [[nodiscard]] std::span<const TensorUse> tensor_uses() const;

 private:
  Model();
  struct State;
  std::unique_ptr<State> state_;
};

/// A head, identified by the layer's index in ModelConfig::layers.
struct HeadId {
  std::size_t layer = 0;
  std::size_t head = 0;
  auto operator<=>(const HeadId&) const = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 errs here
};

/// Returns "L.H" with the index in ModelConfig::layers.
[[nodiscard]] std::string to_string(HeadId head);

/// Returns the name of a head: "L.H", or in encoder-decoder models "enc.L.H", "dec.L.H" or "cross.L.H" with
/// the layer numbered within its component.
[[nodiscard]] std::string head_name(const ModelConfig& config, HeadId head);
/// Returns the same for a layer: "L" or "enc.L".
[[nodiscard]] std::string layer_name(const ModelConfig& config, std::size_t layer);

}  // namespace attnctl
