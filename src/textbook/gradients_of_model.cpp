#include <algorithm>
#include <cmath>
#include <set>

#include "base/undefined.hpp"
#include "textbook/gradients.hpp"

namespace attnctl {
namespace {

Attribution attribution_of(std::span<const double> gradient, std::span<const double> value) {
  Attribution result;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    result.attribution += gradient[i] * value[i];
    result.gradient += gradient[i] * gradient[i];
  }
  result.gradient = std::sqrt(result.gradient);
  return result;
}

Cell text_or_nothing(const std::string& text) {
  return text.empty() ? Cell() : Cell(text);
}

void append_rows(const LogitAttribution& input, std::vector<std::vector<Cell>>& rows) {
  for (std::size_t j = 0; j < input.embeddings.size(); ++j) {
    const Attribution& each = input.embeddings[j];
    rows.push_back({input.input, Cell(), Cell(), static_cast<std::int64_t>(j),
                    text_or_nothing(j < input.tokens.size() ? input.tokens[j] : ""), each.attribution,
                    each.gradient});
  }
  for (const auto& [head, each] : input.heads) {
    rows.push_back({input.input, static_cast<std::int64_t>(head.layer), static_cast<std::int64_t>(head.head),
                    Cell(), Cell(), each.attribution, each.gradient});
  }
}

Record target_of(const LogitAttribution& input) {
  Record record;
  record.set("input", input.input)
      .set("position", input.position)
      .set("target", input.target)
      .set("target_token", text_or_nothing(input.target_text))
      .set("logit", input.logit);
  return record;
}

/// Draws the tokens of the first input as bars.
void draw_tokens(const LogitAttribution& input, ExperimentResult& result) {
  std::vector<std::vector<Cell>> bars;
  for (std::size_t j = 0; j < input.embeddings.size(); ++j) {
    const std::string label = j < input.tokens.size() ? input.tokens[j] : std::to_string(j);
    bars.push_back({label, input.embeddings[j].attribution});
  }
  result.drawn = make_table("tokens", {"token", "attribution"}, std::move(bars));
  result.charts = {{.title = "Input " + input.input + ": gradient x embedding",
                    .x = "token",
                    .y = {"attribution"},
                    .x_axis = "Token",
                    .y_axis = "Attribution",
                    .bars = true}};
}

/// Draws the heads of every input, with layers from top to bottom.
void draw_heads(std::span<const LogitAttribution> inputs, ExperimentResult& result) {
  std::set<std::size_t> layers;
  std::size_t heads = 0;
  double largest = 0;
  for (const LogitAttribution& input : inputs) {
    for (const auto& [head, each] : input.heads) {
      layers.insert(head.layer);
      heads = std::max(heads, head.head + 1);
      largest = std::max(largest, std::abs(each.attribution));
    }
  }
  NamedHeatmaps named{"heads", {}};
  named.page.title = "Attribution of a logit to heads";
  named.page.scale = {true, -largest, largest, "Gradient x z"};
  for (const LogitAttribution& input : inputs) {
    Heatmap& map = named.page.heatmaps.emplace_back();
    map.title = inputs.size() == 1 ? named.page.title : "Input " + input.input;
    map.x_axis = "Head";
    map.y_axis = "Layer";
    for (std::size_t h = 0; h < heads; ++h) map.x_labels.push_back(std::to_string(h));
    for (const std::size_t layer : layers) map.y_labels.push_back(std::to_string(layer));
    std::vector<double> values(layers.size() * heads, kUndefined);
    for (const auto& [head, each] : input.heads) {
      const auto row = static_cast<std::size_t>(std::distance(layers.begin(), layers.find(head.layer)));
      values[row * heads + head.head] = each.attribution;
    }
    map.values = make_array({layers.size(), heads}, std::move(values));
  }
  if (heads > 0) result.heatmaps.push_back(std::move(named));
}

}  // namespace

LogitAttribution attribute(const LogitGradient& gradient, std::span<const HeadId> heads) {
  LogitAttribution result;
  result.target = gradient.token;
  result.logit = gradient.logit;
  for (std::size_t j = 0; j < gradient.embedding.rows(); ++j) {
    result.embeddings.push_back(
        attribution_of(gradient.d_embedding.view().row(j), gradient.embedding.view().row(j)));
  }
  for (const HeadId id : heads) {
    const LogitGradient::Head& head = gradient.layers[id.layer][id.head];
    result.heads.emplace_back(id, attribution_of(head.d_z.values(), head.z.values()));
  }
  return result;
}

ExperimentResult gradients_of_model(std::span<const LogitAttribution> inputs) {
  ExperimentResult result;
  result.name = "gradients";
  std::vector<std::vector<Cell>> rows;
  List targets;
  for (const LogitAttribution& input : inputs) {
    append_rows(input, rows);
    targets.emplace_back(target_of(input));
  }
  result.rows = make_table("rows", {"input", "layer", "head", "position", "token", "attribution", "gradient"},
                           std::move(rows));
  if (inputs.size() == 1) {
    result.summary = target_of(inputs.front());
  } else {
    result.summary.set("targets", std::move(targets));
  }
  draw_tokens(inputs.front(), result);
  draw_heads(inputs, result);
  return result;
}

}  // namespace attnctl
