#include <algorithm>

#include "base/checked.hpp"
#include "model/binding/weight_store.hpp"

namespace attnctl {
namespace {

std::uint64_t element_count(const TensorInfo& info) {
  return checked_product(info.shape).value_or(0);
}

}  // namespace

void WeightBytes::add_tensor(std::size_t tensor) {
  if (tensor == no_tensor || !tensors_.insert(tensor).second) return;
  const TensorInfo& info = weights_.tensors()[tensor];
  kept_ += element_count(info) * sizeof(float);
  std::uint64_t temporary = weights_.copied_bytes(tensor);
  if (info.dtype != DType::f32 && temporary == 0)
    temporary = std::min<std::uint64_t>(element_count(info), kPieceElements) * size_of(info.dtype);
  conversion_ = std::max(conversion_, temporary);
}

void WeightBytes::add(const BoundMatrix& matrix) {
  if (matrix.tensor == no_tensor) return;
  add_tensor(matrix.tensor);
  const std::uint64_t all = element_count(weights_.tensors()[matrix.tensor]) * sizeof(float);
  if (matrix.heads > 0) kept_ += all;
  if (!matrix.outputs.contiguous()) kept_ += std::uint64_t{matrix.out()} * matrix.in * sizeof(float);
}

void WeightBytes::add(const BoundVector& vector) {
  if (vector.tensor == no_tensor) return;
  add_tensor(vector.tensor);
  if (!vector.elements.contiguous()) kept_ += vector.elements.count() * sizeof(float);
}

WeightBytes& WeightBytes::add(const BoundLinear& linear) {
  add(linear.weight);
  add(linear.first);
  add(linear.bias);
  return *this;
}

WeightBytes& WeightBytes::add(const BoundNorm& norm) {
  for (const auto* parts : {&norm.gain, &norm.bias}) {
    for (const BoundVector& part : *parts) {
      add(part);
      kept_ += part.elements.count() * sizeof(float);  // concatenated copy
    }
  }
  return *this;
}

WeightBytes& WeightBytes::add(const BoundMlp& mlp) {
  return add(mlp.up).add(mlp.gate).add(mlp.down);
}

WeightBytes& WeightBytes::add_attention(const BoundLayer& layer) {
  add(layer.query).add(layer.key).add(layer.value).add(layer.output);
  add(layer.query_norm).add(layer.key_norm);
  add(layer.relative_bias);
  add(layer.sinks);
  add(layer.distance_table);
  return add(layer.distance_norm).add(layer.distance_key).add(layer.distance_query);
}

WeightBytes& WeightBytes::add_layer(const BoundLayer& layer) {
  add_attention(layer);
  add(layer.attention_norm).add(layer.mlp_norm).add(layer.attention_output_norm).add(layer.mlp_output_norm);
  add(layer.mlp).add(layer.shared).add(layer.router).add(layer.shared_factor);
  add(layer.convolution).add(layer.convolution_norm);
  for (const BoundMlp& expert : layer.experts) add(expert);
  return *this;
}

WeightBytes& WeightBytes::add_table(std::size_t tensor, std::size_t rows) {
  if (tensor == no_tensor) return *this;
  const TensorInfo& info = weights_.tensors()[tensor];
  const std::uint64_t all = element_count(info) * size_of(info.dtype);
  const std::uint64_t copied = weights_.copied_bytes(tensor);
  if (copied > 0) {
    kept_ += copied;
    return *this;
  }
  // Reading a row also maps neighboring pages.
  constexpr std::uint64_t read_ahead = std::uint64_t{1} << 17U;
  const std::uint64_t row = all / std::max<std::uint64_t>(info.shape.empty() ? 1 : info.shape.front(), 1);
  const std::uint64_t read = checked_mul<std::uint64_t>(rows, row + read_ahead).value_or(all);
  const std::uint64_t checked = std::uint64_t{kPieceElements} * size_of(info.dtype);
  kept_ += std::min(all, std::max(read, checked));
  return *this;
}

}  // namespace attnctl
