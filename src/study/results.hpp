#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "forward/run.hpp"
#include "results/results.hpp"
#include "study/state/sums.hpp"

namespace attnctl {

/// A head of a study, with everything that results print about it. States are merged without the model.
struct StudyHead {
  HeadId id;
  std::string name;       // "0.1", "enc.0.1"
  Cell component;         // "enc", "dec", "cross", or undefined
  std::size_t layer = 0;  // index in its component
  std::size_t kv_head = 0;

  auto parts() { return std::tie(id.layer, id.head, layer, kv_head, name, component); }
};

/// The heads and settings of a study. They are the same for all of its blocks and shards.
struct StudyShape {
  std::vector<StudyHead> heads;  // in ascending order
  std::uint64_t seed = 0;        // seed of the measures that draw random numbers
  bool fold_subtypes = false;    // in relations, count nsubj:pass as nsubj

  /// Names and cells of the columns component, layer and head, which come first in every CSV table.
  [[nodiscard]] static std::vector<std::string> head_columns() { return {"component", "layer", "head"}; }
  [[nodiscard]] std::vector<Cell> head_cells(std::size_t head) const;
};
[[nodiscard]] StudyShape shape_of(const Selection& selection, const ModelConfig& config, std::uint64_t seed);

/// The heads as a grid: one row per layer, one column per head index that some layer has.
struct HeadGrid {
  std::vector<std::string> layers;   // row labels: "0", "enc.0"
  std::vector<std::string> columns;  // head indices
  std::vector<std::size_t> cells;    // [heads], row * columns.size() + column

  explicit HeadGrid(const StudyShape& shape);
};
/// Returns a text table of one value per head.
[[nodiscard]] TextTable head_grid(const StudyShape& shape, std::string title, const std::vector<Cell>& cells);

/// Returns a number as a float32 cell. The cell is undefined if the value is missing or not finite.
[[nodiscard]] Cell real_cell(const std::optional<double>& value);
[[nodiscard]] Cell count_cell(std::uint64_t count);
/// Returns a text cell. The cell is undefined if the text is empty.
[[nodiscard]] Cell text_cell(std::string_view text);
/// Returns sum / count as a real_cell(), undefined if count is 0.
[[nodiscard]] Cell mean_cell(double sum, std::uint64_t count);
/// Returns the cells of the columns low and high.
[[nodiscard]] std::array<Cell, 2> interval_cells(const std::optional<ConfidenceInterval>& interval);
/// Returns a score as text: "0.710", or "0.710 (0.660 to 0.750)". Undefined if `share` is missing.
[[nodiscard]] Cell score_text(const std::optional<double>& share,
                              const std::optional<ConfidenceInterval>& interval = {});

/// A head of the study by its index, or no head. JSON has its name, and also component, layer and index if
/// `identity` is true. CSV has component, layer and head.
struct RowHead {
  std::optional<std::size_t> index;
  bool identity = false;
};
/// A confidence interval: a pair in JSON, and the columns PREFIXlow and PREFIXhigh in CSV.
struct RowInterval {
  std::optional<ConfidenceInterval> interval;
  const char* prefix = "";
};
/// Mean, variance and count: a record in JSON, and the columns NAME, NAME_variance and NAME_count in CSV.
struct RowMoments {
  MomentsSummary summary;
};
/// A row of results for all formats: a record in JSON, a row in CSV.
using ResultField = std::pair<std::string, std::variant<Cell, RowInterval, RowMoments, RowHead>>;
using ResultRow = std::vector<ResultField>;

/// A head with a large value of a measure, with the null of that value.
struct StrongHead {
  std::string what;  // "previous", "[SEP]"
  std::string head;
  double value = 0;
  Cell null;  // undefined if no null is known
  std::uint64_t rows = 0;
};

/// Evidence for or against a role of a head. Any measure may give evidence; the rules of roles.hpp decide. A
/// role without evidence is not reported.
struct RoleEvidence {
  std::size_t head = 0;         // index into StudyShape::heads
  std::string_view role;        // RoleRow::name
  std::string detail;           // "-1", "[SEP]", "nsubj to_head"; may be empty
  std::optional<double> score;  // nullopt: not measured
  std::optional<double> null;   // expected score of a head that learned nothing
  std::optional<ConfidenceInterval> interval;
  std::uint64_t count = 0;  // number of rows, or of pairs of words
  /// Score of the best head of random models with the same shape: the null of this evidence plus the largest
  /// difference between score and null over the heads of those models. nullopt without random models.
  std::optional<double> random = {};
  /// Score of the same head on sentences whose tokens are in random order; the positions that are scored stay
  /// the same. nullopt without shuffles, or if shuffling gives no null for this role.
  std::optional<double> shuffled = {};
};
/// Returns evidence with the mean, the null, the interval and the rows of `sums`.
[[nodiscard]] RoleEvidence evidence_of(std::size_t head, std::string_view role, std::string detail,
                                       const RatioSums& sums);

/// Results of the measures after the last block.
struct StudyResults : Results {
  std::vector<RoleEvidence> evidence;       // evidence from which the roles are decided
  bool with_roles = false;                  // true if the measure `roles` ran
  std::vector<RoleEvidence> null_evidence;  // evidence from random models
  std::vector<ResultRow> head_fields;       // [heads], fields of `heads`; or empty
  std::vector<StrongHead> strongest;        // for `summary` and the text output
  Record summary;                           // additional fields of `summary`

  /// Appends the results of another measure.
  void append(StudyResults&& other);
  /// Adds the three heads with the largest values, in descending order. Equal values keep their order.
  void add_strongest(std::vector<StrongHead> heads);
};

/// Adds the rows as a section of the document and as a CSV table. `shape` is borrowed.
void add_rows(Results& results, const StudyShape& shape, const std::string& name, std::string record,
              std::vector<ResultRow> rows);

}  // namespace attnctl
