#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "results/heatmap.hpp"
#include "results/result.hpp"
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

/// A table for people, or a matrix of layers x heads.
struct StudyText {
  std::string title;
  Table table;
};

/// A head that a measure finds much of something in, beside what it would find where nothing was learned.
struct StrongHead {
  std::string what;  // "previous", "[SEP]"
  std::string head;
  double value = 0;
  Cell null;  // undefined: none is known
  std::uint64_t rows = 0;
};

/// What measures give when all blocks are in.
struct StudyResults {
  std::vector<RoleEvidence> evidence;       // that roles are told by
  bool tell_roles = false;                  // the measure that asks for them ran
  std::vector<RoleEvidence> null_evidence;  // the same of random models
  std::optional<HeatmapPage> page;          // of svg: layers by heads,
  std::vector<std::string> page_texts;      // and what stands in its cells
  std::vector<HeadField> head_fields;
  std::vector<Section> sections;      // of the document
  std::vector<Table> tables;          // of CSV
  std::vector<StudyText> texts;       // of the page
  std::vector<StrongHead> strongest;  // of `summary`, and of the page
  Record summary;                     // further fields of `summary`

  /// What another measure found, behind what is here.
  void append(StudyResults&& other);
};

/// Adds the heads with the largest values, three at most, the largest first; those without a value are left
/// out, and of equal ones the first stands first.
void add_strongest(StudyResults& results, std::vector<StrongHead> heads);

}  // namespace attnctl
