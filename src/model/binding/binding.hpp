#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "model/families/family.hpp"

namespace attnctl::model {

/// A tensor that was found in a checkpoint, and its layout according to the family.
struct LocatedTensor {
  std::size_t index = 0;  // index in Checkpoint::tensors()
  Axes axes = Axes::out_in;
  Packing packing = Packing::whole;
  bool operator==(const LocatedTensor&) const = default;
};

/// The stored weight of a projection: one tensor, two factors, or nothing. The first tensor has the inputs of
/// the projection, the last one has its outputs.
using LocatedWeight = std::vector<LocatedTensor>;

/// Finds a family's tensors in a checkpoint. The constructor chooses the prefixes with the most matching
/// names in the first layer. If a tensor has several possible names, the functions use the first one that is
/// stored. They throw Error(bad_input) if two of the names are stored and the family has sizes_from_tensors.
/// The family and the checkpoint must outlive this object.
class TensorNames {
 public:
  TensorNames(const FamilySpec& family, const checkpoint::Checkpoint& weights, std::size_t layers);

  /// Return the prefix of the names of a layer's tensors, and of tensors outside of layers.
  [[nodiscard]] std::string in_layer(const LayerConfig::Key& layer) const;
  [[nodiscard]] const std::string& outside_layers() const { return prefix_; }

  /// Returns the prefix of layer tensors. If the prefix contains the layer number, it has `{}` there.
  [[nodiscard]] std::string layer_prefix(bool of_decoder) const {
    return prefix_ + (of_decoder ? family_->decoder->prefix : layer_prefix_);
  }

  /// Finds a tensor whose name in the checkpoint is `prefix` followed by one of `names`.
  [[nodiscard]] std::optional<LocatedTensor> find(std::span<const StoredTensor> names,
                                                  const std::string& prefix) const;
  /// Finds the weight of a projection. Also throws Error(bad_input) if only one of two factors is stored, or
  /// if both a factor and the whole weight are stored.
  [[nodiscard]] LocatedWeight find_weight(const LinearSpec& spec, const std::string& prefix) const;

  [[nodiscard]] const checkpoint::Checkpoint& weights() const { return *weights_; }
  [[nodiscard]] const checkpoint::TensorInfo& info(const LocatedTensor& tensor) const {
    return weights_->tensors()[tensor.index];
  }

 private:
  const FamilySpec* family_;
  const checkpoint::Checkpoint* weights_;
  std::string prefix_;
  std::string layer_prefix_;
};

/// Returns true if two tensors have the same type, shape and bytes. Releases the tensors if it reads their
/// bytes.
[[nodiscard]] bool same_values(checkpoint::Checkpoint& weights, std::size_t a, std::size_t b);

inline constexpr std::size_t kNoTensor = checkpoint::Checkpoint::npos;

/// The outputs of a stored tensor that belong to one projection. They form `groups` groups of `each`
/// consecutive outputs. The first group begins at output `first`; each group begins `stride` outputs after
/// the previous one.
struct Slices {
  std::size_t first = 0;
  std::size_t groups = 1;
  std::size_t each = 0;
  std::size_t stride = 0;
  std::size_t all = 0;  // number of outputs of the whole tensor, or of one expert in a stack of experts

  [[nodiscard]] static Slices whole(std::size_t outputs) { return {0, 1, outputs, outputs, outputs}; }
  [[nodiscard]] std::size_t count() const { return groups * each; }
  /// Returns the index, among the outputs of the tensor, of output `index` of the projection.
  [[nodiscard]] std::size_t position(std::size_t index) const {
    return first + index / each * stride + index % each;
  }
  [[nodiscard]] bool contiguous() const { return groups == 1; }
};

/// The location of a stored weight: a tensor, and the outputs of the tensor that belong to the weight.
struct BoundMatrix {
  std::size_t tensor = kNoTensor;
  Axes axes = Axes::out_in;
  std::size_t heads = 0;  // number of heads if stored as [heads, in, k]; otherwise 0
  std::size_t in = 0;
  Slices outputs = {};
  std::size_t expert = 0;  // index in a stack of experts [experts, ...]

  [[nodiscard]] std::size_t out() const { return outputs.count(); }
};

/// The location of a stored vector: some elements of a tensor, or of row `expert` of a tensor with one row
/// per expert. A table is described as the vector of all its elements.
struct BoundVector {
  std::size_t tensor = kNoTensor;
  Slices elements = {};
  std::size_t expert = 0;
  std::size_t width = 1;  // row length of a table
};

struct BoundLinear {
  BoundMatrix weight;  // the whole weight, or the last factor if factorized
  BoundMatrix first;   // the first factor if factorized
  BoundVector bias;
};

struct BoundNorm {
  std::vector<BoundVector> gain, bias;  // one vector, or one per head; empty if not stored
  float gain_offset = 0;
};

struct BoundMlp {
  BoundLinear up, gate, down;
};

struct BoundLayer {
  BoundLinear query, key, value, output;
  BoundNorm attention_norm, mlp_norm, attention_output_norm, mlp_output_norm, query_norm, key_norm;
  BoundVector relative_bias;  // shared by all layers of a stack
  BoundVector sinks;
  BoundVector distance_table;  // of disentangled attention; shared by all layers of a stack
  BoundNorm distance_norm;
  BoundLinear distance_key, distance_query;
  BoundLinear convolution;
  BoundNorm convolution_norm;
  BoundMlp mlp, shared;
  BoundLinear router, shared_factor;
  std::vector<BoundMlp> experts;
};

struct BoundEmbedding {
  std::size_t token = kNoTensor, position = kNoTensor, token_type = kNoTensor, class_token = kNoTensor;
  BoundNorm norm;
  BoundLinear projection, patches;
};

/// The location of every tensor that a configuration needs. All these tensors have the right shape and type.
struct Binding {
  std::map<LayerConfig::Key, BoundLayer> layers;  // by LayerConfig::stored()
  BoundEmbedding embedding;
  BoundEmbedding target_embedding;
  BoundNorm encoder_norm;
  BoundNorm final_norm;
  BoundLinear head_projection, head_transform, head_decoder;
  BoundNorm head_norm;
  std::vector<bool> used;  // for each tensor of the checkpoint, whether the model uses it

  /// Stored tensors that could be used for a weight, each with the tensor that is used instead: the weight
  /// under a second name, or an output matrix where the embedding is used. The values of the two tensors may
  /// differ.
  std::vector<std::pair<std::size_t, std::size_t>> alternatives;
};

/// Finds all tensors that a configuration needs. Throws one Error(bad_input) for all missing tensors, wrong
/// shapes and types, and stored layers that the configuration does not have; the message shows the first 8
/// missing tensors and the first 8 other faults. `config_file` is used in the message.
[[nodiscard]] Binding bind_tensors(const FamilySpec& family, const ModelConfig& config,
                                   const checkpoint::Checkpoint& weights, const std::string& config_file);

}  // namespace attnctl::model
