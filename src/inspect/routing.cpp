#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "analysis/patterns/routing.hpp"
#include "base/error.hpp"
#include "inspect/catalogue.hpp"

namespace attnctl::cli {
namespace {

class RoutingPart final : public AnalysisPart {
 public:
  explicit RoutingPart(const PartInput& input) : input_(input) {}

  std::vector<Observer*> observers() override { return {&routing_}; }
  std::uint64_t values() const override;
  Results finish() override;

 private:
  [[nodiscard]] Table table(std::span<const LayerRouting> layers) const;
  [[nodiscard]] TextTable summary(std::span<const LayerRouting> layers) const;
  void add_arrays(std::span<const LayerRouting> of_input, Results& results) const;

  PartInput input_;
  Routing routing_;
};

std::uint64_t RoutingPart::values() const {
  const auto& layers = input_.open.model.config().layers;
  std::uint64_t per_token = 0;
  for (const std::size_t layer : input_.selection.layers()) per_token += layers[layer].experts.per_token;
  std::uint64_t count = 0;
  for (const Sequence& sequence : input_.batch.sequences) count += 2 * per_token * sequence.queries();
  return count;
}

/// Returns one row per layer, position and expert, in the order of the expert weights.
Table RoutingPart::table(std::span<const LayerRouting> layers) const {
  std::vector<std::vector<Cell>> rows;
  for (const LayerRouting& layer : layers) {
    const Sequence& sequence = input_.shown.sequences[layer.input];
    for (std::size_t i = 0; i < layer.tokens.size(); ++i) {
      const ExpertRoute& route = layer.tokens[i];
      for (std::size_t place = 0; place < route.experts.size(); ++place) {
        rows.push_back(
            {sequence.id, Cell(), static_cast<std::int64_t>(layer.layer), static_cast<std::int64_t>(i),
             i < sequence.tokens.size() ? Cell(sequence.tokens[i]) : Cell(), static_cast<std::int64_t>(place),
             static_cast<std::int64_t>(route.experts[place]), route.weights[place]});
      }
    }
  }
  return make_table("routing",
                    {"input", "component", "layer", "position", "token", "place", "expert", "weight"},
                    std::move(rows));
}

/// Returns the number of tokens per expert, over all inputs.
TextTable RoutingPart::summary(std::span<const LayerRouting> layers) const {
  struct Load {
    std::size_t tokens = 0;
    double weight = 0;
  };
  std::map<std::size_t, std::vector<Load>> loads;  // [layer]
  std::map<std::size_t, std::size_t> totals;
  for (const LayerRouting& layer : layers) {
    std::vector<Load>& of_layer = loads[layer.layer];
    of_layer.resize(input_.open.model.config().layers[layer.layer].experts.count);
    totals[layer.layer] += layer.tokens.size();
    for (const ExpertRoute& route : layer.tokens) {
      for (std::size_t place = 0; place < route.experts.size(); ++place) {
        Load& load = of_layer[route.experts[place]];
        ++load.tokens;
        load.weight += double{route.weights[place]};
      }
    }
  }
  std::vector<std::vector<Cell>> rows;
  for (const auto& [layer, of_layer] : loads) {
    for (std::size_t expert = 0; expert < of_layer.size(); ++expert) {
      const Load& load = of_layer[expert];
      const auto tokens = static_cast<double>(load.tokens);
      rows.push_back({static_cast<std::int64_t>(layer), static_cast<std::int64_t>(expert),
                      static_cast<std::int64_t>(load.tokens),
                      static_cast<float>(tokens / static_cast<double>(totals[layer])),
                      load.tokens == 0 ? Cell() : Cell(static_cast<float>(load.weight / tokens))});
    }
  }
  return {"Experts: the tokens that go through each, and its mean weight in them",
          make_table("", {"layer", "expert", "tokens", "share", "weight"}, std::move(rows)), 3};
}

/// Adds the arrays of one input from its layers.
void RoutingPart::add_arrays(std::span<const LayerRouting> of_input, Results& results) const {
  const std::size_t count = of_input.front().tokens.size();
  const std::size_t per_token = of_input.front().tokens.front().experts.size();
  std::vector<std::int64_t> experts;
  std::vector<float> weights;
  for (const LayerRouting& layer : of_input) {
    for (const ExpertRoute& route : layer.tokens) {
      for (const std::size_t expert : route.experts) experts.push_back(static_cast<std::int64_t>(expert));
      weights.insert(weights.end(), route.weights.begin(), route.weights.end());
    }
  }
  const Shape shape = {of_input.size(), count, per_token};
  const std::size_t input = of_input.front().input;
  results.arrays.push_back({fmt::format("routing_{}", input), make_array(shape, std::move(experts))});
  results.arrays.push_back({fmt::format("routing_weight_{}", input), make_array(shape, std::move(weights))});
}

Results RoutingPart::finish() {
  const std::vector<LayerRouting> layers = routing_.finish();
  Results results;
  const Table all = table(layers);
  results.document.sections.push_back({"routing", "routing", all});
  results.tables.push_back(all);
  results.text.push_back(summary(layers));
  std::vector<std::int64_t> with_experts;
  for (auto first = layers.begin(); first != layers.end();) {
    const auto last =
        std::find_if(first, layers.end(), [&](const LayerRouting& one) { return one.input != first->input; });
    if (first == layers.begin()) {
      for (auto one = first; one != last; ++one)
        with_experts.push_back(static_cast<std::int64_t>(one->layer));
    }
    add_arrays({first, last}, results);
    first = last;
  }
  const Shape shape = {with_experts.size()};
  results.arrays.push_back({"routing_layers", make_array(shape, std::move(with_experts))});
  return results;
}

}  // namespace

std::unique_ptr<AnalysisPart> make_routing(const PartInput& input) {
  const auto& layers = input.open.model.config().layers;
  const auto selected = input.selection.layers();
  if (std::ranges::none_of(selected, [&](std::size_t i) { return layers[i].experts.count > 0; })) {
    fail(Status::bad_input,
         "{}: no selected layer has experts, so nothing is routed; leave routing out of "
         "--include",
         escaped(input.open.model.name()));
  }
  return std::make_unique<RoutingPart>(input);
}

}  // namespace attnctl::cli
