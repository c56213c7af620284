#include <algorithm>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "forward/attention/attention.hpp"
#include "forward/layers/layers.hpp"
#include "forward/run.hpp"

// Functions that check a batch, divide it into Blocks, and plan a forward pass and its memory.
namespace attnctl::forward {
namespace {

/// Checks one sequence. `name` is the beginning of error messages.
struct SequenceCheck {
  const model::ModelConfig& config;
  const model::EmbeddingConfig& embedding;
  const input::Sequence& sequence;
  std::string name;

  void run() const {
    const std::size_t n = sequence.queries();
    if (n == 0) refuse(" is empty; it needs at least one token");
    if (config.max_positions && n > *config.max_positions) {
      const bool can_truncate = !sequence.ids.empty() && &embedding == &config.embedding;  // not a target
      refuse(" has {}; the model takes at most {}{}", counted(n, "token"),
             counted(*config.max_positions, "position"),
             can_truncate ? "; --truncate cuts longer inputs" : "");
    }
    // In an encoder-decoder model it is undefined to which attention separate keys and score masks belong.
    const bool separate = sequence.key_embeddings.rows() > 0 || sequence.value_embeddings.rows() > 0;
    if (config.decoder && (separate || sequence.mask || sequence.causal)) {
      refuse(
          ": encoder-decoder models do not support {}; to hide tokens of the input, use a key mask "
          "(--key-mask)",
          separate ? "separate keys and values" : "score masks (--mask)");
    }
    check_tokens();
    check_keys();
    const std::size_t visible = sequence.key_visible.size();
    if (visible != 0 && visible != sequence.keys())
      refuse(" has a key mask of {} for {}", counted(visible, "entry", "entries"),
             counted(sequence.keys(), "key"));
    check_score_mask();
  }

  /// Throws Error(bad_input). The message begins with the name of the sequence.
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(Status::bad_input, "{}{}", name, fmt::format(format, std::forward<Args>(args)...));
  }

  void check_tokens() const {
    const PatchGrid& grid = config.embedding.pixels;
    const std::vector<std::int64_t>& types = sequence.token_type_ids;
    if (sequence.patches.rows() > 0) {
      if (!grid.present()) refuse(" is an image, but the model reads no images");
      check_width("patches", sequence.patches, grid.patch_size());
      if (sequence.patches.rows() != grid.patches())
        refuse(" has {} patches; the model needs {}", sequence.patches.rows(), grid.patches());
    } else if (sequence.ids.empty()) {
      check_width("embeddings", sequence.embeddings, config.embedding.width);
    } else {
      if (grid.present()) refuse(": the model reads images, not tokens; use --pixels");
      if (embedding.vocabulary == 0) refuse(": the model has no token embedding; use --embeddings");
      check_range("token id", sequence.ids, embedding.vocabulary);
    }
    if (!types.empty() && types.size() != sequence.queries())
      refuse(" has {} for {}", counted(types.size(), "token type"), counted(sequence.queries(), "token"));
    check_range("token type", types, std::max<std::size_t>(embedding.token_types, 1));
  }

  void check_range(const char* what, const std::vector<std::int64_t>& values, std::size_t count) const {
    for (std::size_t p = 0; p < values.size(); ++p) {
      if (values[p] >= 0 && std::cmp_less(values[p], count)) continue;
      refuse(": {0} {1} at position {2} is out of range; the model has {0}s 0 to {3}", what, values[p], p,
             count - 1);
    }
  }

  void check_width(const char* what, const OwnedMatrix<float>& given, std::size_t width) const {
    if (given.cols() != width) refuse(" has {} of width {}; the model needs {}", what, given.cols(), width);
  }

  /// Checks separate keys and values, or that the model does not need them. Without separate keys, the keys
  /// are computed from the same embeddings as the queries. Without separate values, the values are computed
  /// from the same embeddings as the keys.
  void check_keys() const {
    const OwnedMatrix<float>& values = sequence.value_embeddings;
    if (sequence.key_embeddings.rows() > 0) {
      check_width("keys", sequence.key_embeddings, config.d_key_input);
    } else if (config.d_key_input != config.d_model) {
      refuse(
          ": the model needs inputs of width {} for keys and {} for queries; attnctl analyze reads those for "
          "keys from --keys",
          config.d_key_input, config.d_model);
    }
    const bool has_values = std::ranges::any_of(
        config.layers, [](const model::LayerConfig& layer) { return layer.attention.value.weight; });
    if (values.rows() > 0) {
      check_width("values", values, config.d_value_input);
      if (values.rows() != sequence.keys())
        refuse(" has {} for {}", counted(values.rows(), "value"), counted(sequence.keys(), "key"));
    } else if (has_values && config.d_value_input != config.d_key_input) {
      refuse(
          ": the model needs inputs of width {} for values and {} for keys; attnctl analyze reads those for "
          "values from --values",
          config.d_value_input, config.d_key_input);
    }
  }

  void check_score_mask() const {
    if (!sequence.mask) return;
    const input::ScoreMask& mask = *sequence.mask;
    if (mask.queries != sequence.queries() || mask.keys != sequence.keys()) {
      refuse(" has a mask of shape [{}, {}] for {} and {}", mask.queries, mask.keys,
             counted(sequence.queries(), "query", "queries"), counted(sequence.keys(), "key"));
    }
    for (std::size_t i = 0; i < config.layers.size(); ++i) {
      const model::LayerConfig& layer = config.layers[i];
      if (layer.attention.kind.rule == model::AttentionKind::Rule::linear) {
        refuse(
            ": linear attention has no scores, so it does not support a score mask; use --mask causal, "
            "--mask none or --key-mask");
      }
      if (mask.heads != 1 && mask.heads != layer.attention.heads)
        refuse(" has a mask for {}; layer {} has {}", counted(mask.heads, "head"), i, layer.attention.heads);
    }
    if (mask.added.size() != mask.heads * mask.queries * mask.keys) {
      refuse(" has a mask of {} values for the shape [{}, {}, {}]", mask.added.size(), mask.heads,
             mask.queries, mask.keys);
    }
  }
};

/// Throws Error(bad_input) unless the layer has an attention output that can be added to the residual stream.
void check_onward(std::string_view model, const model::ModelConfig& config, std::size_t layer) {
  if (!config.layers[layer].attention.value.weight) {
    fail(Status::bad_input,
         "{}: layer {} has no values (W_v), so later layers, logits and its routing cannot be computed; "
         "select no later layers, and leave logits and routing out of --include",
         escaped(model), model::layer_name(config, layer));
  }
  if (config.d_output != config.d_model) {
    fail(Status::bad_input,
         "{}: the attention output of layer {} has width {}, but the model has width {}, so later layers, "
         "logits and its routing cannot be computed; select no later layers, and leave logits and routing "
         "out of --include",
         escaped(model), model::layer_name(config, layer), config.d_output, config.d_model);
  }
}

void append(Block& block, std::size_t index, const Sides& sides) {
  block.sequences.push_back({index, block.rows, sides.queries(), block.key_rows, sides.keys()});
  block.rows += sides.queries();
  block.key_rows += sides.keys();
}

/// Largest number of bytes that is assumed for the packed operands of a BLAS per thread.
constexpr std::uint64_t kMostPacked = std::uint64_t{12} << 20U;
/// Estimate of the bytes of a thread's stack and small allocations.
constexpr std::uint64_t kThreadBytes = std::uint64_t{2} << 20U;

std::uint64_t floats(std::uint64_t rows, std::uint64_t cols) {
  return saturating_product(saturating_product(rows, cols), sizeof(float));
}

/// Returns the bytes of the buffers of the MLP or the experts, and of all routes if `routing` is true.
std::uint64_t mlp_bytes(const model::LayerConfig& layer, std::size_t d_model, std::uint64_t all_rows,
                        bool routing) {
  const model::ExpertsConfig& experts = layer.experts;
  const std::size_t width = std::max(layer.mlp.width, experts.shared_width);
  if (width == 0) return 0;
  const std::uint64_t rows = std::min<std::uint64_t>(all_rows, kMlpRows);
  const std::uint64_t bytes = floats(rows, 2 * d_model + 2 * width);
  if (experts.count == 0) return bytes;
  constexpr std::uint64_t kRoute = 64;
  const std::uint64_t routes = saturating_product<std::uint64_t>(
      routing ? all_rows : rows, sizeof(ExpertRoute) + experts.per_token * kRoute);
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
  return plan.onward ? saturating_sum(bytes, mlp_bytes(layer, config.d_model, block.rows, plan.routing))
                     : bytes;
}

/// Largest panel width of a PackedMatrix, which rounds its columns up to a multiple of its panel width.
constexpr std::uint64_t kLanes = 64;

/// Returns the bytes that one worker needs for one head: panels, packed keys and values, position terms, ...
std::uint64_t head_bytes(const model::AttentionConfig& attention, const LayerPlan& plan, const Block& block,
                         std::size_t panel_rows) {
  std::uint64_t largest = 0;
  for (const BlockSequence& place : block.sequences) {
    const std::size_t rows = std::min(place.queries, rows_of_panel(panel_rows, place.keys));
    const std::size_t panels = plan.scores ? 4 : 3;  // includes two that observers may allocate
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
  tables.erase(nullptr);
  std::uint64_t bytes = 0;
  for (const auto* const table : tables) bytes = saturating_sum(bytes, floats(longest, table->dims));
  return bytes;
}

/// Returns the number of tokens, of inputs and targets together, in the Block that has the most tokens.
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

/// Returns the number of floats per row in the buffers that are separate for each Block: the residual stream,
/// the output of the encoder, and the buffers of convolutions.
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

Needs ObserverGroup::needs() const {
  Needs needs{.patterns = false};
  for (const Observer* const observer : observers_) needs |= observer->needs();
  return needs;
}

std::uint64_t ObserverGroup::memory(const model::Model& model, const input::Batch& batch) const {
  std::uint64_t bytes = 0;
  for (const Observer* const observer : observers_)
    bytes = saturating_sum(bytes, observer->memory(model, batch));
  return bytes;
}

Selection Selection::all(const model::ModelConfig& config) {
  Selection selection;
  for (std::size_t layer = 0; layer < config.layers.size(); ++layer) {
    for (std::size_t head = 0; head < config.layers[layer].attention.heads; ++head)
      selection.heads.push_back({layer, head});
  }
  return selection;
}

std::vector<std::size_t> Selection::layers() const {
  std::set<std::size_t> found;
  for (const model::HeadId& id : heads) found.insert(id.layer);
  return {found.begin(), found.end()};
}

Sides sides_of(model::Component component, const input::Sequence& sequence) {
  if (!needs_target(component)) return {sequence, sequence};
  if (sequence.target == nullptr) throw std::logic_error("a decoder layer needs an input with a target");
  return {*sequence.target, component == model::Component::cross ? sequence : *sequence.target};
}

void check_batch(const model::Model& model, const input::Batch& batch) {
  const model::ModelConfig& config = model.config();
  const auto is_impossible = [](const model::AttentionConfig& attention) {
    return attention.kind.rule == model::AttentionKind::Rule::linear &&
           (attention.relative_buckets || attention.disentangled || attention.alibi);
  };
  if (std::ranges::any_of(config.layers, is_impossible, &model::LayerConfig::attention)) {
    fail(Status::bad_input,
         "{}: linear attention does not support relative positions that are added to scores (ALiBi, T5 "
         "buckets, DeBERTa)",
         escaped(model.name()));
  }
  for (const input::Sequence& sequence : batch.sequences) {
    const std::string name = fmt::format("input {}", escaped(sequence.id));
    SequenceCheck{config, config.embedding, sequence, name}.run();
    if (sequence.target == nullptr) continue;
    if (!config.decoder)
      fail(Status::bad_input,
           "{} has a target, but the model is not an encoder-decoder model; remove the target", name);
    SequenceCheck{config, config.decoder->embedding, *sequence.target, "the target of " + name}.run();
  }
}

void require_targets(const model::ModelConfig& config, const input::Batch& batch, std::size_t layer) {
  if (!needs_target(config.layers.at(layer).component)) return;
  for (const input::Sequence& sequence : batch.sequences) {
    if (sequence.target != nullptr) continue;
    fail(Status::bad_input,
         "input {} has no target, which layer {} of the decoder needs; give a target for each input "
         "(--target-text or --target-ids), or select only heads of the encoder, without logits",
         escaped(sequence.id), model::layer_name(config, layer));
  }
}

PassPlan make_plan(std::string_view model, const model::ModelConfig& config, const Selection& selection,
                   const Needs& needs) {
  PassPlan plan;
  plan.logits = needs.logits && config.head.present;
  std::size_t count = plan.logits ? config.layers.size() : 0;
  for (const model::HeadId& id : selection.heads) count = std::max(count, id.layer + 1);

  const std::vector<std::size_t> selected = selection.layers();
  for (std::size_t layer = 0; layer < count; ++layer) {
    const model::AttentionConfig& attention = config.layers[layer].attention;
    const bool is_selected = std::binary_search(selected.begin(), selected.end(), layer);
    const bool has_values = attention.value.weight;
    const bool ends = needs.end && has_values && config.d_output == config.d_model;
    LayerPlan& made = plan.layers.emplace_back();
    made.routing = is_selected && needs.routing && config.layers[layer].experts.count > 0;
    made.onward = layer + 1 < count || plan.logits || made.routing || ends;
    if (made.onward) check_onward(model, config, layer);
    made.patterns = is_selected && needs.patterns;
    made.scores = is_selected && needs.scores;
    made.shows_output = is_selected && needs.output && has_values;
    made.shows_stream = is_selected && needs.stream;
    made.output = made.onward || made.shows_output;
    made.z = made.output || (is_selected && needs.z && has_values);
    made.values = made.z || (is_selected && needs.values && has_values);
    made.shown.assign(attention.heads, 0);
    made.computed.assign(attention.heads, made.output ? 1 : 0);
  }
  for (const model::HeadId& id : selection.heads) {
    plan.layers[id.layer].shown.at(id.head) = 1;
    plan.layers[id.layer].computed.at(id.head) = 1;
  }
  return plan;
}

std::vector<Block> cut_into_blocks(const input::Batch& batch, std::size_t packed_rows,
                                   std::span<const std::size_t> starts) {
  std::vector<Block> blocks;
  std::size_t room = 0;  // number of rows that may be added to the last block
  for (std::size_t i = 0; i < batch.sequences.size(); ++i) {
    const input::Sequence& sequence = batch.sequences[i];
    const bool separate_keys = sequence.key_embeddings.rows() > 0 || sequence.value_embeddings.rows() > 0;
    const std::size_t rows =
        std::max(sequence.queries(), sequence.target ? sequence.target->queries() : std::size_t{0});
    if (blocks.empty() || separate_keys || rows > room || std::ranges::binary_search(starts, i)) {
      blocks.emplace_back();
      room = std::max(packed_rows, rows);
    }
    append(blocks.back(), i, {sequence, sequence});
    room = separate_keys ? 0 : room - rows;
  }
  return blocks;
}

Block in_component(const Block& block, model::Component component, const input::Batch& batch) {
  Block same;
  same.component = component;
  for (const BlockSequence& place : block.sequences)
    append(same, place.index, sides_of(component, batch.sequences[place.index]));
  return same;
}

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
                             const Needs& needs, std::size_t threads, std::size_t panel_rows,
                             std::size_t packed_rows) {
  const model::ModelConfig& config = model.config();
  const PassPlan plan = make_plan(model.name(), config, selection, needs);
  const std::vector<Block> blocks = cut_into_blocks(batch, packed_rows);
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
      panel = std::max(panel, head_bytes(layer.attention, plan.layers[i], block, panel_rows));
      for (const BlockSequence& place : block.sequences)
        longest = std::max({longest, place.queries, place.keys});
    }
  }
  if (plan.logits) {
    const std::size_t vocabulary = std::max<std::size_t>(config.output_embedding().vocabulary, 1);
    const std::size_t rows = std::min(made.block_rows, logits_rows(vocabulary));
    made.activations = saturating_sum(made.activations, floats(rows, vocabulary + 3 * config.d_model));
  }
  made.activations = saturating_sum(
      made.activations, rotary_bytes(config, longest),
      config.embedding.projection.weight ? floats(made.block_rows, config.embedding.width) : 0);
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    made.streamed_weights = std::max(made.streamed_weights, model.layer_bytes(i, model::WeightForm::stored));
    if (model.shared_with(i) == i)
      made.resident_weights =
          saturating_sum(made.resident_weights, model.layer_bytes(i, model::WeightForm::stored));
  }
  const std::uint64_t packed = std::min(kMostPacked, saturating_sum(made.streamed_weights, made.activations));
  made.workers = saturating_product<std::uint64_t>(threads, saturating_sum(panel, packed, kThreadBytes));
  made.other_weights = saturating_sum(model.embedding_bytes(looked_up(blocks, batch)),
                                      plan.logits ? model.head_bytes(model::WeightForm::stored) : 0);
  return made;
}

}  // namespace attnctl::forward
