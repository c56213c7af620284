#include "inspect/show.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "base/error.hpp"
#include "inspect/describe.hpp"

namespace attnctl::cli {
namespace {

/// Returns the mean of matrices [n, m].
Array mean_of(std::span<const DrawnPattern> patterns) {
  std::vector<double> sum;
  for (const DrawnPattern& pattern : patterns) {
    std::visit(
        [&](const auto& values) {
          sum.resize(values.size());
          for (std::size_t i = 0; i < values.size(); ++i) sum[i] += static_cast<double>(values[i]);
        },
        pattern.values.values);
  }
  for (double& value : sum) value /= static_cast<double>(patterns.size());
  return make_array(patterns.front().values.shape, std::move(sum));
}

TextMatrix matrix_of(const RunResults& results, const DrawnPattern& pattern, std::string corner) {
  const Sides sides = results.sides(pattern.component, pattern.sequence);
  return {.corner = std::move(corner),
          .row_labels = token_labels(results, sides.queries_of),
          .column_labels = key_labels(results, sides),
          .values = pattern.values};
}

/// Applies a head "3.1" or "enc.3.1", or a layer "3" or "enc.3", to the selection.
void select_shown(AnalysisRequest& request) {
  using Prefix = std::pair<const char*, const char*>;
  constexpr std::array kPrefixes = {Prefix{"enc.", "encoder"}, Prefix{"dec.", "decoder"},
                                    Prefix{"cross.", "cross"}};
  const std::string& show = request.show;
  for (const auto& [prefix, component] : kPrefixes) {
    if (!show.starts_with(prefix) || std::ranges::count(show, '.') != 1) continue;
    request.selection.component = component;
    request.selection.layers = show.substr(show.find('.') + 1);
    return;
  }
  const bool head = show.find('.') != std::string::npos;
  (head ? request.selection.heads : request.selection.layers) = show;
}

}  // namespace

void apply_show(AnalysisRequest& request) {
  if (request.show.empty()) return;
  if (!request.selection.layers.empty() || !request.selection.heads.empty()) {
    fail(Status::usage, "--show names the heads itself: leave out --layers and --heads");
  }
  if (request.include_given) fail(Status::usage, "--show draws patterns: leave out --include");
  const bool picture =
      request.output.format.empty() || request.output.format == "text" || request.output.format == "svg";
  if (!picture) fail(Status::usage, "--show draws: --format text or svg, got {}", request.output.format);
  if (request.weighting == Weighting::norm && request.output.format != "svg" &&
      !request.output.path.ends_with(".svg")) {
    fail(Status::usage, "--show draws weights from 0 to 1: use --weighting norm-row, or draw an svg");
  }
  select_shown(request);
  request.selection.include = "patterns";
  request.include_given = true;
  if (request.output.path.empty() && request.output.format.empty()) request.output.format = "text";
}

std::vector<std::string> token_labels(const RunResults& results, const Sequence& sequence) {
  std::vector<std::string> labels;
  for (const std::string& token : sequence.tokens) labels.push_back(results.vocabulary.plain(token));
  if (labels.empty()) {
    for (std::size_t i = 0; i < sequence.queries(); ++i) labels.push_back(std::to_string(i));
  }
  return labels;
}

std::vector<std::string> key_labels(const RunResults& results, const Sides& sides) {
  if (sides.keys_of.key_embeddings.rows() > 0) return {};
  return token_labels(results, sides.keys_of);
}

std::vector<DrawnPattern> drawn_patterns(const RunResults& results) {
  std::vector<DrawnPattern> drawn;
  for (const InputArray& array : results.arrays) {
    if (array.name != "pattern") continue;
    const std::vector<HeadId>& heads = results.heads_of(array);
    const Component component = results.components[array.component].component;
    std::vector<DrawnPattern> layer;
    for (std::size_t i = 0; i < heads.size(); ++i) {
      layer.push_back(
          {head_name(results.config(), heads[i]), array.sequence, component, item_of(array.array, i, 2)});
      if (i + 1 < heads.size() && heads[i + 1].layer == heads[i].layer) continue;
      if (results.show_layers) {
        drawn.push_back({layer_name(results.config(), heads[i].layer) + " mean", array.sequence, component,
                         mean_of(layer)});
      }
      for (DrawnPattern& pattern : layer) drawn.push_back(std::move(pattern));
      layer.clear();
    }
  }
  return drawn;
}

void append_drawn(std::vector<PageBlock>& blocks, const RunResults& results) {
  const std::vector<DrawnPattern> drawn = drawn_patterns(results);
  if (!results.show_layers) {
    for (const DrawnPattern& pattern : drawn) {
      const std::string& input = results.batch.sequences[pattern.sequence].id;
      blocks.emplace_back(TextMatrices{fmt::format("Pattern of {}, input \"{}\"", pattern.title, input),
                                       {matrix_of(results, pattern, "query")},
                                       TextMatrices::Style::heatmaps});
    }
    return;
  }
  for (auto first = drawn.begin(); first != drawn.end();) {
    const auto last = std::find_if(
        first, drawn.end(), [&](const DrawnPattern& each) { return each.sequence != first->sequence; });
    TextMatrices block{fmt::format("Patterns of input \"{}\", queries down, keys across",
                                   results.batch.sequences[first->sequence].id),
                       {},
                       TextMatrices::Style::small_heatmaps};
    for (auto each = first; each != last; ++each)
      block.matrices.push_back(matrix_of(results, *each, each->title));
    blocks.emplace_back(std::move(block));
    first = last;
  }
}

}  // namespace attnctl::cli
