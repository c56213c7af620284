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

/// Fields of every head's record in `heads` (JSON), and the columns of heads.csv that they become.
struct HeadField {
  std::string name;
  std::vector<Value> values;                                       // [heads]
  std::vector<std::pair<std::string, std::vector<Cell>>> columns;  // name, [heads]
};

/// A number as every format has it, float32; undefined where there is none or none that is finite.
[[nodiscard]] Cell real_cell(const std::optional<double>& value);
[[nodiscard]] Cell count_cell(std::uint64_t count);

/// {"mean", "variance", "count"}; in CSV NAME, NAME_variance, NAME_count.
[[nodiscard]] HeadField moments_field(std::string name, const std::vector<MomentsSummary>& summaries);
/// One value each; in CSV a column of that name.
[[nodiscard]] HeadField cell_field(std::string name, const std::vector<Cell>& cells);

/// A head that a measure finds much of something in, beside what it would find where nothing was learned.
struct StrongHead {
  std::string what;  // "previous", "[SEP]"
  std::string head;
  double value = 0;
  Cell null;  // undefined: none is known
  std::uint64_t rows = 0;
};

/// Results of the measures after the last block.
struct StudyResults : Results {
  std::vector<RoleEvidence> evidence;       // the roles are decided from it
  bool tell_roles = false;                  // the measure that asks for roles ran
  std::vector<RoleEvidence> null_evidence;  // the same for random models
  std::vector<HeadField> head_fields;
  std::vector<StrongHead> strongest;  // for `summary` and the text
  Record summary;                     // further fields of `summary`

  /// Appends the results of another measure.
  void append(StudyResults&& other);
};

/// Adds the heads with the largest values, three at most, the largest first; those without a value are left
/// out, and of equal ones the first stands first.
void add_strongest(StudyResults& results, std::vector<StrongHead> heads);

}  // namespace attnctl
