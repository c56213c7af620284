#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "results/results.hpp"
#include "study/measure.hpp"
#include "study/measures/relations/group_scores.hpp"

namespace attnctl {

/// A head of the study by its index, or no head. JSON has its name; CSV has component, layer and head.
struct RowHead {
  std::optional<std::size_t> number;
};

/// A row of results for all formats: a record in JSON, a row in CSV. An interval is a pair in JSON, and the
/// columns NAME_low and NAME_high in CSV.
using ResultField = std::pair<std::string, std::variant<Cell, std::optional<ConfidenceInterval>, RowHead>>;
using ResultRow = std::vector<ResultField>;

/// Adds the rows as a section of the document and as a CSV table. `shape` is borrowed.
void add_rows(StudyResults& results, const StudyShape& shape, const std::string& name, std::string record,
              std::vector<ResultRow> rows);

/// Returns a score as text: "0.710", or "0.710 (0.660 to 0.750)". Undefined if `share` is missing.
[[nodiscard]] Cell score_text(const std::optional<double>& share,
                              const std::optional<ConfidenceInterval>& interval = {});

}  // namespace attnctl
