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

/// A weight as the checkpoint has it, perhaps a slice of a packed tensor: [in, out] or [out, in].
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

/// y = x W + b in the row-vector convention. `stored` is [in, out] or [out, in] as the checkpoint has it,
/// perhaps a slice of a packed tensor. An empty view: the layer does not exist.
///
/// A factorised one is y = (x A) B + b: `stored` is B and `first` is A. The product A B is formed for
/// analyses alone (in_out_double), of the part that is asked for.
struct Linear {
  MatrixView<const float> stored;
  Orientation orientation = Orientation::in_out;
  std::span<const float> bias;  // [out] or empty
  StoredMatrix first = {};      // no data: not factorised

  [[nodiscard]] bool present() const { return stored.data != nullptr; }
  [[nodiscard]] bool factorised() const { return first.values.data != nullptr; }
  [[nodiscard]] std::size_t rank() const { return first.out(); }  // of a factorised one
  [[nodiscard]] std::size_t in() const { return factorised() ? first.in() : last().in(); }
  [[nodiscard]] std::size_t out() const { return last().out(); }
  /// The matrix whose columns are the outputs: B, or W itself.
  [[nodiscard]] StoredMatrix last() const { return {stored, orientation}; }
  /// The two products of a factorised one: x A, and what follows with the bias.
  [[nodiscard]] Linear first_product() const { return {first.values, first.orientation, {}}; }
  [[nodiscard]] Linear last_product() const { return {stored, orientation, bias}; }
  /// The part that makes outputs [begin, begin + count).
  [[nodiscard]] Linear outputs(std::size_t begin, std::size_t count) const;
  /// The part that takes inputs [begin, begin + count), without the bias.
  [[nodiscard]] Linear inputs(std::size_t begin, std::size_t count) const;
  /// The weight as [in, out] in double, for analyses.
  [[nodiscard]] OwnedMatrix<double> in_out_double() const;
};

struct NormWeights {
  std::span<const float> gain;  // [width] or empty: 1; what the norm multiplies by, an offset added
  std::span<const float> bias;  // [width] or empty: 0
};

/// The embedded distances of AttentionConfig::disentangled, and what makes keys and queries of them.
struct DisentangledWeights {
  MatrixView<const float> table = {};  // [2 span, d]
  NormWeights norm = {};
  Linear key = {}, query = {};  // [d, heads k]
};

/// What a layer's attention projects with.
struct AttentionWeights {
  Linear query;   // [d, query_slices k]
  Linear key;     // [kdim, kv_heads k]; where the checkpoint has none, the query's weight
  Linear value;   // [vdim, kv_heads v]; may be absent: then no output
  Linear output;  // [heads v, d_out]; may be absent: then the output is the concatenation of z
  NormWeights query_norm = {}, key_norm = {};  // of AttentionConfig::head_norm, as its span says
  MatrixView<const float> relative_bias = {};  // of AttentionConfig::relative_buckets [rows, heads]
  std::span<const float> sinks = {};           // [heads] or empty
  DisentangledWeights disentangled = {};
};

/// One MLP: down(act(gate(x)) * up(x)), or down(act(up(x))).
struct MlpWeights {
  Linear up, gate, down;
};

struct LayerWeights : AttentionWeights {
  NormWeights attention_norm, mlp_norm;
  NormWeights attention_output_norm, mlp_output_norm;  // NormPlace::both
  MlpWeights mlp;
  Linear router;                    // [d_model, experts]
  std::vector<MlpWeights> experts;  // [experts] or empty
  MlpWeights shared;                // the expert of every token
  Linear shared_factor;             // [d_model, 1]
  Linear convolution;               // [d_model / groups * kernel, d_model], a channel's offsets side by side
  NormWeights convolution_norm;
};

/// A table of which rows are looked up and converted one at a time: [rows, width].
struct LookupTable {
  TensorView tensor;

  [[nodiscard]] bool present() const { return !tensor.shape.empty(); }
  [[nodiscard]] std::size_t rows() const { return tensor.shape.at(0); }
  [[nodiscard]] std::size_t width() const { return tensor.shape.at(1); }
  /// Row r to out [width].
  void row(std::size_t r, std::span<float> out) const;
};

struct EmbeddingWeights {
  LookupTable token, position, token_type;
  NormWeights norm;
  Linear projection;
  LookupTable class_token;  // one row, of models that read images
  Linear patches;           // [channels * height * width of a patch, d]
};

struct HeadWeights {
  Linear projection;
  Linear transform;
  NormWeights transform_norm;
  Linear decoder;
};

/// What the values of a checkpoint's tensor count as.
enum class TensorRole {
  parameter,  // bound: the model computes with them
  tied,       // a stored copy of a bound tensor
  buffer,     // position ids, causal masks, rotary frequencies, integers: nothing that was trained
  unused      // trained, and of no part of the model: poolers, heads of other tasks
};

struct TensorUse {
  TensorRole role = TensorRole::unused;
  std::size_t copy_of = Checkpoint::npos;  // the bound tensor where tied
};

/// A checkpoint bound to its configuration: every tensor that the configuration needs was found and has the
/// shape it must have; missing ones are named all at once in one Error(bad_input), extra ones are counted.
class Model {
 public:
  /// Throws Error(bad_input) as said above and for anything wrong in the configuration (JSON pointer named).
  /// `source.weights` must be there; `warnings` must outlive the model. Warnings: head_from_embedding, and at
  /// the first use of a tensor non_finite_weight.
  [[nodiscard]] static Model bind(ModelSource source, Warnings& warnings);
  /// As another row or configuration than the source's own says.
  [[nodiscard]] static Model bind(ModelSource source, const FamilySpec& row, ModelConfig config,
                                  Warnings& warnings);
  ~Model();
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;

  [[nodiscard]] const ModelConfig& config() const;
  [[nodiscard]] const ModelSource& source() const;
  /// A what-if: from now on these layers attend in another way than the configuration says.
  void replace_attention(AttentionKind kind, std::span<const std::size_t> layers);

  /// Weights as float32: borrowed from the mapping where they are stored so, converted elsewhere (on the
  /// pool, where one is given) and kept until they are released. Layers that share weights give the same
  /// object. Not safe from several threads at once.
  [[nodiscard]] const LayerWeights& layer(std::size_t index, Pool* pool = nullptr) const;
  /// The attention's part of a layer, the rest not touched.
  [[nodiscard]] const AttentionWeights& attention(std::size_t index, Pool* pool = nullptr) const;
  [[nodiscard]] const EmbeddingWeights& embedding() const;
  /// Of a model with a decoder that reads an encoder: what the target is embedded with.
  [[nodiscard]] const EmbeddingWeights& target_embedding() const;
  [[nodiscard]] NormWeights encoder_norm() const;
  [[nodiscard]] NormWeights final_norm() const;
  [[nodiscard]] const HeadWeights& head(Pool* pool = nullptr) const;

  /// Ends what layer(index), or attention(index), gave: its views are not valid any more. Memory that nothing
  /// else of the model needs goes back to the system, that of the mapped file too. They may be asked for
  /// again, and are then read again.
  void release_layer(std::size_t index) const;
  void release_attention(std::size_t index) const;
  void release_embedding() const;

  /// Bytes that each of these takes at most as float32, while it is made too; nothing is read. Of embeddings:
  /// where so many rows of a table are looked up.
  [[nodiscard]] std::uint64_t layer_bytes(std::size_t index) const;
  [[nodiscard]] std::uint64_t attention_bytes(std::size_t index) const;
  [[nodiscard]] std::uint64_t embedding_bytes(std::size_t rows) const;
  [[nodiscard]] std::uint64_t head_bytes() const;

  /// Whether W_K is W_Q: there is no W_K, or both are stored alike with the same bytes. Biases are not
  /// compared.
  [[nodiscard]] bool key_is_query(std::size_t index) const;

  /// The first layer with the same weights (`index` itself where they are its own).
  [[nodiscard]] std::size_t shared_with(std::size_t index) const;

  [[nodiscard]] std::uint64_t parameters() const;  // of the tensors that are bound, each once
  [[nodiscard]] std::size_t unused_tensors() const;
  /// What each of source().weights->tensors() counts as.
  [[nodiscard]] std::span<const TensorUse> tensor_uses() const;

 private:
  Model();
  struct State;
  std::unique_ptr<State> state_;
};

/// A head of a layer.
struct HeadId {
  std::size_t layer = 0;
  std::size_t head = 0;
  auto operator<=>(const HeadId&) const = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 errs here
};

/// "L.H", the layer counted through all components.
[[nodiscard]] std::string to_string(HeadId head);

/// The name of a head, "L.H"; of a model with several components "enc.L.H", "dec.L.H" or "cross.L.H", the
/// layer counted in its component.
[[nodiscard]] std::string head_name(const ModelConfig& config, HeadId head);
/// The same of a layer: "L", "enc.L".
[[nodiscard]] std::string layer_name(const ModelConfig& config, std::size_t layer);

}  // namespace attnctl
