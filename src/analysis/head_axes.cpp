#include "analysis/head_axes.hpp"

#include <map>
#include <string>
#include <utility>

namespace attnctl::analysis {

HeadAxes::HeadAxes(std::span<const model::HeadId> heads) : heads_(heads.begin(), heads.end()) {
  for (const model::HeadId head : heads_) {
    if (layers_.empty() || layers_.back() != head.layer) layers_.push_back(head.layer);
  }
  const std::size_t width = layers_.empty() ? 0 : heads_.size() / layers_.size();
  for (std::size_t i = 0; i < heads_.size(); ++i) {
    // The axes are [layers, width] only if every layer has the same head numbers as the first layer.
    const bool fits = width > 0 && width * layers_.size() == heads_.size() &&
                      heads_[i].layer == layers_[i / width] && heads_[i].head == heads_[i % width].head;
    regular_ = regular_ && fits;
  }
}

HeadAxes HeadAxes::of_kv_heads(std::span<const model::HeadId> heads, const model::ModelConfig& config) {
  std::vector<model::HeadId> read;
  for (const model::HeadId head : heads) read.push_back({head.layer, kv_head_of(config, head)});
  std::ranges::sort(read);  // the key/value heads of tied heads can be unordered
  read.erase(std::unique(read.begin(), read.end()), read.end());
  return HeadAxes(read);
}

Shape HeadAxes::shape(const Shape& rest) const {
  Shape shape{heads_.size()};
  if (regular_ && !layers_.empty()) shape = {layers_.size(), heads_.size() / layers_.size()};
  shape.insert(shape.end(), rest.begin(), rest.end());
  return shape;
}

Cell component_cell(const model::ModelConfig& config, const std::optional<std::size_t>& layer) {
  const model::Component component = layer ? config.layers.at(*layer).component : model::Component::none;
  return component == model::Component::none ? Cell() : Cell(std::string(name_of(component)));
}

std::array<Cell, 4> head_cells(const model::ModelConfig& config, model::HeadId head) {
  return {component_cell(config, head.layer), number_cell(config, head.layer), cell_of(head.head),
          model::head_name(config, head)};
}

std::array<Cell, 7> pair_cells(const model::ModelConfig& config, model::HeadId a, model::HeadId b) {
  const auto [component, layer_a, head_a, name_a] = head_cells(config, a);
  const auto [same, layer_b, head_b, name_b] = head_cells(config, b);
  return {component, layer_a, head_a, name_a, layer_b, head_b, name_b};
}

std::vector<ComponentHeads> split_by_component(const forward::Selection& selection,
                                               const model::ModelConfig& config) {
  std::map<model::Component, forward::Selection> heads;
  for (const model::HeadId head : selection.heads)
    heads[config.layers.at(head.layer).component].heads.push_back(head);
  std::vector<ComponentHeads> split;
  for (auto& [component, own] : heads) split.push_back({component, std::move(own)});
  return split;
}

}  // namespace attnctl::analysis
