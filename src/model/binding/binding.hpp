#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "model/binding/packing.hpp"
#include "model/binding/tensor_names.hpp"
#include "model/families/family.hpp"

namespace attnctl {

inline constexpr std::size_t no_tensor = Checkpoint::npos;

/// Where a weight lies: some outputs of a tensor.
struct BoundMatrix {
  std::size_t tensor = no_tensor;
  Axes axes = Axes::out_in;
  std::size_t heads = 0;  // of a query, key or value projection of rank 3 [heads, in, k]; else 0
  std::size_t in = 0;
  Slices outputs = {};
  std::size_t expert = 0;  // of a stack of experts [experts, ...]

  [[nodiscard]] std::size_t out() const { return outputs.count(); }
};

/// Some elements of a tensor, or of a row of it.
struct BoundVector {
  std::size_t tensor = no_tensor;
  Slices elements = {};
  std::size_t expert = 0;  // of a stack of experts [experts, width]
};

struct BoundLinear {
  BoundMatrix weight;
  BoundMatrix first;  // of a factorised weight, which `weight` is the last factor of
  BoundVector bias;
};

struct BoundNorm {
  std::vector<BoundVector> gain, bias;  // one, or one a head
  float gain_offset = 0;
};

struct BoundMlp {
  BoundLinear up, gate, down;
};

struct BoundLayer {
  BoundLinear query, key, value, output;
  BoundNorm attention_norm, mlp_norm, attention_output_norm, mlp_output_norm, query_norm, key_norm;
  BoundVector relative_bias;  // one of the stack, in each of its layers
  BoundVector sinks;
  BoundVector distance_table;  // of disentangled attention, one of the stack as well
  BoundNorm distance_norm;
  BoundLinear distance_key, distance_query;
  BoundLinear convolution;
  BoundNorm convolution_norm;
  BoundMlp mlp, shared;
  BoundLinear router, shared_factor;
  std::vector<BoundMlp> experts;
};

struct BoundEmbedding {
  std::size_t token = no_tensor, position = no_tensor, token_type = no_tensor, class_token = no_tensor;
  BoundNorm norm;
  BoundLinear projection, patches;
};

/// Every tensor that a configuration needs, found and of the right shape and type.
struct Binding {
  std::map<LayerConfig::Key, BoundLayer> layers;  // by LayerConfig::stored()
  BoundEmbedding embedding;
  BoundEmbedding target_embedding;
  BoundNorm encoder_norm;
  BoundNorm final_norm;
  BoundLinear head_projection, head_transform, head_decoder;
  BoundNorm head_norm;
  std::vector<bool> used;  // [tensors of the checkpoint]

  /// Tensors that another, bound one stands for: under another name of the same weight, or a stored decoder
  /// in the place of which the embedding serves. Their values may differ.
  struct Alternative {
    std::size_t tensor = no_tensor;
    std::size_t bound = no_tensor;
  };
  std::vector<Alternative> alternatives;
};

/// Throws Error(bad_input) that names in one line all that is wrong: missing tensors, wrong shapes and types,
/// layers that the configuration does not have.
/// `config_file` is for errors.
[[nodiscard]] Binding bind_tensors(const FamilySpec& family, const ModelConfig& config,
                                   const Checkpoint& weights, const std::string& config_file);

}  // namespace attnctl
