#include "inspect/npz_results.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "analysis/head_axes.hpp"
#include "analysis/weights/circuit.hpp"
#include "base/undefined.hpp"
#include "inspect/describe.hpp"

namespace attnctl::cli {
namespace {

/// Returns [layers, heads, rest...], or [selected, rest...] for a ragged selection.
Shape shape_of(const Selection& selection, std::initializer_list<std::size_t> rest) {
  return HeadAxes(selection.heads).shape(std::span(rest.begin(), rest.size()));
}

/// Returns [layers, h, h] if heads are compared within layers and all layers have the same heads. Otherwise
/// returns [selected, selected] with NaN for pairs that were not compared.
Array similarity_array(const CircuitAnalysis& circuit, const Selection& selection) {
  std::vector<double> values;
  const HeadAxes axes(selection.heads);
  const std::size_t layers = axes.layers().size();
  if (axes.regular() && circuit.similarity.size() == layers && circuit.similarity.front().layer) {
    for (const SubspaceSimilarity& each : circuit.similarity) {
      values.insert(values.end(), each.values.values().begin(), each.values.values().end());
    }
    const std::size_t heads = selection.heads.size() / layers;
    return float_array({layers, heads, heads}, values);
  }
  const std::size_t all = selection.heads.size();
  values.assign(all * all, kUndefined);
  for (const SubspaceSimilarity& each : circuit.similarity) {
    for (std::size_t a = 0; a < each.heads.size(); ++a) {
      for (std::size_t b = 0; b < each.heads.size(); ++b) {
        values[axes.place(each.heads[a]).value() * all + axes.place(each.heads[b]).value()] =
            each.values(a, b);
      }
    }
  }
  return float_array({all, all}, values);
}

/// Returns the number of singular values per head in the array: k for QK, min(k, v) for OV.
std::size_t spectrum_width(Circuit circuit, const ModelConfig& config, const Selection& selection) {
  std::size_t width = 0;
  for (const HeadId id : selection.heads) {
    const AttentionConfig& attention = config.layers[id.layer].attention;
    const bool is_qk = circuit == Circuit::qk;
    width = std::max(width, is_qk ? attention.d_head : std::min(attention.d_head, attention.d_value));
  }
  return width;
}

/// The results of one component.
struct Part {
  const ComponentHeads& heads;
  const RunResults& results;
  std::string prefix;  // prefix of the array names
};

/// Returns the analysis restricted to the heads of one component.
CircuitAnalysis of_component(const CircuitAnalysis& circuit, const Part& part) {
  const auto& layers = part.results.config().layers;
  const auto has = [&](HeadId head) { return layers[head.layer].component == part.heads.component; };
  CircuitAnalysis own;
  own.circuit = circuit.circuit;
  for (const HeadSpectrum& head : circuit.heads) {
    if (has(head.head)) own.heads.push_back(head);
  }
  for (const SubspaceSimilarity& each : circuit.similarity) {
    if (has(each.heads.front())) own.similarity.push_back(each);
  }
  return own;
}

/// Returns the largest singular values of each head. Pads with 0 if a circuit has fewer values. Returns NaN
/// for undefined circuits.
Array singular_values_array(const CircuitAnalysis& circuit, const Part& part, Warnings& warnings) {
  const Selection& selection = part.heads.selection;
  const std::size_t width = spectrum_width(circuit.circuit, part.results.config(), selection);
  std::vector<double> values;
  std::size_t most = 0;
  for (const HeadSpectrum& head : circuit.heads) {
    const std::vector<double>& all = head.singular_values;
    const std::size_t kept = std::min(width, all.size());
    values.insert(values.end(), all.begin(), all.begin() + static_cast<std::ptrdiff_t>(kept));
    values.resize(values.size() + width - kept, all.empty() ? kUndefined : 0.0);
    most = std::max(most, all.size());
  }
  if (most > width) {
    warnings.add(
        "singular_values_cut",
        fmt::format(
            "{0}_singular_values has the first {1} of {2} values of each head (d_head is smaller than "
            "d_value); --format csv writes them all",
            part.prefix + std::string(name_of(circuit.circuit)), width, most));
  }
  return float_array(shape_of(selection, {width}), values);
}

void add_circuit(NpzWriter& npz, const CircuitAnalysis& all, const Part& part, Warnings& warnings) {
  const Selection& selection = part.heads.selection;
  const bool alone = part.results.components.size() == 1;
  const CircuitAnalysis own = alone ? CircuitAnalysis() : of_component(all, part);
  const CircuitAnalysis& circuit = alone ? all : own;
  const std::string prefix = part.prefix + std::string(name_of(circuit.circuit));
  npz.add(prefix + "_similarity", similarity_array(circuit, selection));
  if (circuit.heads.size() != selection.heads.size()) return;  // some layers do not have this circuit
  std::vector<double> ranks;
  for (const HeadSpectrum& head : circuit.heads) ranks.push_back(head.effective_rank.value_or(kUndefined));
  npz.add(prefix + "_effective_rank", float_array(shape_of(selection, {}), ranks));
  npz.add(prefix + "_singular_values", singular_values_array(circuit, part, warnings));
}

void add_circuits(NpzWriter& npz, const Part& part) {
  const RunResults& results = part.results;
  for (const Circuit circuit : {Circuit::qk, Circuit::ov}) {
    std::vector<double> values;
    std::size_t rows = 0;
    std::size_t cols = 0;
    bool all = true;
    for (const HeadId head : part.heads.selection.heads) {
      const auto factors = circuit_factors(results.model, head.layer, circuit, results.fold_norm);
      all &= factors.has_value();
      if (!factors) continue;
      const OwnedMatrix<double> matrix = form_circuit(*factors, head.head);
      rows = matrix.rows();
      cols = matrix.cols();
      values.insert(values.end(), matrix.values().begin(), matrix.values().end());
    }
    if (all)
      npz.add(part.prefix + std::string(name_of(circuit)) + "_circuit",
              float_array(shape_of(part.heads.selection, {rows, cols}), values));
  }
}

/// Adds the arrays `layers` and `heads` of one component.
void add_axes(NpzWriter& npz, const ComponentHeads& component, const ModelConfig& config) {
  const std::vector<HeadId>& selected = component.selection.heads;
  const std::string prefix = prefix_of(component.component);
  const HeadAxes axes(selected);
  const auto number = [](std::size_t n) { return static_cast<std::int64_t>(n); };
  std::vector<std::int64_t> layers;
  for (const std::size_t layer : axes.layers()) layers.push_back(number(config.layers[layer].number));
  npz.add(prefix + "layers", make_array({layers.size()}, layers));
  std::vector<std::int64_t> heads;
  if (axes.regular()) {
    for (std::size_t i = 0; i < selected.size() / layers.size(); ++i)
      heads.push_back(number(selected[i].head));
    npz.add(prefix + "heads", make_array({heads.size()}, heads));
  } else {
    for (const HeadId head : selected)
      heads.insert(heads.end(), {number(config.layers[head.layer].number), number(head.head)});
    npz.add(prefix + "heads", make_array({selected.size(), 2}, heads));
  }
}

}  // namespace

void add_selection_arrays(NpzWriter& npz, const RunResults& results) {
  const auto add_ids = [&](const char* name, std::size_t s, const std::vector<std::int64_t>& ids) {
    if (!ids.empty()) npz.add(fmt::format("{}_{}", name, s), make_array({ids.size()}, ids));
  };
  const std::vector<Sequence>& sequences = results.batch.sequences;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    add_ids("ids", s, sequences[s].ids);
    if (sequences[s].target) add_ids("target_ids", s, sequences[s].target->ids);
  }
  for (const ComponentHeads& component : results.components) add_axes(npz, component, results.config());
}

void add_weights_arrays(NpzWriter& npz, const RunResults& results, Warnings& warnings) {
  for (const ComponentHeads& component : results.components) {
    const Part part = {component, results, prefix_of(component.component)};
    if (results.weights && results.includes.weights) {
      add_circuit(npz, results.weights->qk, part, warnings);
      if (results.weights->ov) add_circuit(npz, *results.weights->ov, part, warnings);
    }
    if (results.includes.circuits) add_circuits(npz, part);
  }
}

}  // namespace attnctl::cli
