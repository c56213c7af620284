#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <doctest/doctest.h>

#include "base/pool.hpp"
#include "inspect/inspection.hpp"
#include "support/golden.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::inspect {
namespace {

Table largest_value(const model::Model& model, const input::Batch& batch, std::size_t panel_rows) {
  inspect::InspectRequest request;
  request.form = inspect::Form::tables;
  request.includes = inspect::resolve_includes("largest_value", true, inspect::Given::inputs, request.form);
  request.selection = forward::Selection::all(model.config());
  Pool pool(2);
  Warnings warnings;
  const tokenizer::Vocabulary vocabulary;
  inspect::Inspection inspection(request, {.model = model, .vocabulary = vocabulary, .batch = batch},
                                 {.pool = pool, .warnings = warnings, .panel_rows = panel_rows});
  return inspection.run().tables.front();
}

TEST_CASE("the weight on the key with the largest value is that of NumPy") {
  const test::Golden golden(ATTNCTL_SOURCE_DIR "/tests/golden/largest_value");
  for (const std::string name : {"attention", "attention-masks", "attention-3d"}) {
    CAPTURE(name);
    const std::string folder = ATTNCTL_SOURCE_DIR "/tests/golden/" + name;
    Warnings warnings;
    const model::Model model = test::bind_model(folder, warnings);
    const test::Golden inputs(folder);
    input::Batch batch;
    for (std::size_t i = 0; i < inputs.inputs(); ++i) batch.sequences.push_back(inputs.sequence(i));
    const auto rows = golden.integers(name + "_rows");
    const auto share = golden.array(name + "_share").values;
    const auto null_mean = golden.array(name + "_null_mean").values;
    for (const std::size_t panel_rows : {std::size_t{2}, std::size_t{128}}) {
      const Table table = largest_value(model, batch, panel_rows);
      CHECK(table.columns ==
            std::vector<Column>{"component", "layer", "head", "name", "rows", "share", "null_mean"});
      REQUIRE(table.rows == rows.size());
      std::vector<Cell> cells(table.columns.size());
      for (std::size_t head = 0; head < table.rows; ++head) {
        table.row(head, cells);
        CHECK(cells[2] == Cell(static_cast<std::int64_t>(head)));
        CHECK(cells[4] == Cell(rows[head]));
        CHECK(std::get<float>(cells[5]) == doctest::Approx(share[head]).epsilon(1e-6));
        CHECK(std::get<float>(cells[6]) == doctest::Approx(null_mean[head]).epsilon(1e-6));
      }
    }
  }
}

TEST_CASE("docs/architecture.md shows the source of this analysis") {
  const std::string source = test::slurp(ATTNCTL_SOURCE_DIR "/src/inspect/largest_value.cpp");
  const std::string page = test::slurp(ATTNCTL_SOURCE_DIR "/docs/architecture.md");
  const std::size_t begin = source.find("/// For each head:");
  const std::size_t end = source.find("}  // namespace attnctl::inspect");  // after an empty line
  REQUIRE(begin < end);
  CHECK(page.find(source.substr(begin, end - begin - 1)) != std::string::npos);
}

}  // namespace
}  // namespace attnctl::inspect
