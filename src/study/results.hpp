#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "results/results.hpp"
#include "study/role_evidence.hpp"
#include "study/state/moments.hpp"

namespace attnctl {

/// A field of each head's record in `heads` (JSON), with its columns in heads.csv.
struct HeadField {
  std::string name;
  std::vector<Value> values;                                       // [heads]
  std::vector<std::pair<std::string, std::vector<Cell>>> columns;  // name and cells [heads]
};

/// Returns a number as a float32 cell. The cell is undefined if the value is missing or not finite.
[[nodiscard]] Cell real_cell(const std::optional<double>& value);
[[nodiscard]] Cell count_cell(std::uint64_t count);

/// Returns a field with the record {"mean", "variance", "count"}; its CSV columns are NAME, NAME_variance and
/// NAME_count.
[[nodiscard]] HeadField moments_field(std::string name, const std::vector<MomentsSummary>& summaries);
/// Returns a field with one value per head and a CSV column of the same name.
[[nodiscard]] HeadField cell_field(std::string name, const std::vector<Cell>& cells);

/// A head with a large value of a measure, with the null of that value.
struct StrongHead {
  std::string what;  // "previous", "[SEP]"
  std::string head;
  double value = 0;
  Cell null;  // undefined if no null is known
  std::uint64_t rows = 0;
};

/// Results of the measures after the last block.
struct StudyResults : Results {
  std::vector<RoleEvidence> evidence;       // evidence from which the roles are decided
  bool tell_roles = false;                  // true if the measure `roles` ran
  std::vector<RoleEvidence> null_evidence;  // evidence from random models
  std::vector<HeadField> head_fields;
  std::vector<StrongHead> strongest;  // for `summary` and the text output
  Record summary;                     // additional fields of `summary`

  /// Appends the results of another measure.
  void append(StudyResults&& other);
};

/// Adds the three heads with the largest values, in descending order. Equal values keep their order.
void add_strongest(StudyResults& results, std::vector<StrongHead> heads);

}  // namespace attnctl
