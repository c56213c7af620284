#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/dtype.hpp"
#include "base/error.hpp"
#include "checkpoint/checkpoint.hpp"
#include "support/bytes.hpp"
#include "support/csv.hpp"
#include "support/run.hpp"
#include "support/temp_dir.hpp"

using attnctl::checkpoint::Checkpoint;
using attnctl::test::csv_rows;
using attnctl::test::CsvRow;
using attnctl::test::run_attnctl;
using attnctl::test::RunResult;
using attnctl::test::slurp;
using attnctl::test::TempDir;
using nlohmann::json;

namespace {

/// Adds the cells of a JSON value in the order of the elements; null is empty.
void flatten(const json& value, std::vector<std::string>& cells) {
  if (value.is_array()) {
    for (const json& each : value) flatten(each, cells);
  } else {
    cells.push_back(value.is_null() ? "" : value.is_string() ? value.get<std::string>() : value.dump());
  }
}

/// Returns whether two cells have the same text or the same number.
bool same_cell(const std::string& a, const std::string& b) {
  if (a == b) return true;
  char* end_a = nullptr;
  char* end_b = nullptr;
  const float first = std::strtof(a.c_str(), &end_a);
  const float second = std::strtof(b.c_str(), &end_b);
  return !a.empty() && !b.empty() && *end_a == 0 && *end_b == 0 && first == second;
}

/// Returns the numbers of a column, in rows in which column `key` is `value`; NaN for empty cells.
std::vector<double> numbers_of(const std::vector<CsvRow>& rows, const std::string& column,
                               const std::string& key, const std::string& value) {
  std::vector<double> numbers;
  for (const CsvRow& row : rows) {
    if (!key.empty() && row.at(key) != value) continue;
    const std::string& cell = row.at(column);
    numbers.push_back(cell.empty() ? std::nan("") : std::stod(cell));
  }
  return numbers;
}

}  // namespace

TEST_CASE("JSON, CSV and NPZ of a run have the same numbers under the same names") {
  const TempDir folder;
  const auto run = [&](const std::string& format, const std::string& file) {
    const std::string path = (folder.path() / file).string();
    const RunResult result =
        run_attnctl({"analyze", "data/tiny-bert", "The cat sat.", "--include",
                     "metrics,patterns,weights,subspaces,composition,map,contributions,mixing,largest_value,"
                     "sinks,activations",
                     "--format", format, "-o", path, "--quiet"});
    REQUIRE_MESSAGE(result.status == 0, result.err);
    return path;
  };
  const json document = json::parse(slurp(run("json", "all.json")));
  const std::string tables = run("csv", "tables");
  attnctl::Warnings warnings;
  const std::unique_ptr<Checkpoint> arrays =
      attnctl::checkpoint::open_checkpoint(run("npz", "all.npz"), warnings);

  // Each key of a JSON record that is also a column of the table has the cells of this column.
  std::size_t compared = 0;
  for (const auto& [section_name, records] : document.items()) {
    const std::string section = section_name;
    const std::filesystem::path file = std::filesystem::path(tables) / (section + ".csv");
    if (!std::filesystem::exists(file) || section == "inputs" || section == "map") continue;
    const std::vector<CsvRow> rows = csv_rows(slurp(file.string()));
    for (const auto& item : records.front().items()) {
      const std::string& key = item.key();
      CAPTURE(section);
      CAPTURE(key);
      if (!rows.front().contains(key)) continue;
      std::vector<std::string> cells;
      for (const json& record : records) flatten(record.at(key), cells);
      if (section == "composition") std::erase(cells, "");  // the table leaves out pairs without a score
      if (cells.size() != rows.size()) continue;            // a key of the whole record, such as `circuit`
      for (std::size_t i = 0; i < rows.size(); ++i)
        CHECK_MESSAGE(same_cell(cells[i], rows[i].at(key)), cells[i] << " and " << rows[i].at(key));
      ++compared;
    }
  }
  CHECK(compared > 60);

  struct Same {
    std::string array, table, column, key, value;
  };
  std::vector<Same> same = {
      {"pattern_0", "patterns", "weight", "", ""},
      {"qk_similarity", "subspace_similarity", "similarity", "circuit", "qk"},
      {"ov_similarity", "subspace_similarity", "similarity", "circuit", "ov"},
      {"qk_singular_values", "singular_values", "singular_value", "circuit", "qk"},
      {"w_k_projection_kernel", "projection_kernel", "kernel", "projection", "w_k"},
      {"q_composition_score", "composition", "score", "kind", "q"},
      {"v_composition_excess", "composition", "excess", "kind", "v"},
      {"contributions_norm_0", "contributions", "norm", "", ""},
      {"contributions_explained_0", "contributions", "explained", "", ""},
      {"mixing_0", "mixing", "ratio", "", ""},
      {"largest_value_share", "largest_value", "share", "", ""},
      {"sinks_first_weight_0", "sinks", "first_weight", "", ""},
      {"sinks_null_weight_0", "sinks", "null_weight", "", ""},
      {"sinks_weight_0", "sinks", "weight", "", ""},
      {"sinks_position_0", "sinks", "position", "", ""},
      {"sinks_write_ratio_0", "sinks", "write_ratio", "", ""},
      {"activations_value_0", "activations", "value", "", ""},
      {"activations_position_0", "activations", "position", "", ""},
      {"activations_dimension_0", "activations", "dimension", "", ""},
      {"w_o_effective_rank", "subspaces", "w_o_effective_rank", "", ""},
      {"ov_copying", "subspaces", "ov_copying", "", ""},
      {"qk_cluster_order", "map", "order", "similarity", "qk"},
  };
  for (const json& metric : document.at("metrics")) {
    const std::string name = metric.at("name");
    same.push_back({name, "heads", name, "", ""});
  }
  for (const Same& each : same) {
    CAPTURE(each.array);
    const std::size_t index = arrays->find(each.array);
    REQUIRE(index != Checkpoint::npos);
    const attnctl::checkpoint::TensorView tensor = arrays->tensor(index);
    std::vector<double> got(tensor.bytes.size() / attnctl::size_of(tensor.dtype));
    attnctl::convert(tensor.dtype, tensor.bytes, got);
    if (each.table == "composition") std::erase_if(got, [](double number) { return std::isnan(number); });
    const std::vector<double> want =
        numbers_of(csv_rows(slurp(tables + "/" + each.table + ".csv")), each.column, each.key, each.value);
    REQUIRE(got.size() == want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      CHECK(std::isnan(got[i]) == std::isnan(want[i]));
      if (!std::isnan(want[i])) CHECK(static_cast<float>(got[i]) == static_cast<float>(want[i]));
    }
  }
}
