#pragma once

#include "attnctl/base/result.hpp"
#include "attnctl/study/measure.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "study/measures/group_scores.hpp"

namespace attnctl {

/// A head of the study by its number, or none: its name in JSON, component, layer and head in CSV.
struct ScoredHead {
  std::optional<std::size_t> number;
};

/// A row of results for every format. An interval is a pair in JSON, and NAME_low and NAME_high in CSV.
using ScoreField = std::pair<std::string, std::variant<Cell, Interval, ScoredHead>>;
using ScoreRow = std::vector<ScoreField>;

[[nodiscard]] Section score_section(std::string name, std::string record, const StudyShape& shape,
                                    const std::vector<ScoreRow>& rows);
[[nodiscard]] Table score_table(std::string name, const StudyShape& shape, const std::vector<ScoreRow>& rows);

/// An interval as evidence of roles has it.
[[nodiscard]] std::optional<ConfidenceInterval> confidence(const Interval& interval);

/// "0.71", or "0.71 (0.66 to 0.75)", for people; undefined where there is nothing.
[[nodiscard]] Cell score_text(const std::optional<double>& share, const Interval& interval = {});

}  // namespace attnctl
