#include "causal/footprint.hpp"

#include <algorithm>

namespace attnctl::causal {
namespace {

std::uint64_t rows_of(const input::Sequence& sequence) {
  return std::max(sequence.queries(), sequence.target ? sequence.target->queries() : std::size_t{0});
}

std::uint64_t rows_of(const input::Batch& batch) {
  std::uint64_t rows = 0;
  for (const input::Sequence& sequence : batch.sequences) rows += rows_of(sequence);
  return rows;
}

std::uint64_t floats(std::uint64_t rows, std::uint64_t width) {
  return saturating_product<std::uint64_t>(sizeof(float), saturating_product(rows, width));
}

/// Returns the number of values of z of all layers for one token.
std::uint64_t z_width(const model::ModelConfig& config) {
  std::uint64_t width = 0;
  for (const model::LayerConfig& layer : config.layers)
    width += std::uint64_t{layer.attention.heads} * layer.attention.d_value;
  return width;
}

/// Returns the number of values per token in the buffers of the backward pass in a layer.
std::uint64_t backward_width(const model::ModelConfig& config, const model::LayerConfig& layer) {
  const model::AttentionConfig& attention = layer.attention;
  const std::uint64_t heads = std::uint64_t{attention.heads} * std::max(attention.d_head, attention.d_value);
  constexpr std::uint64_t streams = 20, of_heads = 12, of_mlp = 6;
  std::uint64_t mlp = layer.mlp.width;
  if (layer.experts.count > 0) mlp = std::max<std::uint64_t>(mlp, layer.experts.shared_width);
  return streams * config.d_model + of_heads * heads + of_mlp * mlp;
}

}  // namespace

std::uint64_t recorded_bytes(const model::ModelConfig& config, const input::Batch& batch, bool mlps) {
  const std::uint64_t layers = (mlps ? 2 : 1) * config.layers.size() + 3;
  return floats(rows_of(batch), layers * config.d_model + z_width(config));
}

CausalFootprint causal_footprint(const model::Model& model, const input::Batch& batch, std::size_t scored,
                                 bool mlps, std::size_t threads) {
  const model::ModelConfig& config = model.config();
  CausalFootprint made;
  made.kept = saturating_sum(recorded_bytes(config, batch, mlps), floats(rows_of(batch), z_width(config)),
                             floats(scored, 2 * config.output_embedding().vocabulary),
                             floats(scored, 2 * config.d_model));  // float64: the derivatives of logits

  // The passes with interventions have copies of the sequences.
  input::Batch copies;
  const auto longest = std::ranges::max_element(batch.sequences, {},
                                                [](const input::Sequence& each) { return rows_of(each); });
  std::uint64_t keys = 0;
  if (longest != batch.sequences.end()) {
    keys = std::max<std::uint64_t>(longest->keys(), rows_of(*longest));
    const std::uint64_t count = kStreamedRows / std::max<std::uint64_t>(rows_of(*longest), 1) + 1;
    copies.sequences.assign(count, *longest);
  }
  const forward::PassFootprint pass =
      forward::pass_footprint(model, copies, {}, {.patterns = false, .logits = true}, threads);
  const std::uint64_t forward_buffers =
      saturating_sum(pass.activations, pass.workers, saturating_product(pass.row, rows_of(copies)));

  // The gradients need float32 weights: copies of the encoded weights of the output head, then of each layer.
  std::uint64_t width = 0, converted = 0;
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    width = std::max(width, backward_width(config, config.layers[i]));
    const std::uint64_t decoded = model.layer_bytes(i),
                        stored = model.layer_bytes(i, model::WeightForm::stored);
    if (decoded != stored) converted = std::max(converted, decoded);
  }
  if (const std::uint64_t decoded = model.head_bytes();
      decoded != model.head_bytes(model::WeightForm::stored))
    converted = std::max(converted, decoded);
  constexpr std::uint64_t panels = 6;
  const std::uint64_t backward = saturating_sum(
      floats(std::min<std::uint64_t>(pass.block_rows, rows_of(batch)), width),
      floats(threads * panels * 128, keys), floats(2 * rows_of(batch), config.d_model), pass.workers);
  made.buffers = std::max(forward_buffers, saturating_sum(backward, converted));
  made.resident_weights = saturating_sum(pass.resident_weights, pass.other_weights);
  made.streamed_weights = saturating_sum(pass.streamed_weights, pass.other_weights);
  return made;
}

}  // namespace attnctl::causal
