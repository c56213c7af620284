#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "results/result.hpp"
#include "study/measure.hpp"
#include "study/measures/relations/group_scores.hpp"

namespace attnctl {

/// A head of the study by its number, or none: its name in JSON, component, layer and head in CSV.
struct RowHead {
  std::optional<std::size_t> number;
};

/// A row of results for every format: a record of JSON, a row of CSV. An interval is a pair in JSON, and
/// NAME_low and NAME_high in CSV.
using ResultField = std::pair<std::string, std::variant<Cell, std::optional<ConfidenceInterval>, RowHead>>;
using ResultRow = std::vector<ResultField>;

/// Adds them as a section of the document and as a table of CSV, which borrows the shape.
void add_rows(StudyResults& results, const StudyShape& shape, const std::string& name, std::string record,
              std::vector<ResultRow> rows);

/// "0.71", or "0.71 (0.66 to 0.75)", for people; undefined where there is nothing.
[[nodiscard]] Cell score_text(const std::optional<double>& share,
                              const std::optional<ConfidenceInterval>& interval = {});

}  // namespace attnctl
