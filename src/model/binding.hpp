#pragma once

#include "attnctl/model/family.hpp"

#include <cstddef>
#include <map>
#include <vector>

#include "model/tensor_names.hpp"

namespace attnctl {

inline constexpr std::size_t no_tensor = Checkpoint::npos;

/// Where a weight lies: outputs [first, first + out) of a tensor.
struct BoundMatrix {
  std::size_t tensor = no_tensor;
  Axes axes = Axes::out_in;
  std::size_t heads = 0;  // of a query, key or value projection of rank 3 [heads, in, k]; else 0
  std::size_t first = 0;
  std::size_t in = 0;
  std::size_t out = 0;
};

/// Elements [first, first + count) of a tensor.
struct BoundVector {
  std::size_t tensor = no_tensor;
  std::size_t first = 0;
  std::size_t count = 0;
};

struct BoundLinear {
  BoundMatrix weight;
  BoundMatrix first;  // of a factorised weight, which `weight` is the last factor of
  BoundVector bias;
};

struct BoundNorm {
  BoundVector gain, bias;
};

struct BoundLayer {
  BoundLinear query, key, value, output;
  BoundNorm attention_norm, mlp_norm, query_norm, key_norm;
  BoundLinear up, gate, down;
  BoundVector relative_bias;  // one of the stack, in each of its layers
};

/// Every tensor that a configuration needs, found and of the right shape and type.
struct Binding {
  std::map<std::size_t, BoundLayer> layers;  // by LayerConfig::stored_as
  std::size_t token = no_tensor, position = no_tensor, token_type = no_tensor;
  BoundNorm embedding_norm;
  BoundLinear projection;
  BoundNorm final_norm;
  BoundLinear head_transform, head_decoder;
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

/// Throws Error(bad_input): all missing tensors in one line, else the first of a wrong shape or type.
/// `config_file` is for errors.
[[nodiscard]] Binding bind_tensors(const FamilySpec& family, const ModelConfig& config,
                                   const Checkpoint& weights, const std::string& config_file);

}  // namespace attnctl
