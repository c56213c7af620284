#include "inspect/tables.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "base/error.hpp"
#include "inspect/describe.hpp"

namespace attnctl::cli {
namespace {

Cell cell(std::size_t number) {
  return static_cast<std::int64_t>(number);
}
Cell token_cell(const Sequence& sequence, std::size_t position) {
  return position < sequence.tokens.size() ? Cell(sequence.tokens[position]) : Cell();
}

/// Returns one row per pair of heads. Across layers, the layers of the pair are two additional columns, so
/// that head numbers remain integers.
Table similarity_table(const WeightsAnalysis& weights, const ModelConfig& config) {
  std::vector<std::string> columns = {"circuit", "component", "layer", "head_a", "head_b", "similarity"};
  const bool across = !weights.qk.similarity.empty() && !weights.qk.similarity.front().layer.has_value();
  if (across) columns.insert(columns.end(), {"layer_a", "layer_b"});
  std::vector<std::vector<Cell>> rows;
  const auto add = [&](const CircuitAnalysis& circuit) {
    for (const SubspaceSimilarity& each : circuit.similarity) {
      for (std::size_t a = 0; a < each.heads.size(); ++a) {
        for (std::size_t b = 0; b < each.heads.size(); ++b) {
          std::vector<Cell>& row = rows.emplace_back();
          row = {std::string(name_of(circuit.circuit)),
                 component_cell(config, each.heads[a].layer),
                 across ? Cell() : number_cell(config, *each.layer),
                 cell(each.heads[a].head),
                 cell(each.heads[b].head),
                 cell_of(each.values(a, b))};
          if (across)
            row.insert(row.end(),
                       {number_cell(config, each.heads[a].layer), number_cell(config, each.heads[b].layer)});
        }
      }
    }
  };
  add(weights.qk);
  if (weights.ov) add(*weights.ov);
  return make_table("subspace_similarity", std::move(columns), std::move(rows));
}

Table singular_values_table(const WeightsAnalysis& weights, const ModelConfig& config) {
  std::vector<std::vector<Cell>> rows;
  const auto add = [&](const CircuitAnalysis& circuit) {
    for (const HeadSpectrum& head : circuit.heads) {
      for (std::size_t i = 0; i < head.singular_values.size(); ++i) {
        rows.push_back({std::string(name_of(circuit.circuit)), component_cell(config, head.head.layer),
                        number_cell(config, head.head.layer), cell(head.head.head), cell(i),
                        cell_of(head.singular_values[i])});
      }
    }
  };
  add(weights.qk);
  if (weights.ov) add(*weights.ov);
  return make_table("singular_values", {"circuit", "component", "layer", "head", "rank", "value"},
                    std::move(rows));
}

/// Returns one row per token. If there are targets, the last column names the side of the token.
Table inputs_table(const Batch& batch) {
  const bool targets = !batch.sequences.empty() && batch.sequences.front().target != nullptr;
  std::vector<std::vector<Cell>> rows;
  const auto add = [&](const std::string& id, const Sequence& sequence, const char* side) {
    for (std::size_t i = 0; i < sequence.queries(); ++i) {
      std::vector<Cell>& row = rows.emplace_back();
      row = {id, cell(i), token_cell(sequence, i), sequence.ids.empty() ? Cell() : Cell(sequence.ids[i])};
      if (targets) row.emplace_back(std::string(side));
    }
  };
  for (const Sequence& sequence : batch.sequences) {
    add(sequence.id, sequence, "input");
    if (sequence.target) add(sequence.id, *sequence.target, "target");
  }
  std::vector<std::string> columns = {"input", "position", "token", "id"};
  if (targets) columns.emplace_back("side");
  return make_table("inputs", std::move(columns), std::move(rows));
}

/// Returns one row per attention weight. Rows are computed while they are written, because there can be
/// millions.
Table patterns_table(const RunResults& results) {
  struct Block {
    const InputArray* array;
    std::size_t first_row;
  };
  std::vector<Block> blocks;
  std::size_t rows = 0;
  for (const InputArray& array : results.arrays) {
    if (array.name != "pattern") continue;
    blocks.push_back({&array, rows});
    rows += array.array.size();
  }
  Table table{"patterns",
              {"input", "component", "layer", "head", "query", "key", "query_token", "key_token", "weight"},
              rows,
              {}};
  table.row = [&results, blocks](std::size_t index, std::span<Cell> cells) {
    const auto after =
        std::upper_bound(blocks.begin(), blocks.end(), index,
                         [](std::size_t row, const Block& block) { return row < block.first_row; });
    const Block& block = *(after - 1);
    const Sides sides = results.sides(*block.array);
    const std::size_t place = index - block.first_row;
    const std::size_t key = place % sides.keys();
    const std::size_t query = place / sides.keys() % sides.queries();
    const HeadId head = results.heads_of(*block.array)[place / sides.keys() / sides.queries()];
    const float weight = std::get<std::span<const float>>(block.array->array.values)[place];
    const std::span<const std::string> key_tokens = sides.key_tokens();
    Cell row[] = {results.batch.sequences[block.array->sequence].id,
                  component_cell(results.config(), head.layer),
                  number_cell(results.config(), head.layer),
                  cell(head.head),
                  cell(query),
                  cell(key),
                  token_cell(sides.queries_of, query),
                  key < key_tokens.size() ? Cell(key_tokens[key]) : Cell(),
                  weight};
    std::ranges::move(row, cells.begin());
  };
  return table;
}

}  // namespace

void require_tables(const Includes& includes) {
  struct Row {
    bool Includes::*member;
    const char* name;
  };
  for (const Row& row :
       {Row{&Includes::scores, "scores"}, Row{&Includes::queries, "queries"}, Row{&Includes::keys, "keys"},
        Row{&Includes::values, "values"}, Row{&Includes::z, "z"}, Row{&Includes::output, "output"},
        Row{&Includes::logits, "logits"}, Row{&Includes::directions, "directions"},
        Row{&Includes::circuits, "circuits"}}) {
    if (includes.*(row.member))
      fail(Status::usage, "csv has no table for {}; use json, jsonl or npz", row.name);
  }
  for (const PartRow* part : includes.parts) {
    if (!part->tables) fail(Status::usage, "csv has no table for {}; use json, jsonl or npz", part->include);
  }
}

std::vector<Table> analysis_tables(const RunResults& results) {
  std::vector<Table> tables;
  if (results.has_heads()) tables.push_back(results.heads(HeadColumns::integers));
  if (results.weights && results.includes.weights) {
    tables.push_back(similarity_table(*results.weights, results.config()));
    tables.push_back(singular_values_table(*results.weights, results.config()));
  }
  if (results.includes.patterns) tables.push_back(patterns_table(results));
  for (const Results& part : results.parts)
    tables.insert(tables.end(), part.tables.begin(), part.tables.end());
  if (!results.batch.sequences.empty()) tables.push_back(inputs_table(results.batch));
  return tables;
}

}  // namespace attnctl::cli
