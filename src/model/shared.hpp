#pragma once

#include <map>
#include <memory>
#include <vector>

#include "base/warnings.hpp"
#include "checkpoint/source.hpp"
#include "model/binding/binding.hpp"
#include "model/model.hpp"

namespace attnctl {

class TensorCache;

/// The data that all copies of a model share: its files and its cached weights.
struct Model::Shared {
  Shared(ModelSource of, Binding bound_tensors, std::vector<TensorUse> tensor_uses, Warnings& warnings);
  ~Shared();
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  [[nodiscard]] const BoundLayer& bound(const LayerConfig& layer) const {
    return binding.layers.at(layer.stored());
  }

  ModelSource source;
  Binding binding;
  std::vector<TensorUse> uses;                             // [tensors of the checkpoint]
  std::unique_ptr<TensorCache> tensors;                    // the mutex of `tensors` guards the members below
  std::map<LayerConfig::Key, Lease<LayerWeights>> layers;  // by LayerConfig::stored()
  std::map<LayerConfig::Key, Lease<AttentionWeights>> attentions;
  Lease<EmbeddingWeights> embedding, target_embedding;
  Lease<NormWeights> encoder_norm, final_norm;
  Lease<HeadWeights> head;
};

}  // namespace attnctl
