#include <algorithm>
#include <set>

#include "base/checked.hpp"
#include "forward/attention/attention.hpp"
#include "forward/layers/layers.hpp"
#include "forward/plan.hpp"

namespace attnctl::forward {
namespace {

/// Upper bound of the bytes that a BLAS allocates per thread for packed operands.
constexpr std::uint64_t kMostPacked = std::uint64_t{12} << 20U;
/// Bytes of a thread's stack and small allocations.
constexpr std::uint64_t kThreadBytes = std::uint64_t{2} << 20U;

std::uint64_t floats(std::uint64_t rows, std::uint64_t cols) {
  return saturating_product(saturating_product(rows, cols), sizeof(float));
}

/// Returns the bytes that the MLP and the experts of a layer need for `rows` rows. Experts need scores,
/// routes, and the rows and outputs of each expert.
std::uint64_t mlp_bytes(const model::LayerConfig& layer, std::size_t d_model, std::uint64_t rows) {
  const model::ExpertsConfig& experts = layer.experts;
  const std::size_t width = std::max(layer.mlp.width, experts.shared_width);
  if (width == 0) return 0;
  rows = std::min<std::uint64_t>(rows, kMlpRows);
  const std::uint64_t bytes = floats(rows, 2 * d_model + 2 * width);
  if (experts.count == 0) return bytes;
  constexpr std::uint64_t kRoute = 64;
  const std::uint64_t routes = rows * (sizeof(ExpertRoute) + experts.per_token * kRoute);
  return saturating_sum(bytes, floats(rows, experts.count + 4 * d_model), routes);
}

/// Returns the bytes of the buffers that ForwardPass needs for a Block in one layer.
std::uint64_t layer_bytes(const model::ModelConfig& config, const model::LayerConfig& layer,
                          const LayerPlan& plan, const Block& block) {
  const model::AttentionConfig& attention = layer.attention;
  const std::size_t z = plan.z ? attention.heads * attention.d_value : 0;
  const std::size_t queries = attention.query_slices() * attention.d_head;
  const std::size_t output = plan.output ? std::max(config.d_output, config.d_model) : 0;
  const std::size_t narrow =
      attention.query.rank + attention.key.rank + attention.value.rank + attention.output.rank;
  std::uint64_t bytes =
      saturating_sum(floats(block.rows, std::max(config.d_model, z)),  // the normalised stream, later z
                     floats(block.rows, std::max(queries, output)),    // queries, later the output
                     floats(block.key_rows, attention.kv_heads * attention.d_head),
                     plan.values ? floats(block.key_rows, attention.kv_heads * attention.d_value) : 0,
                     floats(std::max(block.rows, block.key_rows), narrow));
  if (attention.disentangled) {
    const std::size_t rows = 2 * attention.disentangled->span;
    bytes = saturating_sum(bytes, floats(rows, config.d_model + 2 * attention.heads * attention.d_head));
  }
  return plan.onward ? saturating_sum(bytes, mlp_bytes(layer, config.d_model, block.rows)) : bytes;
}

/// PackedMatrix rounds the number of columns up to a multiple of the panel width, which is at most this
/// number.
constexpr std::uint64_t kLanes = 64;

/// Returns the bytes that one worker needs for one head: panels, packed keys and values, and position terms.
std::uint64_t head_bytes(const model::AttentionConfig& attention, const LayerPlan& plan, const Block& block,
                         std::size_t panel_rows) {
  std::uint64_t largest = 0;
  for (const BlockSequence& place : block.sequences) {
    const std::size_t rows = std::min(place.queries, rows_of_panel(panel_rows, place.keys));
    const std::size_t panels = plan.scores ? 4 : 3;  // two more may be allocated by observers
    const std::size_t both = place.queries + place.keys;
    const std::uint64_t packed = saturating_sum(attention.d_head, plan.z ? attention.d_value : 0, 2 * kLanes);
    std::uint64_t bytes = 0;
    const auto add = [&](std::uint64_t height, std::uint64_t width) {
      bytes = saturating_sum(bytes, floats(height, width));
    };
    add(rows, panels * place.keys);
    add(rows, 8);
    add(place.keys, 8);
    add(place.keys + kLanes, packed);                         // packed keys and values
    if (plan.values) add(place.keys, 2 * attention.d_value);  // float64 copies made by observers
    if (attention.relative_buckets || attention.disentangled || attention.alibi) add(both, 2);
    if (attention.disentangled) add(both, 2 * attention.disentangled->span);
    if (attention.kind.rule == model::AttentionKind::Rule::linear) {
      add(both, 2 * attention.d_head);
      add(attention.d_head, 2 * attention.d_value);
    }
    largest = std::max(largest, bytes);
  }
  return largest;
}

std::uint64_t rotary_bytes(const model::ModelConfig& config, std::size_t longest) {
  std::set<const model::RotaryConfig*> tables;
  for (const model::LayerConfig& layer : config.layers) tables.insert(layer.attention.rotary.get());
  std::uint64_t bytes = 0;
  for (const model::RotaryConfig* const table : tables) {
    if (table != nullptr) bytes = saturating_sum(bytes, floats(longest, table->dims));
  }
  return bytes;
}

std::uint64_t logits_bytes(const model::ModelConfig& config, std::size_t rows) {
  const std::size_t vocabulary = std::max<std::size_t>(config.output_embedding().vocabulary, 1);
  rows = std::min(rows, logits_rows(vocabulary));
  return floats(rows, vocabulary + 3 * config.d_model);
}

/// Returns the largest number of table rows that a block reads from the embedding tables.
std::size_t looked_up(const std::vector<Block>& blocks, const input::Batch& batch) {
  std::size_t largest = 0;
  for (const Block& block : blocks) {
    std::size_t rows = block.rows;
    for (const BlockSequence& place : block.sequences) {
      const input::Sequence* const target = batch.sequences[place.index].target.get();
      if (target != nullptr) rows += target->queries();
    }
    largest = std::max(largest, rows);
  }
  return largest;
}

/// Returns the number of floats per row that are kept from one layer to the next.
std::uint64_t carried_floats(const model::ModelConfig& config) {
  std::uint64_t width = config.decoder ? 2 * config.d_model : config.d_model;
  std::size_t kernel = 0;
  for (const model::LayerConfig& layer : config.layers) {
    if (layer.convolution) kernel = std::max(kernel, layer.convolution->kernel);
  }
  if (kernel > 0) width += (kernel + 2) * config.d_model;
  return width;
}

}  // namespace

std::uint64_t PassFootprint::resident() const {
  return saturating_sum(resident_weights, other_weights, activations, workers,
                        saturating_product<std::uint64_t>(row, block_rows));
}

std::uint64_t PassFootprint::streamed(std::size_t rows) const {
  return saturating_sum(streamed_weights, other_weights, activations, workers,
                        saturating_product<std::uint64_t>(row, std::max(rows, block_rows)));
}

std::size_t PassFootprint::streamed_rows(std::uint64_t bytes) const {
  const std::uint64_t least = streamed(block_rows);
  if (bytes < least) return 0;
  return block_rows + static_cast<std::size_t>((bytes - least) / std::max<std::uint64_t>(row, 1));
}

PassFootprint pass_footprint(const model::Model& model, const input::Batch& batch, const Selection& selection,
                             const Needs& needs, const PassShape& shape) {
  const model::ModelConfig& config = model.config();
  const PassPlan plan = make_plan(model.name(), config, selection, needs);
  const std::vector<Block> blocks = cut_into_blocks(batch, shape.packed_rows);
  PassFootprint made;
  if (plan.layers.empty()) return made;
  require_targets(config, batch, plan.layers.size() - 1);
  made.row = saturating_sum(floats(1, carried_floats(config)), sizeof(BlockSequence));
  std::size_t longest = 0;
  std::uint64_t panel = 0;
  for (const Block& inputs : blocks) {
    made.block_rows = std::max(made.block_rows, inputs.rows);
    for (std::size_t i = 0; i < plan.layers.size(); ++i) {
      const model::LayerConfig& layer = config.layers[i];
      const Block block =
          needs_target(layer.component) ? in_component(inputs, layer.component, batch) : inputs;
      made.block_rows = std::max({made.block_rows, block.rows, block.key_rows});
      made.activations = std::max(made.activations, layer_bytes(config, layer, plan.layers[i], block));
      panel = std::max(panel, head_bytes(layer.attention, plan.layers[i], block, shape.panel_rows));
      for (const BlockSequence& place : block.sequences)
        longest = std::max({longest, place.queries, place.keys});
    }
  }
  if (plan.logits) made.activations = saturating_sum(made.activations, logits_bytes(config, made.block_rows));
  made.activations = saturating_sum(
      made.activations, rotary_bytes(config, longest),
      config.embedding.projection.weight ? floats(made.block_rows, embedding_width(config)) : 0);
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    made.streamed_weights = std::max(made.streamed_weights, model.layer_bytes(i));
    if (model.shared_with(i) == i)
      made.resident_weights = saturating_sum(made.resident_weights, model.layer_bytes(i));
  }
  const std::uint64_t packed = std::min(kMostPacked, saturating_sum(made.streamed_weights, made.activations));
  made.workers =
      saturating_product<std::uint64_t>(shape.threads, saturating_sum(panel, packed, kThreadBytes));
  made.other_weights =
      saturating_sum(model.embedding_bytes(looked_up(blocks, batch)), plan.logits ? model.head_bytes() : 0);
  return made;
}

}  // namespace attnctl::forward
