#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "analysis/similarity/head_map.hpp"
#include "analysis/weights/circuit.hpp"
#include "base/numbers.hpp"
#include "inspect/describe.hpp"
#include "inspect/inspection.hpp"

namespace attnctl::inspect {
namespace {

using analysis::CircuitAnalysis;
using analysis::HeadSpectrum;

Section similarity_section(const RunResults& run) {
  const model::ModelConfig& config = run.config();
  List items;
  for (const CircuitAnalysis* circuit : run.weights->circuits()) {
    for (const analysis::HeadMatrix& each : circuit->similarity) {
      const analysis::OffDiagonal pairs = analysis::off_diagonal(each.values.view());
      Record record{{{"circuit", std::string(name_of(circuit->circuit))},
                     {"component", analysis::component_cell(config, each.heads.front().layer)},
                     {"layer", analysis::number_cell(config, each.layer)},
                     {"names", names_of(config, each.heads)},
                     {"similarity", float_array(each.values)},
                     {"mean_off_diagonal", pairs.mean},
                     {"mean_abs_off_diagonal", pairs.mean_abs}}};
      if (run.request.order == HeadOrder::cluster)
        record.set("order", names_of(config, analysis::map_heads(each.heads, each.values.view()).order()));
      items.emplace_back(std::move(record));
    }
  }
  return {"subspace_similarity", "subspace_similarity", std::move(items)};
}

/// Adds the section and, with one block for the left and one for the right singular vectors of each circuit,
/// the table of principal directions.
void add_directions(Results& results, const analysis::WeightsAnalysis& weights,
                    const model::ModelConfig& config) {
  List items;
  std::vector<LongBlock> blocks;
  for (const CircuitAnalysis* circuit : weights.circuits()) {
    for (const HeadSpectrum& head : circuit->heads) {
      const std::size_t count = head.left.rows();
      const std::span<const double> strongest = std::span(head.singular_values).first(count);
      const Tensor left = tensor_of(head.left);
      const Tensor right = tensor_of(head.right);
      const auto cells = analysis::head_cells(config, head.head);
      blocks.push_back({row_of(circuit->circuit, cells, "left"), left});
      blocks.push_back({row_of(circuit->circuit, cells, "right"), right});
      items.emplace_back(head_record("circuit", name_of(circuit->circuit), config, head.head)
                             .set("singular_values", float_array({count}, strongest))
                             .set("left", left)
                             .set("right", right));
    }
  }
  results.document.sections.push_back({"principal_directions", "principal_directions", std::move(items)});
  results.tables.push_back(long_table(
      "principal_directions",
      columns_of(kDirectionColumns,
                 {"circuit", "component", "layer", "head", "name", "side", "rank", "dimension", "value"}),
      std::move(blocks)));
}

void add_circuits(Results& results, const RunResults& run) {
  List items;
  std::vector<LongBlock> blocks;
  for (const analysis::Circuit circuit : {analysis::Circuit::qk, analysis::Circuit::ov}) {
    for (const model::HeadId head : run.request.selection.heads) {
      const auto factors =
          analysis::circuit_factors(run.model, head.layer, circuit, run.request.weights.fold_norm);
      if (!factors) continue;
      const Tensor values = float_array(analysis::form_circuit(*factors, head.head));
      items.emplace_back(head_record("circuit", name_of(circuit), run.config(), head).set("value", values));
      blocks.push_back({row_of(circuit, analysis::head_cells(run.config(), head)), values});
    }
  }
  results.document.sections.push_back({"circuits", "circuit", std::move(items)});
  results.tables.push_back(long_table("circuits",
                                      columns_of(kCircuitColumns, {"circuit", "component", "layer", "head",
                                                                   "name", "row", "column", "value"}),
                                      std::move(blocks)));
}

Table similarity_table(const analysis::WeightsAnalysis& weights, const model::ModelConfig& config) {
  TableRows rows{"subspace_similarity",
                 columns_of(kWeightColumns, {"circuit", "component", "layer_a", "head_a", "name_a", "layer_b",
                                             "head_b", "name_b", "similarity"})};
  for (const CircuitAnalysis* circuit : weights.circuits()) {
    for (const analysis::HeadMatrix& each : circuit->similarity)
      rows.add_pairs(config, name_of(circuit->circuit), each,
                     [&](std::size_t a, std::size_t b) { return row_of(each.values(a, b)); });
  }
  return rows.table();
}

Table singular_values_table(const analysis::WeightsAnalysis& weights, const model::ModelConfig& config) {
  TableRows rows{"singular_values", columns_of(kWeightColumns, {"circuit", "component", "layer", "head",
                                                                "name", "rank", "singular_value"})};
  for (const CircuitAnalysis* circuit : weights.circuits()) {
    for (const HeadSpectrum& head : circuit->heads) {
      for (std::size_t i = 0; i < head.singular_values.size(); ++i)
        rows.add(circuit->circuit, analysis::head_cells(config, head.head), i, head.singular_values[i]);
    }
  }
  return rows.table();
}

/// Returns the index of a layer, or a name such as "enc.0" if the model has components.
Cell layer_cell(const model::ModelConfig& config, std::size_t layer) {
  return config.decoder ? Cell(model::layer_name(config, layer)) : analysis::cell_of(layer);
}

TextTable effective_ranks(const CircuitAnalysis& circuit, const model::ModelConfig& config) {
  std::set<std::size_t> numbers;
  for (const HeadSpectrum& head : circuit.heads) numbers.insert(head.head.head);
  TableRows rows{"", {"layer"}};
  for (const std::size_t number : numbers) rows.columns.push_back(std::to_string(number));
  std::size_t most = 0;
  const auto layer_of = [](const HeadSpectrum& head) { return head.head.layer; };
  analysis::for_each_group(circuit.heads, layer_of, [&](std::span<const HeadSpectrum> heads) {
    std::vector<Cell>& row = rows.add(layer_cell(config, heads.front().head.layer));
    row.resize(rows.columns.size());
    for (const HeadSpectrum& head : heads) {
      const auto column = 1 + std::distance(numbers.begin(), numbers.find(head.head.head));
      row[static_cast<std::size_t>(column)] = analysis::cell_of(head.effective_rank);
      most = std::max(most, head.singular_values.size());
    }
  });
  return {fmt::format("Effective ranks of {} by layer and head (1 to {})",
                      symbol_of(name_of(circuit.circuit)), most),
          rows.table(), 1};
}

TextTable similarities(const analysis::WeightsAnalysis& weights, const model::ModelConfig& config) {
  TableRows rows{"", {"layer", "QK", "|QK|", "OV", "|OV|"}};
  for (const analysis::HeadMatrix& qk : weights.qk.similarity) {
    std::vector<Cell>& row = rows.add(qk.layer ? layer_cell(config, *qk.layer) : Cell(std::string("all")));
    for (const CircuitAnalysis* circuit : weights.circuits()) {
      for (const analysis::HeadMatrix& each : circuit->similarity) {
        if (each.layer != qk.layer) continue;
        const auto [mean, mean_abs] = analysis::off_diagonal(each.values.view());
        add_cells(row, std::array{mean, mean_abs});
      }
    }
    row.resize(5);
  }
  return {"Average pairwise similarity of heads (-1 to 1; mean and mean absolute value)", rows.table(), 4};
}

/// Returns the pairs of heads with the largest absolute similarities of QK, then those of OV.
TextTable most_similar(const RunResults& run) {
  struct SimilarPair {
    model::HeadId first, second;
    double similarity;
  };
  TableRows rows{"", {"circuit", "head", "and", "similarity"}};
  for (const CircuitAnalysis* circuit : run.weights->circuits()) {
    std::vector<SimilarPair> pairs;
    for (const analysis::HeadMatrix& each : circuit->similarity) {
      for (std::size_t b = 1; b < each.heads.size(); ++b) {
        for (std::size_t a = 0; a < b; ++a)
          if (std::isfinite(each.values(a, b)))
            pairs.push_back({each.heads[a], each.heads[b], each.values(a, b)});
      }
    }
    std::ranges::stable_sort(pairs, std::greater<>(),
                             [](const SimilarPair& pair) { return std::abs(pair.similarity); });
    pairs.resize(std::min(pairs.size(), run.request.top.value_or(5)));
    for (const SimilarPair& pair : pairs)
      rows.add(symbol_of(name_of(circuit->circuit)), model::head_name(run.config(), pair.first),
               model::head_name(run.config(), pair.second), pair.similarity);
  }
  return {
      fmt::format("Pairs of heads with the largest |similarity|{}",
                  run.request.weights.across_layers ? "" : " within a layer (--across-layers: all pairs)"),
      rows.table(), 4};
}

HeatmapPage similarity_page(const RunResults& run) {
  HeatmapPage page{"Subspace Similarity of Heads", {.label = "Subspace similarity"}, 0, {}};
  for (const CircuitAnalysis* circuit : run.weights->circuits()) {
    const bool qk = circuit == &run.weights->qk;
    page.title += qk ? " (cosine of W_Q W_K^T" : " and of W_V W_O";
    for (const analysis::HeadMatrix& each : circuit->similarity) {
      const std::string layer =
          each.layer ? "Layer " + model::layer_name(run.config(), *each.layer) : "All Layers";
      page.heatmaps.push_back(head_heatmap(run, (qk ? "QK, " : "OV, ") + layer, each));
    }
  }
  page.title += ")";
  page.fit_scale();
  return page;
}

CircuitAnalysis of_component(const CircuitAnalysis& circuit, model::Component component,
                             const model::ModelConfig& config) {
  const auto other = [&](model::HeadId head) { return config.layers[head.layer].component != component; };
  CircuitAnalysis own = circuit;
  std::erase_if(own.heads, [&](const HeadSpectrum& head) { return other(head.head); });
  std::erase_if(own.similarity, [&](const analysis::HeadMatrix& each) { return other(each.heads.front()); });
  return own;
}

/// Returns the largest singular values of each head in descending order. Missing values are 0. All values of
/// a head with a weight that is not finite are NaN. Adds the warning singular_values_cut if a head has more
/// values than the array.
Tensor singular_values_array(const CircuitAnalysis& circuit, const forward::Selection& selection,
                             const std::string& name, const RunResults& run) {
  const bool is_qk = circuit.circuit == analysis::Circuit::qk;
  std::size_t width = 0;  // values per head (see add_weights_arrays): the most of all selected layers
  for (const model::HeadId id : selection.heads) {
    const model::AttentionConfig& attention = run.config().layers[id.layer].attention;
    width = std::max(width, is_qk ? attention.d_head : std::min(attention.d_head, attention.d_value));
  }
  std::vector<double> values;
  std::size_t most = 0;
  for (const HeadSpectrum& head : circuit.heads) {
    std::vector<double> all = head.singular_values;
    most = std::max(most, all.size());
    all.resize(width, all.empty() ? kUndefined : 0.0);
    values.insert(values.end(), all.begin(), all.end());
  }
  if (most > width) {
    run.context.warnings.add(
        "singular_values_cut",
        fmt::format("{} has the first {} of {} values of each head (d_head is smaller than "
                    "d_value); --format csv writes them all",
                    name, width, most));
  }
  return float_array(analysis::HeadAxes(selection.heads).shape({width}), values);
}

void add_circuit_analysis(ArrayOutput& out, const CircuitAnalysis& all, const analysis::ComponentHeads& heads,
                          const RunResults& run) {
  const forward::Selection& selection = heads.selection;
  const CircuitAnalysis circuit = of_component(all, heads.component, run.config());
  const std::string prefix = prefix_of(heads.component) + std::string(name_of(circuit.circuit));
  std::vector<HeadPairs> pairs;
  for (const analysis::HeadMatrix& each : circuit.similarity)
    pairs.push_back({each.layer, each.heads, each.values.values()});
  out.add(prefix + "_similarity", pairs_array(selection, pairs, false));
  if (circuit.heads.size() != selection.heads.size()) return;  // a selected layer does not have this circuit
  const std::string name = prefix + "_singular_values";
  out.add(name, singular_values_array(circuit, selection, name, run));
}

void add_whole_circuits(ArrayOutput& out, const analysis::ComponentHeads& heads, const RunResults& run) {
  for (const analysis::Circuit circuit : {analysis::Circuit::qk, analysis::Circuit::ov}) {
    std::vector<double> values;
    std::size_t rows = 0;
    std::size_t cols = 0;
    bool all = true;
    for (const model::HeadId head : heads.selection.heads) {
      const auto factors =
          analysis::circuit_factors(run.model, head.layer, circuit, run.request.weights.fold_norm);
      all &= factors.has_value();
      if (!factors) continue;
      const OwnedMatrix<double> matrix = analysis::form_circuit(*factors, head.head);
      rows = matrix.rows();
      cols = matrix.cols();
      values.insert(values.end(), matrix.values().begin(), matrix.values().end());
    }
    if (all)
      out.add(prefix_of(heads.component) + std::string(name_of(circuit)) + "_circuit",
              float_array(analysis::HeadAxes(heads.selection.heads).shape({rows, cols}), values));
  }
}

}  // namespace

constexpr std::array<Definition, 3> kWeightColumns = {
    {{"similarity", "", "[-1, 1]", "mean 0, standard deviation 1 / d for independent Gaussian heads",
      "Frobenius cosine <A_a, A_b> / (|A_a| |A_b|) of the circuits of two heads", "Elhage et al. 2021"},
     {"rank", "", "from 0", "", "place of the singular value in descending order"},
     {"singular_value", "", "[0, inf)", "", "singular value of the circuit"}}};

constexpr std::array<Definition, 3> kDirectionColumns = {
    {{"side", "", "left or right", "", "left or right singular vector of the circuit"},
     {"rank", "", "from 0", "", "place of the singular value in descending order"},
     {"value", "", "[-1, 1]", "", "element of the singular vector, which has length 1"}}};
constexpr std::array<Definition, 3> kCircuitColumns = {
    {{"row", "", "from 0", "", "dimension of the residual stream: of the query (QK), or read by W_V (OV)"},
     {"column", "", "from 0", "",
      "dimension of the residual stream: of the key (QK), or written by W_O (OV)"},
     {"value", "", "(-inf, inf)", "", "element of the circuit, a matrix [d_model, d_model]"}}};

void add_weights_arrays(ArrayOutput& out, const RunResults& run) {
  const Includes& includes = run.request.includes;
  for (const analysis::ComponentHeads& heads : run.components) {
    if (run.weights && includes.has("weights")) {
      for (const CircuitAnalysis* circuit : run.weights->circuits())
        add_circuit_analysis(out, *circuit, heads, run);
    }
    if (includes.has("circuits")) add_whole_circuits(out, heads, run);
  }
}

std::uint64_t values_of_weights(const RunResults& run) {
  using analysis::Projection;
  constexpr std::array<std::array<Projection, 2>, 2> kCircuits = {
      {{Projection::query, Projection::key}, {Projection::value, Projection::output}}};
  const Includes& includes = run.request.includes;
  const Form form = run.request.form;
  const bool lists_matrices = form == Form::document || has_tables(form);
  const bool circuits = lists_matrices && includes.has("circuits");
  std::uint64_t count = 0;
  for (const auto& [left, right] : kCircuits) {
    const bool all = have_projections(run, {left, right});
    if (includes.has("weights") && all) {
      const std::uint64_t lists = run.request.order == HeadOrder::cluster ? 2 : 1;  // names and order
      for (const std::span<const model::HeadId> heads : compared_heads(run))
        count += 5 + heads.size() * (lists + heads.size());
    }
    const bool directions = lists_matrices && includes.has("directions") && all;
    for (const model::HeadId head : run.selection.heads) {
      if (!circuits && !directions) break;
      const auto from = analysis::projection_shape(run.config(), head.layer, left);
      const auto to = analysis::projection_shape(run.config(), head.layer, right);
      if (!from || !to) continue;
      if (circuits) count += 5 + from->dimension * to->dimension;
      if (!directions) continue;
      const std::size_t most =
          std::min({run.request.weights.directions, from->dimension, to->dimension, from->width});
      count += 5 + most * (1 + from->dimension + to->dimension);
    }
  }
  return count;
}

void add_weights(Results& results, const RunResults& run) {
  const Includes& includes = run.request.includes;
  const Form form = run.request.form;
  if (run.weights && includes.has("weights")) {
    if (form == Form::document) results.document.sections.push_back(similarity_section(run));
    if (has_tables(form) || form == Form::arrays) {
      results.tables.push_back(similarity_table(*run.weights, run.config()));
      results.tables.push_back(singular_values_table(*run.weights, run.config()));
    }
  }
  if (form == Form::document || has_tables(form)) {
    if (run.weights && includes.has("directions")) add_directions(results, *run.weights, run.config());
    if (includes.has("circuits")) add_circuits(results, run);
  }
  if (run.weights && form == Form::text) {
    for (const CircuitAnalysis* circuit : run.weights->circuits())
      results.text.emplace_back(effective_ranks(*circuit, run.config()));
    results.text.emplace_back(similarities(*run.weights, run.config()));
    if (TextTable pairs = most_similar(run); pairs.table.rows > 0)
      results.text.emplace_back(std::move(pairs));
  } else if (run.weights && has_pictures(form)) {
    results.pictures.push_back({"similarity", similarity_page(run)});
  }
}

}  // namespace attnctl::inspect
