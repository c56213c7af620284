#include "inspect/describe.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <utility>
#include <variant>

#include "analysis/similarity/head_map.hpp"
#include "base/numbers.hpp"
#include "base/text.hpp"

namespace attnctl::inspect {

Record head_record(const char* key, std::string_view text, const model::ModelConfig& config,
                   model::HeadId head) {
  const auto [component, layer, number, name] = analysis::head_cells(config, head);
  return {{{key, std::string(text)},
           {"component", component},
           {"layer", layer},
           {"head", number},
           {"name", name}}};
}

Table text_columns(const Table& table, const std::vector<std::string>& columns) {
  Table shown = select_columns(table, columns);
  for (Column& column : shown.columns)
    if (column.name == "name") column.name = "head";
  return shown;
}

Tensor items_of(const Tensor& array, std::size_t first, std::size_t count, std::size_t axes) {
  Tensor items({array.shape.end() - static_cast<std::ptrdiff_t>(axes), array.shape.end()}, {}, array.owner);
  const std::size_t size = checked_product(items.shape).value();
  std::visit([&](const auto& values) { items.values = values.subspan(first * size, count * size); },
             array.values);
  items.shape.insert(items.shape.begin(), count);
  return items;
}

Tensor item_of(const Tensor& array, std::size_t index, std::size_t axes) {
  Tensor item = items_of(array, index, 1, axes);
  item.shape.erase(item.shape.begin());
  return item;
}

Tensor float_array(Shape shape, std::span<const double> values) {
  return make_tensor(std::move(shape), std::vector<float>(values.begin(), values.end()));
}

Tensor float_array(const OwnedMatrix<double>& matrix) {
  return float_array({matrix.rows(), matrix.cols()}, matrix.values());
}

Tensor column_array(const Table& table, std::string_view column, Shape shape, std::size_t first_row) {
  const std::size_t place = table.find(column).value();
  std::vector<Cell> cells(table.columns.size());
  std::vector<float> values(checked_product(shape).value());
  for (std::size_t i = 0; i < values.size(); ++i) {
    table.row(first_row + i, cells);
    values[i] = static_cast<float>(number_of(cells[place]));
  }
  return make_tensor(std::move(shape), std::move(values));
}

Table long_table(std::string name, std::vector<Column> columns, std::vector<LongBlock> blocks) {
  std::vector<std::size_t> ends;  // [blocks]: index of the row after the block
  std::size_t rows = 0;
  for (const LongBlock& block : blocks) ends.push_back(rows += block.values.size());
  const auto shared = std::make_shared<const std::vector<LongBlock>>(std::move(blocks));
  return {std::move(name), std::move(columns), rows,
          [shared, ends = std::move(ends)](std::size_t index, std::span<Cell> cells) {
            const auto end = std::ranges::upper_bound(ends, index);
            const LongBlock& block = (*shared)[static_cast<std::size_t>(end - ends.begin())];
            const std::size_t place = index + block.values.size() - *end;
            const std::size_t row = place / block.values.shape.back();
            const std::size_t column = place % block.values.shape.back();
            std::ranges::copy(block.first, cells.begin());
            const std::size_t first = block.first.size();
            if (block.middle) {
              block.middle(row, column, cells.subspan(first));
            } else {
              cells[first] = analysis::cell_of(row);
              cells[first + 1] = analysis::cell_of(column);
            }
            cells.back() = std::get<std::span<const float>>(block.values.values)[place];
          }};
}

LongBlock::Middle query_and_key(std::span<const std::string> query_tokens,
                                std::span<const std::string> key_tokens, std::vector<std::size_t> from) {
  return [query_tokens, key_tokens, from = std::move(from)](std::size_t row, std::size_t key,
                                                            std::span<Cell> cells) {
    const std::size_t query = from.empty() ? row : from[row];
    cells[0] = analysis::cell_of(query);
    cells[1] = analysis::cell_of(key);
    cells[2] = token_cell(query_tokens, query);
    cells[3] = token_cell(key_tokens, key);
  };
}

std::vector<std::string> names_of(const model::ModelConfig& config, std::span<const model::HeadId> heads) {
  return texts_of(heads, [&](const model::HeadId& head) { return model::head_name(config, head); });
}

std::string prefix_of(model::Component component) {
  return component == model::Component::none ? "" : std::string(name_of(component)) + "_";
}

std::vector<std::string> token_labels(const AnalysisInput& input, const input::Sequence& sequence) {
  std::vector<std::string> labels;
  for (const std::string& token : sequence.tokens)
    labels.push_back(input.vocabulary.label(token, input.request.strip_markers));
  for (std::size_t i = labels.size(); i < sequence.queries(); ++i) labels.push_back(std::to_string(i));
  return labels;
}

std::vector<std::vector<std::size_t>> find_in_inputs(const AnalysisInput& input, std::string_view option,
                                                     const std::string& name,
                                                     const std::vector<const input::Sequence*>& sequences) {
  using Positions = std::vector<std::size_t>;
  const bool to = option == "--to";
  const auto position = parse_number(name);  // separate keys have their own positions, and no words
  std::vector<Positions> found;
  for (const input::Sequence* const each : sequences) {
    if (!position) {
      found.push_back(input::find_word(*each, input.vocabulary, name));
    } else {
      found.push_back(*position < (to ? each->keys() : each->queries()) ? Positions{*position} : Positions{});
    }
  }
  const bool by_text = !position && std::ranges::all_of(found, &Positions::empty);
  for (std::size_t s = 0; by_text && s < sequences.size(); ++s) {
    input::TextPart part = input::find_in_text(*sequences[s], name);
    found[s] = std::move(part.positions);
    if (part.exact) continue;
    const std::vector<std::string> labels = token_labels(input, *sequences[s]);
    const std::vector<std::string> tokens =
        texts_of(found[s], [&](std::size_t token) { return labels[token]; });
    input.context.warnings.add(
        to ? "to_in_token" : "from_in_token",
        fmt::format("{}: \"{}\" is part of the token{} {} at position {}{}", option, name,
                    tokens.size() == 1 ? "" : "s", fmt::join(tokens, " "), found[s].front(),
                    sequences.size() == 1 ? "" : fmt::format(" of input \"{}\"", sequences[s]->id)));
  }
  const auto missing = std::ranges::count_if(found, &Positions::empty);
  if (missing == 0) return found;
  const auto first = std::ranges::find_if(found, &Positions::empty) - found.begin();
  const std::string& id = sequences[static_cast<std::size_t>(first)]->id;
  input.context.warnings.add(to ? "to_not_found" : "from_not_found",
                             missing == 1
                                 ? fmt::format("{}: \"{}\" is not in input \"{}\"", option, name, id)
                                 : fmt::format("{}: \"{}\" is not in {} of {} inputs; first: input \"{}\"",
                                               option, name, missing, sequences.size(), id));
  return found;
}

Cell token_cell(std::span<const std::string> tokens, std::size_t position) {
  return position < tokens.size() ? Cell(tokens[position]) : Cell();
}

Results results_of_heads(const AnalysisInput& input, const std::string& title, const TableRows& table) {
  const std::vector<model::HeadId>& heads = input.selection.heads;
  TableRows rows{table.name, columns_of({}, {"component", "layer", "head", "name"})};
  rows.columns.insert(rows.columns.end(), table.columns.begin(), table.columns.end());
  for (std::size_t i = 0; i < heads.size(); ++i)
    rows.add(analysis::head_cells(input.config(), heads[i]), table.rows.at(i));
  const Table all = rows.table();
  std::vector<std::string> shown = {"name"};
  Results results;
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    const std::string& name = shown.emplace_back(table.columns[c].name);
    const auto whole = [&](const auto& row) { return std::holds_alternative<std::int64_t>(row[c]); };
    if (std::ranges::any_of(table.rows, whole)) continue;
    results.arrays.push_back(
        {table.name + "_" + name, column_array(all, name, analysis::HeadAxes(heads).shape())});
  }
  results.add_table(table.name, all);
  results.text.emplace_back(TextTable{title, text_columns(all, shown), 3});
  return results;
}

std::vector<std::span<const model::HeadId>> compared_heads(const AnalysisInput& input) {
  std::vector<std::span<const model::HeadId>> groups;
  const bool all = input.request.weights.across_layers;
  const auto group_of = [&](model::HeadId head) { return all ? 0 : head.layer; };
  analysis::for_each_group(input.selection.heads, group_of,
                           [&](std::span<const model::HeadId> heads) { groups.push_back(heads); });
  return groups;
}

bool have_projections(const AnalysisInput& input, std::initializer_list<analysis::Projection> projections) {
  for (const std::size_t layer : input.selection.layers()) {
    for (const analysis::Projection projection : projections)
      if (!analysis::projection_shape(input.config(), layer, projection)) return false;
  }
  return true;
}

Tensor pairs_array(const forward::Selection& selection, std::span<const HeadPairs> pairs, bool deep) {
  const analysis::HeadAxes axes(selection.heads);
  const std::size_t all = selection.heads.size();
  const bool stacked = axes.regular() && !pairs.empty() && pairs.front().layer.has_value();
  const std::size_t inner = stacked ? all / axes.layers().size() : all;
  std::size_t depth = deep ? 0 : 1;
  for (const HeadPairs& each : pairs) depth = std::max(depth, each.depth);
  std::vector<double> values(all * inner * depth, kUndefined);
  for (const HeadPairs& each : pairs) {
    const std::size_t n = each.heads.size();
    for (std::size_t a = 0; a < n; ++a) {
      const std::size_t row = axes.place(each.heads[a]).value() * inner;
      for (std::size_t b = 0; b < n; ++b) {
        const std::size_t at = (row + (stacked ? b : axes.place(each.heads[b]).value())) * depth;
        std::ranges::copy(each.values.subspan((a * n + b) * each.depth, each.depth),
                          values.begin() + static_cast<std::ptrdiff_t>(at));
      }
    }
  }
  Shape shape = {inner, inner};
  if (stacked) shape.insert(shape.begin(), axes.layers().size());
  if (deep) shape.push_back(depth);
  return float_array(std::move(shape), values);
}

analysis::HeadMatrix reordered(const analysis::HeadMatrix& matrix, std::vector<model::HeadId> order) {
  analysis::HeadMatrix ordered{matrix.layer, std::move(order), matrix.values};
  std::vector<std::size_t> from;
  for (const model::HeadId head : ordered.heads)
    from.push_back(static_cast<std::size_t>(std::ranges::find(matrix.heads, head) - matrix.heads.begin()));
  for (std::size_t a = 0; a < from.size(); ++a) {
    for (std::size_t b = 0; b < from.size(); ++b) ordered.values(a, b) = matrix.values(from[a], from[b]);
  }
  return ordered;
}

namespace {

/// Returns the tree of the columns of a heatmap: `heads` in the order of the leaves of `linkage`.
ColumnTree column_tree(const model::ModelConfig& config, std::span<const model::HeadId> heads,
                       const analysis::Linkage& linkage) {
  ColumnTree tree{"1 - similarity", {}, {}, {}};
  std::vector<std::size_t> numbers(2 * linkage.leaves.size());  // in `tree`, by number in `linkage`
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  for (std::size_t i = 0; i < linkage.leaves.size(); ++i) numbers[linkage.leaves[i]] = i;
  for (const analysis::ClusterMerge& merge : linkage.merges)
    tree.merges.push_back({numbers[merge.first], numbers[merge.second], merge.distance});
  std::map<std::size_t, std::size_t> groups;  // by layer
  for (const model::HeadId head : heads) groups[head.layer] = 0;
  if (groups.size() < 2) return tree;
  for (auto& [layer, group] : groups) {
    group = tree.groups.size();
    tree.groups.push_back("layer " + model::layer_name(config, layer));
  }
  for (const model::HeadId head : heads) tree.column_groups.push_back(groups[head.layer]);
  return tree;
}

}  // namespace

Heatmap head_heatmap(const AnalysisInput& input, const std::string& title,
                     const analysis::HeadMatrix& given) {
  const bool clustered = input.request.order == HeadOrder::cluster;
  analysis::HeadMap map;
  if (clustered) map = analysis::map_heads(given.heads, given.values.view());
  analysis::HeadMatrix matrix = clustered ? reordered(given, map.order()) : given;
  const auto number = [](const model::HeadId& head) { return "Head " + std::to_string(head.head); };
  const std::vector<std::string> labels =
      matrix.layer ? texts_of(matrix.heads, number) : names_of(input.config(), matrix.heads);
  for (std::size_t i = 0; i < labels.size(); ++i) matrix.values(i, i) = kUndefined;
  const std::string axis = clustered ? "Head (in cluster order)" : "Head";
  Heatmap heatmap{title, axis, axis, labels, labels, tensor_of(matrix.values)};
  heatmap.heads = names_of(input.config(), matrix.heads);
  if (clustered) heatmap.tree = column_tree(input.config(), matrix.heads, map.linkage);
  return heatmap;
}

std::string symbol_of(std::string_view name) {
  std::string symbol(name);
  std::ranges::transform(symbol, symbol.begin(),
                         [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  return symbol;
}

}  // namespace attnctl::inspect
