#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "analysis/head_axes.hpp"
#include "analysis/mixing/contributions.hpp"
#include "base/error.hpp"
#include "forward/run.hpp"
#include "inspect/catalogue.hpp"
#include "inspect/describe.hpp"

// Analyses with one result per layer and position: mixing ratios, and the experts that process each token.
namespace attnctl::inspect {
namespace {

Table table(const AnalysisInput& input, const std::vector<analysis::LayerMixing>& layers) {
  TableRows rows{"mixing", columns_of(kMixingColumns, {"input", "component", "layer", "position", "token",
                                                       "mix", "keep", "ratio"})};
  for (const analysis::LayerMixing& layer : layers) {
    const input::Sequence& sequence = input.shown.sequences[layer.input];
    for (std::size_t i = 0; i < layer.positions.size(); ++i) {
      const analysis::PositionMixing& at = layer.positions[i];
      rows.add(sequence.id, Cell(), layer.layer, i, token_cell(sequence.tokens, i), at.mix, at.keep,
               at.ratio());
    }
  }
  return rows.table();
}

TextTable summary(const AnalysisInput& input, const std::vector<analysis::LayerMixing>& layers) {
  TableRows rows{"", {"input", "layer", "mean", "smallest", "largest"}};
  for (const analysis::LayerMixing& layer : layers) {
    std::vector<double> ratios;
    for (const analysis::PositionMixing& at : layer.positions) {
      if (const auto ratio = at.ratio()) ratios.push_back(*ratio);
    }
    std::vector<Cell>& row = rows.add(input.shown.sequences[layer.input].id, layer.layer);
    if (!ratios.empty()) {
      const double mean =
          std::accumulate(ratios.begin(), ratios.end(), 0.0) / static_cast<double>(ratios.size());
      const auto [least, most] = std::ranges::minmax(ratios);
      const bool finite = std::isfinite(mean);
      add_cells(row, std::array{mean, finite ? least : mean, finite ? most : mean});
    }
    row.resize(5);
  }
  return {"Mixing ratio over positions (0: all is kept, 1: all comes from other positions)", rows.table(), 3};
}

Heatmap heatmap(const AnalysisInput& input, std::span<const analysis::LayerMixing> layers,
                const Tensor& ratios) {
  const input::Sequence& sequence = input.shown.sequences[layers.front().input];
  const auto number = [](const analysis::LayerMixing& layer) { return std::to_string(layer.layer); };
  return {"Input " + sequence.id,   "Token", "Layer", token_labels(input, sequence),
          texts_of(layers, number), ratios};
}

class MixingAnalysis final : public Analysis {
 public:
  explicit MixingAnalysis(const AnalysisInput& input) : Analysis(input), mixing_(input.selection) {}

  std::vector<forward::Observer*> observers() override { return {&mixing_}; }
  HeadsSeen heads_seen() const override { return HeadsSeen::of_selected_layers; }

  std::uint64_t values() const override {
    constexpr std::uint64_t kColumns = 8;
    const std::uint64_t layers = input_.selection.layers().size();
    std::uint64_t count = 0;
    for (const input::Sequence& sequence : input_.batch.sequences)
      count += kColumns * layers * sequence.queries();
    return count;
  }

  Results finish() override {
    const std::vector<analysis::LayerMixing> layers = mixing_.finish();
    Results results;
    const Table all = table(input_, layers);
    results.add_table("mixing", all);
    results.text.emplace_back(summary(input_, layers));
    HeatmapPage page{"Mixing Ratio", {false, 0, 1, "From other positions"}, 1, {}};
    std::size_t row = 0;
    analysis::for_each_group(
        layers, &analysis::LayerMixing::input, [&](std::span<const analysis::LayerMixing> of_input) {
          const analysis::LayerMixing& first = of_input.front();
          const Tensor array = column_array(all, "ratio", {of_input.size(), first.positions.size()}, row);
          row += array.size();
          results.arrays.push_back({fmt::format("mixing_{}", first.input), array});
          page.heatmaps.push_back(heatmap(input_, of_input, array));
        });
    if (!page.heatmaps.empty()) results.pictures.push_back({"mixing", std::move(page)});
    return results;
  }

 private:
  analysis::Mixing mixing_;
};

struct LayerRouting {
  std::size_t input = 0;  // index in the batch
  std::size_t layer = 0;
  std::vector<forward::ExpertRoute> tokens;  // [n]: experts of each token
};

Table table(const AnalysisInput& input, const std::vector<LayerRouting>& layers) {
  TableRows rows{"routing", columns_of(kRoutingColumns, {"input", "component", "layer", "position", "token",
                                                         "place", "expert", "weight"})};
  for (const LayerRouting& layer : layers) {
    const input::Sequence& sequence = input.shown.sequences[layer.input];
    for (std::size_t i = 0; i < layer.tokens.size(); ++i) {
      const forward::ExpertRoute& route = layer.tokens[i];
      for (std::size_t place = 0; place < route.experts.size(); ++place)
        rows.add(sequence.id, Cell(), layer.layer, i, token_cell(sequence.tokens, i), place,
                 route.experts[place], route.weights[place]);
    }
  }
  return rows.table();
}

/// Returns a table with one row per layer and expert. Tokens of all inputs are counted together.
TextTable summary(const AnalysisInput& input, const std::vector<LayerRouting>& layers) {
  struct Load {
    std::size_t tokens = 0;
    double weight = 0;
  };
  std::map<std::size_t, std::vector<Load>> loads;  // [layer]
  std::map<std::size_t, std::size_t> totals;
  for (const LayerRouting& layer : layers) {
    std::vector<Load>& of_layer = loads[layer.layer];
    of_layer.resize(input.config().layers[layer.layer].experts.count);
    totals[layer.layer] += layer.tokens.size();
    for (const forward::ExpertRoute& route : layer.tokens) {
      for (std::size_t place = 0; place < route.experts.size(); ++place) {
        Load& load = of_layer[route.experts[place]];
        ++load.tokens;
        load.weight += double{route.weights[place]};
      }
    }
  }
  TableRows rows{"", {"layer", "expert", "tokens", "share", "weight"}};
  for (const auto& [layer, of_layer] : loads) {
    for (std::size_t expert = 0; expert < of_layer.size(); ++expert) {
      const Load& load = of_layer[expert];
      const auto tokens = static_cast<double>(load.tokens);
      rows.add(layer, expert, load.tokens, tokens / static_cast<double>(totals[layer]),
               load.tokens == 0 ? Cell() : analysis::cell_of(load.weight / tokens));
    }
  }
  return {"Number of tokens that each expert processes, and its mean weight for them", rows.table(), 3};
}

/// Adds the arrays routing_I and routing_weight_I, [layers, n, experts per token], of one input I. `of_input`
/// has one item per layer with experts.
void add_routing_arrays(std::span<const LayerRouting> of_input, Results& results) {
  const auto& [input, first_layer, tokens] = of_input.front();
  std::vector<std::int64_t> experts;
  std::vector<float> weights;
  for (const LayerRouting& layer : of_input) {
    for (const forward::ExpertRoute& route : layer.tokens) {
      experts.insert(experts.end(), route.experts.begin(), route.experts.end());
      weights.insert(weights.end(), route.weights.begin(), route.weights.end());
    }
  }
  const Shape shape = {of_input.size(), tokens.size(), tokens.front().experts.size()};
  results.arrays.push_back({fmt::format("routing_{}", input), make_tensor(shape, std::move(experts))});
  results.arrays.push_back({fmt::format("routing_weight_{}", input), make_tensor(shape, std::move(weights))});
}

class RoutingAnalysis final : public Analysis, private forward::Observer {
 public:
  using Analysis::Analysis;

  std::vector<forward::Observer*> observers() override { return {this}; }

  std::uint64_t values() const override {
    constexpr std::uint64_t kColumns = 8;
    std::uint64_t per_token = 0;
    for (const std::size_t layer : input_.selection.layers())
      per_token += input_.config().layers[layer].experts.per_token;
    std::uint64_t count = 0;
    for (const input::Sequence& sequence : input_.batch.sequences)
      count += kColumns * per_token * sequence.queries();
    return count;
  }

  Results finish() override {
    std::ranges::sort(found_, {}, [](const LayerRouting& each) { return std::pair(each.input, each.layer); });
    Results results;
    results.add_table("routing", table(input_, found_));
    results.text.emplace_back(summary(input_, found_));
    std::vector<std::int64_t> with_experts;  // layers with experts; equal for all inputs
    analysis::for_each_group(found_, &LayerRouting::input, [&](std::span<const LayerRouting> of_input) {
      with_experts.clear();
      for (const LayerRouting& layer : of_input)
        with_experts.push_back(static_cast<std::int64_t>(layer.layer));
      add_routing_arrays(of_input, results);
    });
    results.arrays.push_back({"routing_layers", make_tensor({with_experts.size()}, with_experts)});
    return results;
  }

 private:
  [[nodiscard]] forward::Needs needs() const override { return {.patterns = false, .routing = true}; }
  [[nodiscard]] std::uint64_t memory(const model::Model& model, const input::Batch& batch) const override {
    std::uint64_t token = 0;
    for (const model::LayerConfig& layer : model.config().layers) {
      constexpr std::size_t kOfRoute = sizeof(std::size_t) + sizeof(float);
      constexpr std::size_t kOfMemory = 64;  // overhead of two small allocations, in bytes
      if (layer.experts.count > 0)
        token += sizeof(forward::ExpertRoute) + kOfMemory + layer.experts.per_token * kOfRoute;
    }
    std::uint64_t bytes = 0;
    for (const input::Sequence& sequence : batch.sequences) bytes += 2 * sequence.queries() * token;
    return bytes;
  }
  void begin(const model::Model& /*model*/, const input::Batch& /*batch*/) override { found_.clear(); }
  void panel(const forward::AttentionPanel& /*panel*/) override {}
  void routing(std::size_t sequence, std::size_t layer,
               std::span<const forward::ExpertRoute> routes) override {
    found_.push_back({sequence, layer, {routes.begin(), routes.end()}});
  }

  std::vector<LayerRouting> found_;
};

}  // namespace

constexpr std::array<Definition, 3> kMixingColumns = {
    {{"mix", "", "[0, inf)", "", "norm of mix_i: what the heads bring to position i from other positions"},
     {"keep", "", "[0, inf)", "", "norm of keep_i: residual stream, and what the heads bring from i itself"},
     {"ratio", "", "[0, 1]", "", "|mix_i| / (|mix_i| + |keep_i|)", "Kobayashi et al. 2021"}}};
constexpr std::array<Definition, 3> kRoutingColumns = {
    {{"place", "", "from 0", "", "place of the expert among those of the token, by descending router score"},
     {"expert", "", "from 0", "", "number of an expert that the token uses"},
     {"weight", "", "[0, 1]", "", "factor of the output of the expert in the sum over the experts"}}};

std::unique_ptr<Analysis> make_mixing(const AnalysisInput& input) {
  require_values(input, "mixing");
  return std::make_unique<MixingAnalysis>(input);
}

std::unique_ptr<Analysis> make_routing(const AnalysisInput& input) {
  const auto& layers = input.config().layers;
  const auto selected = input.selection.layers();
  if (std::ranges::none_of(selected, [&](std::size_t i) { return layers[i].experts.count > 0; })) {
    fail(Status::bad_input, "{}: no selected layer has experts; leave routing out of --include",
         escaped(input.model.name()));
  }
  return std::make_unique<RoutingAnalysis>(input);
}

}  // namespace attnctl::inspect
