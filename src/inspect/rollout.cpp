#include "analysis/mixing/rollout.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "analysis/patterns/adapters.hpp"
#include "base/error.hpp"
#include "inspect/catalogue.hpp"
#include "inspect/describe.hpp"

namespace attnctl::inspect {
namespace {

using Positions = std::vector<std::size_t>;

Positions all_positions(std::size_t count) {
  Positions all(count);
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

/// Returns the positions that --rollout-from names in each input (see find_in_inputs), or all positions if
/// the option is not given. Throws Error(usage) if no input has one.
std::vector<Positions> find_positions(const AnalysisInput& input) {
  const std::string& from = input.request.rollout_from;
  std::vector<Positions> positions;
  std::vector<const input::Sequence*> sequences;
  for (const input::Sequence& sequence : input.shown.sequences) {
    sequences.push_back(&sequence);
    if (from.empty()) positions.push_back(all_positions(sequence.queries()));
  }
  if (!from.empty()) positions = find_in_inputs(input, "--rollout-from", from, sequences);
  if (std::ranges::all_of(positions, &Positions::empty))
    fail(Status::usage, "--rollout-from: \"{}\" is in none of the inputs", escaped(from));
  return positions;
}

std::string strongest(const Tensor& rows, std::size_t row, const std::vector<std::string>& labels) {
  constexpr std::size_t kMost = 5;
  const std::size_t n = rows.shape[1];
  const std::span<const float> values = std::get<std::span<const float>>(rows.values).subspan(row * n, n);
  Positions order = all_positions(n);
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return values[a] > values[b]; });
  std::string text;
  for (std::size_t i = 0; i < std::min(kMost, n); ++i)
    text += fmt::format("{}{}:{} {:.2f}", i == 0 ? "" : "  ", order[i], labels[order[i]], values[order[i]]);
  return text;
}

/// Values from positions of the last layer to input tokens, [positions, n], by index of the input.
using PositionRows = std::map<std::size_t, Tensor>;

/// Base class of rollout and flow. Their results have one row per position of the last layer that
/// --rollout-from selects (default: all), and one column per input token.
class FromPositions : public Analysis {
 public:
  /// @param name  name of the arrays and the picture
  FromPositions(const AnalysisInput& input, std::string name)
      : Analysis(input), name_(std::move(name)), positions_(find_positions(input)) {}
  HeadsSeen heads_seen() const override { return HeadsSeen::all; }
  /// Returns the number of values of one section (see add_section).
  std::uint64_t values() const override {
    std::uint64_t count = 0;
    for (std::size_t s = 0; s < positions_.size(); ++s)
      count += positions_[s].size() * (2 + sequence(s).queries());
    return count;
  }

 protected:
  [[nodiscard]] const input::Sequence& sequence(std::size_t s) const { return input_.shown.sequences[s]; }

  /// Adds a section, with one record for each row of the arrays, and a table with this name. The definition
  /// is that of the column `weight`.
  void add_section(Results& results, const std::string& name, const PositionRows& found,
                   std::span<const Definition> weight) const {
    List records;
    std::vector<LongBlock> blocks;
    for (const auto& [s, rows] : found) {
      const std::vector<std::string>& tokens = sequence(s).tokens;
      blocks.push_back({row_of(sequence(s).id), rows, query_and_key(tokens, tokens, positions_[s])});
      for (std::size_t r = 0; r < positions_[s].size(); ++r)
        records.emplace_back(Record{
            {{"input", sequence(s).id}, {"query", positions_[s][r]}, {"weight", item_of(rows, r, 1)}}});
    }
    results.document.sections.push_back({name, name, std::move(records)});
    results.tables.push_back(
        long_table(name, columns_of(weight, {"input", "query", "key", "query_token", "key_token", "weight"}),
                   std::move(blocks)));
  }

  /// Adds the array NAME_I of input I, the array NAME_from_I if --rollout-from is given, and a heatmap.
  void add_arrays(Results& results, std::size_t s, const Tensor& rows) const {
    const Positions& positions = positions_[s];
    results.arrays.push_back({fmt::format("{}_{}", name_, s), rows});
    if (!input_.request.rollout_from.empty()) {
      results.arrays.push_back(
          {fmt::format("{}_from_{}", name_, s),
           make_tensor({positions.size()}, std::vector<std::int64_t>(positions.begin(), positions.end()))});
    }
    if (results.pictures.empty()) results.pictures.push_back({name_, HeatmapPage()});
    HeatmapPage& page = std::get<HeatmapPage>(results.pictures.front().page);
    page.title = name_ == "flow" ? "Attention Flow" : "Attention Rollout";
    page.scale = {.diverging = false, .label = "Attention " + name_};
    const std::vector<std::string> tokens = token_labels(input_, sequence(s));
    std::vector<std::string> from;
    for (const std::size_t position : positions) from.push_back(tokens[position]);
    page.heatmaps.push_back({"Input " + sequence(s).id, "Input token", "Position of the last layer", tokens,
                             std::move(from), rows});
    page.fit_scale(true);
  }

  [[nodiscard]] TextTable strongest_text(std::size_t s, std::string title,
                                         const std::vector<std::pair<std::string, Tensor>>& shown) const {
    const std::vector<std::string> tokens = token_labels(input_, sequence(s));
    TableRows rows{"", {"from", "token"}};
    for (const auto& [name, array] : shown) rows.columns.push_back(name);
    for (std::size_t r = 0; r < positions_[s].size(); ++r) {
      std::vector<Cell>& row = rows.add(positions_[s][r], tokens[positions_[s][r]]);
      for (const auto& [name, array] : shown) row.emplace_back(strongest(array, r, tokens));
    }
    return {std::move(title), rows.table()};
  }

  std::string name_;
  std::vector<Positions> positions_;  // [sequences]: the positions that are rows of the results
};

/// What the text columns `last layer` and `rollout` show.
constexpr std::string_view kShares = "share of each input token by the last layer alone, and by all layers";

/// Attention rollout. It is computed over tokens even with --by-word, because it follows the residual stream
/// of tokens; only the final result is pooled over words.
class RolloutAnalysis final : public FromPositions {
 public:
  explicit RolloutAnalysis(const AnalysisInput& input)
      : FromPositions(input, "rollout"), rollout_(input.request.rollout) {}

  std::vector<forward::Observer*> observers() override { return {&rollout_}; }
  std::uint64_t values() const override { return 2 * FromPositions::values(); }

  Results finish() override {
    Results results;
    PositionRows found;
    PositionRows last_layer;
    const std::vector<OwnedMatrix<double>> rolled = rollout_.finish();
    const std::vector<OwnedMatrix<double>> raw = rollout_.take_last_layer();
    for (std::size_t s = 0; s < rolled.size(); ++s) {
      if (positions_[s].empty()) continue;
      const Tensor& rows = found[s] = asked_rows(rolled[s], s);
      const Tensor& raw_rows = last_layer[s] = asked_rows(raw[s], s);
      results.text.emplace_back(text(s, rows, raw_rows));
      add_arrays(results, s, rows);
    }
    add_section(results, "rollout", found, kRolloutColumns);
    add_section(results, "rollout_last_layer", last_layer, kRolloutColumns);
    return results;
  }

 private:
  [[nodiscard]] Tensor asked_rows(const OwnedMatrix<double>& tokens, std::size_t s) const {
    std::optional<OwnedMatrix<double>> words;
    if (input_.request.by_word)
      words = analysis::pool_matrix(tokens.view(), input_.units[s], input_.request.pool_from);
    const OwnedMatrix<double>& values = words ? *words : tokens;
    std::vector<float> rows;
    rows.reserve(positions_[s].size() * values.cols());
    for (const std::size_t position : positions_[s]) {
      const std::span<const double> row = values.view().row(position);
      rows.insert(rows.end(), row.begin(), row.end());
    }
    return make_tensor({positions_[s].size(), values.cols()}, std::move(rows));
  }

  [[nodiscard]] TextTable text(std::size_t s, const Tensor& rolled, const Tensor& raw) const {
    const std::vector<std::string> tokens = token_labels(input_, sequence(s));
    const Positions& positions = positions_[s];
    const std::string input = escaped(sequence(s).id);
    if (positions.size() > 1) {
      return strongest_text(s,
                            fmt::format("Rollout of input \"{}\" (position:token share): {}", input, kShares),
                            {{"rollout", rolled}, {"last layer", raw}});
    }
    TableRows rows{"", {"position", "token", "last layer", "rollout"}};
    for (std::size_t key = 0; key < tokens.size(); ++key)
      rows.add(key, tokens[key], raw.at(key), rolled.at(key));
    return {fmt::format("Rollout from {}:{} (input \"{}\"): {}", positions[0], tokens[positions[0]], input,
                        kShares),
            rows.table(), 3};
  }

  analysis::Rollout rollout_;
};

class FlowAnalysis final : public FromPositions {
 public:
  explicit FlowAnalysis(const AnalysisInput& input)
      : FromPositions(input, "flow"), flow_(input.request.rollout) {}

  std::vector<forward::Observer*> observers() override { return {&flow_}; }

  Results finish() override {
    Results results;
    PositionRows found;
    const std::vector<OwnedMatrix<double>> flows = flow_.finish(positions_, input_.context.pool);
    for (std::size_t s = 0; s < flows.size(); ++s) {
      if (positions_[s].empty()) continue;
      const Tensor& rows = found[s] = float_array(flows[s]);
      results.text.emplace_back(
          strongest_text(s,
                         fmt::format("Attention flow of input \"{}\" (position:token largest flow, 0 to 1)",
                                     escaped(sequence(s).id)),
                         {{"flow", rows}}));
      add_arrays(results, s, rows);
    }
    add_section(results, "flow", found, kFlowColumns);
    return results;
  }

 private:
  analysis::AttentionFlow flow_;
};

}  // namespace

constexpr std::array<Definition, 1> kRolloutColumns = {
    {{"weight", "", "[0, 1]", "1 / keys for even weights",
      "share of input token `key` in position `query` of the last layer; rollout_last_layer: weight in "
      "the last layer, combined over its heads by --rollout-fusion",
      "Abnar and Zuidema 2020"}}};
constexpr std::array<Definition, 1> kFlowColumns = {
    {{"weight", "", "[0, 1]", "", "largest flow from position `query` of the last layer to input token `key`",
      "Abnar and Zuidema 2020"}}};

std::unique_ptr<Analysis> make_rollout(const AnalysisInput& input) {
  return std::make_unique<RolloutAnalysis>(input);
}

std::unique_ptr<Analysis> make_flow(const AnalysisInput& input) {
  for (const input::Sequence& sequence : input.batch.sequences) analysis::require_flow_length(sequence);
  return std::make_unique<FlowAnalysis>(input);
}

}  // namespace attnctl::inspect
