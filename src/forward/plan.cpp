#include "forward/plan.hpp"

#include <algorithm>
#include <set>

#include "base/error.hpp"

namespace attnctl {

Needs& Needs::operator|=(const Needs& other) {
  patterns = patterns || other.patterns;
  scores = scores || other.scores;
  values = values || other.values;
  z = z || other.z;
  output = output || other.output;
  stream = stream || other.stream;
  routing = routing || other.routing;
  logits = logits || other.logits;
  end = end || other.end;
  return *this;
}

Selection Selection::all(const ModelConfig& config) {
  Selection selection;
  for (std::size_t layer = 0; layer < config.layers.size(); ++layer) {
    for (std::size_t head = 0; head < config.layers[layer].attention.heads; ++head) {
      selection.heads.push_back({layer, head});
    }
  }
  return selection;
}

std::vector<std::size_t> Selection::layers() const {
  std::set<std::size_t> found;
  for (const HeadId& id : heads) found.insert(id.layer);
  return {found.begin(), found.end()};
}

namespace forward {
namespace {

LayerPlan plan_layer(const AttentionConfig& attention, bool selected, bool onward, const Needs& needs) {
  LayerPlan plan;
  const bool has_values = attention.value.weight;
  plan.patterns = selected && needs.patterns;
  plan.scores = selected && needs.scores;
  plan.onward = onward;
  plan.shows_output = selected && needs.output && has_values;
  plan.shows_stream = selected && needs.stream;
  plan.output = onward || plan.shows_output;
  plan.z = plan.output || (selected && needs.z && has_values);
  plan.values = plan.z || (selected && needs.values && has_values);
  return plan;
}

/// Checks that a layer has the output that the next layer reads.
void check_onward(std::string_view model, const ModelConfig& config, std::size_t layer) {
  if (!config.layers[layer].attention.value.weight) {
    fail(Status::bad_input,
         "{}: layer {} has no values (W_v), so layer {} has no input; select layers up to {}", escaped(model),
         layer, layer + 1, layer);
  }
  if (config.d_output != config.d_model) {
    fail(Status::bad_input,
         "{}: the attention output of layer {} has width {}; the next layer needs {}, the width of the model",
         escaped(model), layer, config.d_output, config.d_model);
  }
}

}  // namespace

Plan make_plan(std::string_view model, const ModelConfig& config, const Selection& selection,
               const Needs& needs) {
  Plan plan;
  plan.logits = needs.logits && config.head.present;
  std::size_t count = plan.logits ? config.layers.size() : 0;
  for (const HeadId& id : selection.heads) count = std::max(count, id.layer + 1);

  const std::vector<std::size_t> selected = selection.layers();
  for (std::size_t layer = 0; layer < count; ++layer) {
    const AttentionConfig& attention = config.layers[layer].attention;
    const bool is_selected = std::binary_search(selected.begin(), selected.end(), layer);
    const bool routing = is_selected && needs.routing && config.layers[layer].experts.count > 0;
    const bool ends = needs.end && attention.value.weight && config.d_output == config.d_model;
    const bool onward = layer + 1 < count || plan.logits || routing || ends;
    if (onward) check_onward(model, config, layer);
    LayerPlan& layer_plan = plan.layers.emplace_back(plan_layer(attention, is_selected, onward, needs));
    layer_plan.routing = routing;
    layer_plan.shown.assign(attention.heads, 0);
    layer_plan.computed.assign(attention.heads, layer_plan.output ? 1 : 0);
  }
  for (const HeadId& id : selection.heads) {
    plan.layers[id.layer].shown.at(id.head) = 1;
    plan.layers[id.layer].computed.at(id.head) = 1;
  }
  return plan;
}

}  // namespace forward
}  // namespace attnctl
