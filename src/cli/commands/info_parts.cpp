#include "cli/commands/info_parts.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "analysis/head_axes.hpp"
#include "checkpoint/source.hpp"
#include "model/accounting/accounting.hpp"

namespace attnctl::cli {
namespace {

Value count(std::uint64_t number) {
  return static_cast<std::size_t>(number);
}

Cell cell(std::uint64_t number) {
  return static_cast<std::int64_t>(number);
}

Record parameters_record(const InfoSubject& subject, const ParameterCount& parameters) {
  Record record;
  record.set("all", count(parameters.all)).set("attention", count(parameters.attention));
  const std::size_t layers = subject.config.layers.size();
  if (subject.preset != nullptr && subject.preset->attentions != layers) {
    record.set("attention_of_both_stacks", count(parameters.attention / layers * subject.preset->attentions));
  }
  record.set("mlp", count(parameters.mlp))
      .set("norms", count(parameters.norms))
      .set("embedding", count(parameters.embedding))
      .set("head", count(parameters.head));
  return record;
}

Record flops_record(const FlopCount& flops) {
  Record record;
  record.set("all", count(flops.all))
      .set("projections", count(flops.projections))
      .set("scores", count(flops.scores))
      .set("values", count(flops.values))
      .set("output", count(flops.output))
      .set("mlp", count(flops.mlp))
      .set("embedding", count(flops.embedding))
      .set("head", count(flops.head));
  return record;
}

Record memory_record(const ModelConfig& config, std::size_t length) {
  const PatternMemory patterns = count_pattern_memory(config, length);
  Record record;
  record.set("patterns", count(patterns.all))
      .set("patterns_of_a_layer", count(patterns.layer))
      .set("key_value_cache_per_token", count(count_cache_bytes(config)));
  return record;
}

/// Returns the index of the earlier layer that shares its weights with this layer; an empty cell if there is
/// none.
Cell shared_with(const ModelConfig& config, std::size_t layer) {
  const auto first = std::ranges::find(config.layers, config.layers[layer].stored(), &LayerConfig::stored);
  const auto index = static_cast<std::size_t>(first - config.layers.begin());
  return index == layer ? Cell() : cell(index);
}

Table layers_table(const ModelConfig& config, const ParameterCount& parameters) {
  std::vector<std::vector<Cell>> rows;
  for (std::size_t i = 0; i < parameters.layers.size(); ++i) {
    const ParameterCount::Layer& layer = parameters.layers[i];
    std::vector<Cell>& row = rows.emplace_back();
    if (config.decoder) row.push_back(component_cell(config, i));
    row.insert(row.end(), {cell(std::uint64_t{config.layers[i].number}), cell(layer.query), cell(layer.key),
                           cell(layer.value), cell(layer.output), cell(layer.attention), cell(layer.all),
                           shared_with(config, i)});
  }
  std::vector<std::string> columns = {"layer",  "query",     "key", "value",
                                      "output", "attention", "all", "shared_with"};
  if (config.decoder) columns.insert(columns.begin(), "component");
  return make_table("layers", std::move(columns), std::move(rows));
}

Table tensors_table(const Checkpoint& weights) {
  std::vector<std::vector<Cell>> rows;
  for (const TensorInfo& tensor : weights.tensors()) {
    rows.push_back({tensor.name, std::string(name_of(tensor.dtype)), attnctl::to_string(tensor.shape),
                    std::string(tensor.file)});
  }
  return make_table("tensors", {"name", "dtype", "shape", "file"}, std::move(rows));
}

}  // namespace

std::vector<InfoPart> info_parts(const InfoSubject& subject, const InfoAsked& asked) {
  const ModelConfig& config = subject.config;
  const Model* model = subject.model();
  const ParameterCount parameters = count_parameters(config);
  std::vector<InfoPart> parts;
  parts.push_back({"model", "Model", subject_record(subject)});
  parts.push_back({"architecture", "Architecture", architecture_record(subject)});
  parts.push_back({"parameters", "Parameters", parameters_record(subject, parameters), "", "parameters"});
  if (model != nullptr)
    parts.push_back({"stored", "Values in the checkpoint", stored_record(*model), "", "values"});
  parts.push_back({"flops",
                   fmt::format("FLOPs of one sequence of {} tokens (a multiply-add is 2)", asked.length),
                   flops_record(count_flops(config, asked.length)), "", "FLOPs"});
  parts.push_back({"memory_bytes", fmt::format("Memory at {} tokens, float32", asked.length),
                   memory_record(config, asked.length), "", "bytes"});
  parts.push_back(
      {"comparison",
       fmt::format("Attention of a layer as one head, several, or with shared keys and values, {} "
                   "tokens",
                   asked.length),
       compare_attention(config, asked.length), "variant"});
  parts.push_back({"layers", "Parameters of each layer", layers_table(config, parameters), "layer"});
  Table sharing = sharing_table(config, model);
  if (sharing.rows > 0) parts.push_back({"sharing", "Shared and factorised", std::move(sharing), "shared"});
  if (model != nullptr) {
    Table apart = tensors_apart(*model);
    if (apart.rows > 0)
      parts.push_back({"apart", "Tensors that are no parameters of the model", std::move(apart), "apart"});
  }
  if (asked.shapes) {
    parts.push_back({"shapes", fmt::format("Shapes, batch {}, {} tokens", asked.batch, asked.length),
                     shape_walk(config, asked.batch, asked.length), "shape"});
  }
  if (asked.tensors && model != nullptr)
    parts.push_back({"tensors", "Tensors", tensors_table(*model->source().weights), "tensor"});
  return parts;
}

}  // namespace attnctl::cli
