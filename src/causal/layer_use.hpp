#pragma once

#include <cstddef>

#include "forward/run.hpp"
#include "model/model.hpp"

namespace attnctl::causal {

/// The weights of a layer as float32. At the end of their use, they are evicted if RunContext::streamed_rows
/// is not 0; otherwise only copies of encoded weights are.
class LayerUse {
 public:
  LayerUse(const model::Model& model, std::size_t index, const forward::RunContext& context)
      : model_(model),
        index_(index),
        streamed_(context.streamed_rows > 0),
        weights_(model.layer(index, &context.pool)) {}
  LayerUse(const LayerUse&) = delete;
  LayerUse& operator=(const LayerUse&) = delete;
  ~LayerUse() {
    weights_.reset();
    model_.evict_converted_layer(index_);
    if (streamed_) model_.evict_layer(index_);
  }

  const model::LayerWeights* operator->() const { return weights_.get(); }
  const model::LayerWeights& operator*() const { return *weights_; }

 private:
  const model::Model& model_;
  std::size_t index_;
  bool streamed_;
  model::Lease<model::LayerWeights> weights_;
};

}  // namespace attnctl::causal
