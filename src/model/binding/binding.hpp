#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "model/families/family.hpp"

namespace attnctl {

inline constexpr std::size_t kNoTensor = Checkpoint::npos;

/// The outputs of a tensor that belong to one projection: `groups` groups of `each`, `stride` apart, starting
/// at `first`.
struct Slices {
  std::size_t first = 0;
  std::size_t groups = 1;
  std::size_t each = 0;
  std::size_t stride = 0;
  std::size_t all = 0;  // outputs of the whole tensor

  [[nodiscard]] static Slices whole(std::size_t outputs) { return {0, 1, outputs, outputs, outputs}; }
  [[nodiscard]] std::size_t count() const { return groups * each; }
  /// Returns the position in the tensor of the projection's output `index`.
  [[nodiscard]] std::size_t position(std::size_t index) const {
    return first + index / each * stride + index % each;
  }
  [[nodiscard]] bool contiguous() const { return groups == 1; }
};

/// The location of a weight: some outputs of a tensor.
struct BoundMatrix {
  std::size_t tensor = kNoTensor;
  Axes axes = Axes::out_in;
  std::size_t heads = 0;  // of a query, key or value projection with rank 3 [heads, in, k]; otherwise 0
  std::size_t in = 0;
  Slices outputs = {};
  std::size_t expert = 0;  // index in a stack of experts [experts, ...]

  [[nodiscard]] std::size_t out() const { return outputs.count(); }
};

/// Some elements of a tensor, or of row `expert` of a stack of experts [experts, width].
struct BoundVector {
  std::size_t tensor = kNoTensor;
  Slices elements = {};
  std::size_t expert = 0;
};

struct BoundLinear {
  BoundMatrix weight;  // the last factor of a factorized weight
  BoundMatrix first;   // the first factor
  BoundVector bias;
};

struct BoundNorm {
  std::vector<BoundVector> gain, bias;  // one tensor, or one per head
  float gain_offset = 0;
};

struct BoundMlp {
  BoundLinear up, gate, down;
};

struct BoundLayer {
  BoundLinear query, key, value, output;
  BoundNorm attention_norm, mlp_norm, attention_output_norm, mlp_output_norm, query_norm, key_norm;
  BoundVector relative_bias;  // the same in all layers of a stack
  BoundVector sinks;
  BoundVector distance_table;  // of disentangled attention, the same in all layers of a stack
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

/// The tensors that a configuration needs, all with the right shape and type.
struct Binding {
  std::map<LayerConfig::Key, BoundLayer> layers;  // by LayerConfig::stored()
  BoundEmbedding embedding;
  BoundEmbedding target_embedding;
  BoundNorm encoder_norm;
  BoundNorm final_norm;
  BoundLinear head_projection, head_transform, head_decoder;
  BoundNorm head_norm;
  std::vector<bool> used;  // for each tensor of the checkpoint

  /// A stored tensor that is not used because another one is: a second name for the same weight, or a stored
  /// output matrix if the embedding is used instead. Their values may differ.
  struct Alternative {
    std::size_t tensor = kNoTensor;
    std::size_t bound = kNoTensor;
  };
  std::vector<Alternative> alternatives;
};

/// Finds all tensors. Throws one Error(bad_input) with all faults: missing tensors, wrong
/// shapes and types, layers that the configuration does not have. `config_file` is for the message.
[[nodiscard]] Binding bind_tensors(const FamilySpec& family, const ModelConfig& config,
                                   const Checkpoint& weights, const std::string& config_file);

}  // namespace attnctl
