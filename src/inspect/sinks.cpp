#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "analysis/head_axes.hpp"
#include "analysis/mixing/contributions.hpp"
#include "analysis/patterns/sink_weights.hpp"
#include "inspect/catalogue.hpp"
#include "inspect/describe.hpp"
#include "inspect/inspection.hpp"

// Attention sinks, and heads that write almost nothing to the residual stream.
namespace attnctl::inspect {
namespace {

using analysis::HeadSink;

/// A HeadSink with its write ratio, and both compared with their thresholds. A value is nullopt if the number
/// is undefined.
struct SinkRow {
  HeadSink sink;
  std::optional<double> write_ratio;
  std::optional<bool> at_first, at_any, idle;  // alpha_0, the largest alpha, and the write ratio
};

/// Counts over the heads of one input, or over those of all inputs.
struct SinkCounts {
  std::size_t heads = 0, sinks = 0, idle = 0;
  std::size_t pairs = 0, sink_pairs = 0;  // pairs of a head and an input with alpha_0; those with a sink
};

Cell flag_cell(std::optional<bool> flag) {
  return flag ? Cell(*flag) : Cell();
}

/// Counts heads, and those that are sinks at key 0 or idle in each of the inputs of these rows.
SinkCounts counts_of(std::span<const SinkRow> rows) {
  SinkCounts counts;
  std::set<model::HeadId> heads, no_sinks, not_idle;
  for (const SinkRow& row : rows) {
    heads.insert(row.sink.head);
    if (!row.at_first.value_or(false)) no_sinks.insert(row.sink.head);
    if (!row.idle.value_or(false)) not_idle.insert(row.sink.head);
    if (row.at_first) ++counts.pairs;
    if (row.at_first.value_or(false)) ++counts.sink_pairs;
  }
  counts.heads = heads.size();
  counts.sinks = heads.size() - no_sinks.size();
  counts.idle = heads.size() - not_idle.size();
  return counts;
}

class SinksAnalysis final : public Analysis {
 public:
  explicit SinksAnalysis(const AnalysisInput& input)
      : Analysis(input), weights_(input.selection), ratios_(input.selection) {}

  std::vector<forward::Observer*> observers() override { return {&weights_, &ratios_}; }

  std::uint64_t values() const override {
    constexpr std::uint64_t kHeadCells = 14;
    constexpr std::uint64_t kRateCells = 7;
    const std::uint64_t inputs = input_.batch.sequences.size();
    return inputs * input_.selection.heads.size() * kHeadCells + (inputs + 1) * kRateCells;
  }

  Results finish() override {
    const std::vector<SinkRow> found = rows();
    const Table heads = heads_of(found);
    const Table rates = rates_of(found);
    Results results;
    results.add_table("sink", heads);
    results.add_table("sink_rate", rates);
    add_arrays(results, found, heads);
    if (input_.request.form == Form::pictures)
      results.pictures.push_back({"sinks", heads_page(results, "sinks.first_weight", true)});
    if (input_.request.form == Form::text) add_text(results, heads, rates);
    return results;
  }

 private:
  std::vector<SinkRow> rows() {
    std::vector<SinkRow> found;
    for (HeadSink& each : weights_.finish()) found.push_back({std::move(each), {}, {}, {}, {}});
    const std::vector<analysis::HeadWriteRatio> ratios = ratios_.finish();  // in the order of `found`
    for (std::size_t i = 0; i < ratios.size(); ++i) found.at(i).write_ratio = ratios[i].mean();
    const auto above = [&](const std::optional<double>& alpha) {
      return alpha ? std::optional(*alpha > input_.request.sink_epsilon) : std::nullopt;
    };
    for (SinkRow& row : found) {
      row.at_first = above(row.sink.first_weight);
      row.at_any = above(row.sink.weight);
      if (row.write_ratio && std::isfinite(*row.write_ratio))
        row.idle = *row.write_ratio < input_.request.idle_ratio;
    }
    return found;
  }

  Table heads_of(std::span<const SinkRow> found) const {
    TableRows rows{"sinks", columns_of(kSinkColumns, {"input", "component", "layer", "head", "name", "rows",
                                                      "first_weight", "null_weight", "weight", "write_ratio",
                                                      "sink", "idle", "position", "token"})};
    const bool is_text = input_.request.form == Form::text;
    for (const SinkRow& row : found) {
      const HeadSink& sink = row.sink;
      const input::Sequence& sequence = input_.shown.sequences[sink.input];
      const model::Component component = input_.config().layers[sink.head.layer].component;
      const auto tokens = forward::sides_of(component, sequence).key_tokens();
      Cell token = sink.position ? token_cell(tokens, *sink.position) : Cell();
      if (auto* const text = std::get_if<std::string>(&token); text != nullptr && is_text)
        *text = input_.vocabulary.label(*text, input_.request.strip_markers);
      rows.add(sequence.id, analysis::head_cells(input_.config(), sink.head), sink.rows, sink.first_weight,
               sink.null_weight, sink.weight, row.write_ratio, flag_cell(row.at_any), flag_cell(row.idle),
               sink.position, token);
    }
    return rows.table();
  }

  /// Returns a table with a row for each input, and a last row for all inputs.
  Table rates_of(std::span<const SinkRow> found) const {
    TableRows rows{"sink_rates", columns_of(kSinkColumns, {"input", "heads", "sink_heads", "sink_rate",
                                                           "idle_heads", "sink_epsilon", "idle_ratio"})};
    const auto add = [&](const Cell& input, const SinkCounts& counts) {
      const std::optional<double> rate =
          counts.pairs == 0
              ? std::nullopt
              : std::optional(static_cast<double>(counts.sink_pairs) / static_cast<double>(counts.pairs));
      rows.add(input, counts.heads, counts.sinks, rate, counts.idle, input_.request.sink_epsilon,
               input_.request.idle_ratio);
    };
    const std::size_t heads = input_.selection.heads.size();
    for (std::size_t first = 0; first < found.size(); first += heads)
      add(input_.shown.sequences[first / heads].id, counts_of(found.subspan(first, heads)));
    add(Cell(), counts_of(found));
    return rows.table();
  }

  /// Adds the arrays sinks_NAME_I of each input I, with the axes of HeadAxes.
  void add_arrays(Results& results, std::span<const SinkRow> found, const Table& heads) const {
    const Shape shape = analysis::HeadAxes(input_.selection.heads).shape();
    const std::size_t count = input_.selection.heads.size();
    for (std::size_t first = 0; first < found.size(); first += count) {
      const std::size_t input = first / count;
      for (const char* const name : {"first_weight", "null_weight", "weight", "write_ratio", "position"})
        results.arrays.push_back(
            {fmt::format("sinks_{}_{}", name, input), column_array(heads, name, shape, first)});
    }
  }

  void add_text(Results& results, const Table& heads, const Table& rates) const {
    const bool several = input_.shown.sequences.size() > 1;
    const Table sorted = select_rows(heads, "weight", input_.request.top.value_or(kTextRows));
    std::vector<std::string> columns = {"name",         "weight",      "position",    "token", "sink",
                                        "first_weight", "null_weight", "write_ratio", "idle"};
    if (several) columns.insert(columns.begin(), "input");
    const std::size_t left = heads.rows - sorted.rows;
    append_heads(
        results.text,
        {fmt::format("Sinks (mean weight on a key above {}) and idle heads (length of what they write below "
                     "{} of the stream)",
                     input_.request.sink_epsilon, input_.request.idle_ratio),
         text_columns(sorted, columns), 3},
        left);
    std::vector<std::string> rate_columns = {"heads", "sink_heads", "sink_rate", "idle_heads"};
    if (several) rate_columns.insert(rate_columns.begin(), "input");
    results.text.emplace_back(
        TextTable{fmt::format("Sink rate: share of heads whose weight on key 0 is above {}{}",
                              input_.request.sink_epsilon, several ? " (last line: all inputs)" : ""),
                  select_columns(several ? rates : select_rows(rates, "", 1), rate_columns), 3});
    const std::size_t null = *heads.find("null_weight");
    std::vector<Cell> cells(heads.columns.size());
    for (std::size_t row = 0; row < heads.rows; ++row) {
      heads.row(row, cells);
      if (number_of(cells[null]) <= input_.request.sink_epsilon || is_undefined(number_of(cells[null])))
        continue;
      results.text.emplace_back(TextLine{
          "Short input", ": even weights are a sink at key 0 too (null_weight); use 64 tokens or more"});
      break;
    }
  }

  analysis::SinkWeights weights_;
  analysis::WriteRatios ratios_;
};

}  // namespace

constexpr std::array<Definition, 14> kSinkColumns = {
    {{"first_weight", "", "[0, 1]", "null_weight",
      "alpha of key 0; alpha_k is the mean weight on key k over the queries that may attend to it",
      "Gu et al. 2024"},
     {"null_weight", "", "[0, 1]", "",
      "`first_weight` with even weights: mean of 1 / keys over the same queries"},
     {"weight", "", "[0, 1]", "1 / keys for even weights",
      "largest alpha of a key; keys with less than half as many queries as the key with most are left out",
      "Gu et al. 2024"},
     {"write_ratio", "", "[0, inf)", "",
      "mean over positions of |w_i| / |x_i|: w = z W_O of the head, x is the residual stream to which the "
      "attention output is added",
      "after Kobayashi et al. 2020"},
     {"sink", "", "true or false", "", "whether `weight` is above --sink-epsilon", "Gu et al. 2024"},
     {"idle", "", "true or false", "", "whether `write_ratio` is below --idle-ratio"},
     {"position", "", "from 0", "", "position of the key of `weight`"},
     {"token", "", "", "", "token of the key of `weight`"},
     {"heads", "", "from 0", "", "number of selected heads"},
     {"sink_heads", "", "from 0", "",
      "number of heads that are sinks at key 0 (for all inputs: in each input)"},
     {"sink_rate", "", "[0, 1]", "",
      "share of heads whose `first_weight` is above --sink-epsilon; for all inputs: mean over inputs",
      "Gu et al. 2024"},
     {"idle_heads", "", "from 0", "", "number of idle heads (for all inputs: idle in each input)"},
     {"sink_epsilon", "", "[0, 1]", "", "--sink-epsilon"},
     {"idle_ratio", "", "[0, inf)", "", "--idle-ratio"}}};

std::unique_ptr<Analysis> make_sinks(const AnalysisInput& input) {
  return std::make_unique<SinksAnalysis>(input);
}

}  // namespace attnctl::inspect
