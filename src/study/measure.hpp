#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "analysis/head_axes.hpp"
#include "analysis/patterns/pattern_metrics.hpp"
#include "base/error.hpp"
#include "forward/attention/visibility.hpp"
#include "forward/run.hpp"
#include "results/results.hpp"
#include "study/ablation.hpp"
#include "study/corpus.hpp"
#include "study/state/state_io.hpp"
#include "study/state/sums.hpp"

// The measures of a study, the results that they return, and the roles of heads.
namespace attnctl::study {

using analysis::row_of;

/// Smallest number of word pairs or mentions for a role (Clark et al. 2019 leave out relations with fewer).
constexpr std::uint64_t kFewestCases = 100;
constexpr std::size_t kFarthest = analysis::kLargestOffset;  // largest offset from query to key, in tokens

[[nodiscard]] inline Cell real_cell(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Cell(static_cast<float>(*value)) : Cell();
}
[[nodiscard]] inline Cell text_cell(std::string_view text) {
  return text.empty() ? Cell() : Cell(std::string(text));
}
[[nodiscard]] inline Cell mean_cell(double sum, std::uint64_t count) {
  return count == 0 ? Cell() : real_cell(sum / static_cast<double>(count));
}
[[nodiscard]] inline std::array<Cell, 2> interval_cells(const std::optional<ConfidenceInterval>& interval) {
  if (!interval) return {};
  return {real_cell(interval->low), real_cell(interval->high)};
}
[[nodiscard]] inline std::array<Cell, 2> interval_cells(const std::optional<ShareEstimate>& estimate) {
  return interval_cells(estimate ? std::optional(estimate->interval()) : std::nullopt);
}

/// A head of a study, with everything that results print about the head, because the model is not available
/// when states are merged.
struct StudyHead {
  model::HeadId id;
  std::string name;       // "0.1", "enc.0.1"
  Cell component;         // "enc", "dec", "cross", or undefined
  std::size_t layer = 0;  // index in its component
  std::size_t kv_head = 0;

  auto parts() { return std::tie(id.layer, id.head, layer, kv_head, name, component); }
};

/// The heads and settings of a study. They are equal in all blocks and shards of the study.
struct StudyShape {
  std::vector<StudyHead> heads;  // in ascending order
  std::uint64_t seed = 0;        // seed of random samples and shuffled tokens
  bool fold_subtypes = false;    // in relations, count nsubj:pass as nsubj
  /// What the measures of ablations remove; null without them. Their state has it, not the header.
  std::shared_ptr<const std::vector<RemovedSet>> ablated = nullptr;

  /// Returns the cells of the columns component, layer, head and name, which are undefined for nullopt.
  [[nodiscard]] std::array<Cell, 4> head_cells(std::optional<std::size_t> head) const {
    if (!head) return {};
    const StudyHead& of = heads.at(*head);
    return {of.component, count_cell(of.layer), count_cell(of.id.head), of.name};
  }
};

/// The heads of a study as a grid, with one row per layer and one column per head index. Layers and head
/// indices without a selected head are left out.
struct HeadGrid {
  std::vector<std::string> layers;   // row labels: "0", "enc.0"
  std::vector<std::string> columns;  // head indices
  std::vector<std::size_t> cells;    // [heads], row * columns.size() + column

  explicit HeadGrid(const StudyShape& shape);
};
/// Appends " by layer and head" to the title.
[[nodiscard]] TextTable head_grid(const StudyShape& shape, const std::string& title,
                                  const std::vector<Cell>& cells);

/// Returns a score as text: "0.710", or "0.710 (0.660 to 0.750)" with an estimate of the score.
[[nodiscard]] Cell score_text(const std::optional<double>& share,
                              const std::optional<ShareEstimate>& estimate = {});

struct StrongHead {
  std::string what;      // what the value measures: "previous", "[SEP]"
  std::size_t head = 0;  // index into StudyShape::heads
  double value = 0;
  Cell null;  // the value of uniform attention
  std::uint64_t rows = 0;
};

/// Evidence for or against a role of a head, from any measure. role_rows() has the rules that decide.
struct RoleEvidence {
  std::size_t head = 0;                   // index into StudyShape::heads
  std::string_view role;                  // RoleRow::name
  std::string detail;                     // "-1", "[SEP]", "nsubj to_head"; may be empty
  std::optional<double> score;            // nullopt: not measured
  std::optional<double> null;             // score of uniform attention, of a baseline or of a control
  std::optional<ShareEstimate> estimate;  // of the score; nullopt: fewer than two clusters
  std::uint64_t count = 0;                // number of rows, word pairs or mentions that were scored
  /// Score minus null, if the null is the accuracy of a baseline on the same word pairs or mentions.
  std::optional<ShareEstimate> excess = {};
  std::size_t choices = 1;            // this score is the highest of this number of scores
  std::optional<double> random = {};  // see set_random(); nullopt without random models
  /// Score of the same head with shuffled tokens, for the positions of the original sentence. nullopt if the
  /// study has no shuffles, or if the measure does not run on them (MeasureRow::depends_on_order).
  std::optional<double> shuffled = {};
};
[[nodiscard]] inline RoleEvidence evidence_of(std::size_t head, std::string_view role, std::string detail,
                                              const RatioSums& sums) {
  return {head, role, std::move(detail), sums.mean(), sums.null(), sums.estimate(), sums.rows()};
}

/// What removing a head does, for the table of roles with their effects.
struct AblatedHead {
  Cell loss_change;
  std::optional<ConfidenceInterval> interval;  // of loss_change
  Cell null_mean, p_value, direct_change, self_repair;
};

/// Limits that only the results depend on, not the state of a study.
struct StudyThresholds {
  double sink_epsilon = 0.3;  // a head is a sink if its mean weight on position 0 is above this
  double idle_ratio = 0.01;   // a head is idle if its write_ratio is below this
};

struct StudyResults : Results {
  StudyThresholds thresholds;                // set before Measure::finish()
  std::vector<RoleEvidence> evidence;        // evidence for the roles of the heads
  std::vector<Column> head_columns;          // additional columns of the table `heads`
  std::vector<std::vector<Cell>> head_rows;  // [heads], the cells of these columns; or empty
  std::vector<StrongHead> strongest;         // shown in the section `summary` and in text output
  Record summary;                            // additional fields of the section `summary`
  std::vector<AblatedHead> ablated;          // [heads] if heads were removed; otherwise empty
  /// [heads]: mean weight on position 0 over the rows that may attend to it; empty if it was not measured.
  std::vector<std::optional<double>> first_weights;

  void append(StudyResults&& other);
  /// Adds the three items of `heads` with the largest values.
  void add_strongest(std::vector<StrongHead> heads) {
    std::ranges::stable_sort(heads, std::ranges::greater(), &StrongHead::value);
    heads.resize(std::min(heads.size(), std::size_t{3}));
    std::ranges::move(heads, std::back_inserter(strongest));
  }
};

/// A rule that decides from the evidence whether a head has a role. docs/roles.md has the same rows.
struct RoleRow {
  std::string_view name;
  char letter;                   // letter in the grid of roles
  std::string_view metric;       // Definition::name of the score
  double least = 0;              // smallest score that meets the rule; 0: not required
  double margin = 0;             // smallest score - null that meets the rule; 0: not required
  bool above_null = true;        // the score must be above all nulls: see meets()
  std::string_view unless = {};  // a head with this role does not get the role of this row; empty: none
  std::string_view clusters = "sentences";  // what ShareEstimate::clusters counts
  /// The smallest RoleEvidence::count that meets the rule, and what it counts; 0: not required.
  std::uint64_t fewest = 0;
  std::string_view cases = {};
};

/// Returns the rules, from the most specific role to the least specific.
[[nodiscard]] std::span<const RoleRow> role_rows();
/// Returns the rule as text, for example "at least 10 sentences; score >= 0.9; corrected interval above the
/// null". Names the number of tests if it is given.
[[nodiscard]] std::string rule_of(const RoleRow& row, std::size_t tests = 0);
/// Checks whether the evidence has the cases that the rule of its role requires. Throws std::logic_error if
/// the role is unknown.
[[nodiscard]] bool has_cases(const RoleEvidence& evidence);
/// Checks whether the evidence meets the rule of a role. If RoleRow::above_null is true, the whole interval
/// with confidence 1 - 0.05 / `tests` must be above the null and above RoleEvidence::shuffled (if set), and
/// the score must be above RoleEvidence::random (if set). Ignores RoleRow::unless. Returns false for evidence
/// without a score, a null or enough cases.
[[nodiscard]] bool meets(const RoleRow& row, const RoleEvidence& evidence, std::size_t tests = 1);

struct HeadRole {
  const RoleRow* row = nullptr;
  RoleEvidence evidence;
  std::size_t tests = 1;  // number of tests for which the interval is corrected
};

/// Sets RoleEvidence::random of the items in `evidence` whose member `null` is set: to `null` plus the
/// largest (score - null) of the same role in `of_random`, the evidence from the random models, among items
/// with enough cases. Items whose role has no such difference in `of_random` do not change.
void set_random(std::vector<RoleEvidence>& evidence, const std::vector<RoleEvidence>& of_random);

/// Returns the roles whose rules the evidence meets, without those that RoleRow::unless excludes, sorted by
/// head, then in the order of role_rows(), then in the order of the evidence. The intervals of a role are
/// corrected for all evidence of this role with enough cases (Bonferroni). Throws std::logic_error if the
/// evidence is for an unknown role.
[[nodiscard]] std::vector<HeadRole> decide_roles(const std::vector<RoleEvidence>& evidence);

/// Decides the roles from `results.evidence` and adds them to the results: a JSON section and a CSV table,
/// text tables and a heatmap. A head without a role has one row with an undefined role.
void add_roles(StudyResults& results, const StudyShape& shape);

/// One block with the data that measures need. Queries and keys belong to the same sequence.
class StudyBlock {
 public:
  StudyBlock(const model::Model& model, const CorpusBlock& corpus, const StudyShape& shape);

  const model::Model& model;
  const CorpusBlock& corpus;
  const StudyShape& shape;
  const TokenFrequencies* frequencies = nullptr;  // of the corpus or a file; set if a measure needs them
  const AblationData* ablation = nullptr;         // set if a measure removes heads
  Warnings* warnings = nullptr;                   // of the block; set if a measure removes heads
  bool streamed = false;                          // the weights of one layer at a time stay in memory

  [[nodiscard]] const analysis::SequenceMarks& marks(std::size_t sequence) const { return marks_[sequence]; }
  /// Returns the keys that each query may attend to in this layer, which must have a selected head.
  [[nodiscard]] const forward::VisibleKeys& visible(std::size_t sequence, std::size_t layer) const {
    return visible_[visible_index(sequence, layer)];
  }
  /// Returns the index of visible(sequence, layer). Layers of equal attention kind and causality share it.
  [[nodiscard]] std::size_t visible_index(std::size_t sequence, std::size_t layer) const {
    return rule_of_layer_.at(layer) * marks_.size() + sequence;
  }

 private:
  std::vector<analysis::SequenceMarks> marks_;
  std::map<std::size_t, std::size_t> rule_of_layer_;
  std::vector<forward::VisibleKeys> visible_;  // [rules, sequences]
};

/// Consecutive rows of the pattern of one head for one sequence.
struct StudyPanel {
  const forward::AttentionPanel& panel;
  std::size_t head = 0;                        // index into StudyShape::heads
  std::span<const analysis::PatternRow> rows;  // without fully masked and non-finite rows
  const forward::VisibleKeys& visible;
  std::size_t visible_index = 0;  // StudyBlock::visible_index() of `visible`
  bool complete = true;           // false if a row with visible keys is missing from `rows`
};

/// Base class of the measures. A measure keeps a state that can be merged. One instance processes one block
/// or none. The state of a study holds further instances, into which the instances of the blocks are merged.
/// The order of merging must not change a byte of the saved state: counts are integers, sums are BlockSum or
/// ExactSum, and nothing depends on the order of blocks.
class Measure {
 public:
  explicit Measure(const StudyShape& shape) : shape_(shape) {}
  virtual ~Measure() = default;
  [[nodiscard]] virtual forward::Needs needs() const { return {}; }
  /// Returns true if begin() runs the passes of the block itself, so that the measure needs no panels.
  [[nodiscard]] virtual bool runs_own_passes() const { return false; }

  /// Receives the state of the study so far, so that this measure can skip data that the study no longer
  /// needs. May be called before begin(), while no other thread changes `so_far`. The merged result must not
  /// depend on this call.
  virtual void set_context(const Measure& /*so_far*/) {}
  /// Starts a block, before its forward pass. All calls for one block come from one thread.
  virtual void begin(const StudyBlock& /*block*/) {}
  /// Receives Observer::stream() of the layers with a selected head, if needs().stream.
  virtual void stream(std::size_t /*sequence*/, std::size_t /*layer*/, MatrixView<const float> /*values*/) {}
  /// Processes a panel. For each sequence, the layers arrive in ascending order, the heads of a layer in any
  /// order; a later sequence may begin again with the first layer. The panels of one head arrive in the order
  /// of sequences, then rows.
  virtual void panel(const StudyPanel& panel) = 0;
  virtual void end() {}

  /// Adds the state of `other`, which must be the same measure of the same study.
  virtual void merge(const Measure& other) = 0;
  virtual void save(StateWriter& out) const = 0;
  /// Reads a state. Throws Error(bad_input) if the bytes are not a valid state of this measure.
  virtual void load(StateReader& in) = 0;

  /// Sets the same measure on shuffled tokens (--null-shuffle), whose values finish() reports; null: none.
  void compare_with(const Measure* shuffled) { shuffled_twin_ = shuffled; }
  /// Returns false if no block had the annotation MeasureRow::annotation. Then finish() is not called.
  [[nodiscard]] virtual bool has_data() const { return true; }
  /// Returns true if the best heads were chosen on even blocks, but odd blocks have nothing to score them on.
  [[nodiscard]] virtual bool all_in_even_blocks() const { return false; }
  virtual void finish(StudyResults& results) const = 0;

 protected:
  [[nodiscard]] std::size_t heads() const { return shape_.heads.size(); }

  const StudyShape& shape_;  // outlives the measure
  const Measure* shuffled_twin_ = nullptr;
};
using Measures = std::vector<std::unique_ptr<Measure>>;

/// A row of the catalogue of measures. `--measures` selects rows by name.
/// An estimate of what a measure keeps in memory, in bytes.
struct MeasureMemory {
  std::uint64_t block = 0;  // for a block until its end, without its state
  std::uint64_t study = 0;  // for the state of a whole study and its results
};

struct MeasureRow {
  std::string_view name;
  std::string_view description;
  std::uint64_t version = 1;  // version of the state format; increase it when the format changes
  std::unique_ptr<Measure> (*make)(const StudyShape& shape) = nullptr;
  /// First the metrics, which have a source and are listed in results. Then other columns of the tables.
  std::span<const Definition> definitions;
  bool probe_only = false;      // true: processes only probe blocks; false: only blocks of the corpus
  bool gives_evidence = false;  // returns evidence for roles; also runs on random models (--null-model)
  std::size_t max_heads = 0;    // largest number of heads; 0: no limit
  /// Returns the memory for a batch; null: little.
  MeasureMemory (*memory)(const model::ModelConfig& config, std::span<const model::HeadId> heads,
                          const input::Batch& batch) = nullptr;
  bool depends_on_order = false;   // also runs on shuffled tokens (--null-shuffle)
  bool needs_frequencies = false;  // needs StudyBlock::frequencies
  bool on_request = false;         // removes heads, which takes long; not computed by default
  /// Annotation that the corpus must have, and formats with this annotation, for messages; empty: none.
  std::string_view annotation = {}, needs = {};
  std::vector<input::InputFormat> formats = {};  // formats that can have this annotation; empty: all
};
[[nodiscard]] std::span<const MeasureRow> measure_catalogue();

/// Returns the definitions of each measure, of columns that several measures have ("study"), of the plan and
/// of comparisons.
[[nodiscard]] std::vector<NamedDefinitions> definitions();
/// Returns the definition of the column `name` or "TABLE.COLUMN" of a study, plan or comparison; nullptr if
/// there is none. The definition of the column best_low of the table trees is the first of trees.best_low,
/// best_low and low that exists.
[[nodiscard]] const Definition* definition_of(std::string name);
/// Returns a table of a study, plan or comparison with the definitions of its columns that have one.
[[nodiscard]] Table with_definitions(Table table);
/// Adds a table with these definitions to the results, as a CSV table and as a section of the document.
void add_table(Results& results, const std::string& record, std::string name, std::vector<Column> columns,
               std::vector<std::vector<Cell>> rows);

/// The rows of the catalogue, each defined in the file of its measure.
using MakeRow = MeasureRow();
MakeRow metrics_measure, positional_measure, special_measure, repeats_measure, rare_measure, distance_measure,
    pairs_measure, rollout_measure, residual_measure, syntax_measure, coreference_measure, probe_measure,
    roles_measure, ablation_measure, probe_ablation_measure;

template <typename M>
[[nodiscard]] std::unique_ptr<Measure> make_measure(const StudyShape& shape) {
  return std::make_unique<M>(shape);
}

/// Returns an empty measure for each row. `shape` must outlive them. Throws Error(limit): too many heads.
[[nodiscard]] Measures make_measures(const std::vector<const MeasureRow*>& rows, const StudyShape& shape);

/// Returns the rows of a list such as "metrics,distance", or all rows without MeasureRow::on_request if it is
/// empty, in the order of the catalogue. Throws Error(usage) for an unknown name.
[[nodiscard]] std::vector<const MeasureRow*> parse_measures(std::string_view list);

/// Returns the rows whose `max_heads` is 0 or at least `heads`. Adds a warning for each other row.
[[nodiscard]] std::vector<const MeasureRow*> within_limit(std::vector<const MeasureRow*> rows,
                                                          std::size_t heads, Warnings& warnings);

/// Base class of a measure M whose function parts() lists the members of its state (see state_io.hpp).
template <typename M>
class PartsMeasure : public Measure {
 public:
  using Measure::Measure;
  void merge(const Measure& other) override {
    merge_state(static_cast<M&>(*this), dynamic_cast<const M&>(other));
  }
  void save(StateWriter& out) const override { save_state(out, static_cast<const M&>(*this)); }
  void load(StateReader& in) override { load_state(in, static_cast<M&>(*this)); }
};

/// The id of the target "position 0". A target is a key, or all keys with the same special token, whose
/// attention weight is measured. The id of a special token as a target is its token id.
constexpr std::int64_t kFirstPosition = -1;

/// The names of the token ids in the state of a measure. The state holds the names because results are
/// written without the model.
class TokenNames {
 public:
  void add(const input::Sequence& sequence, std::size_t position) {
    const std::int64_t id = sequence.ids[position];
    if (!names_.contains(id)) names_[id] = sequence.tokens.empty() ? id_name(id) : sequence.tokens[position];
  }
  [[nodiscard]] std::string of(std::int64_t id) const {
    if (id == kFirstPosition) return "position 0";
    const auto name = names_.find(id);
    return name == names_.end() ? id_name(id) : name->second;
  }

  void merge(const TokenNames& other) { names_.insert(other.names_.begin(), other.names_.end()); }
  void save(StateWriter& out) const { save_state(out, names_); }
  void load(StateReader& in) { load_state(in, names_); }

 private:
  [[nodiscard]] static std::string id_name(std::int64_t id) { return "#" + std::to_string(id); }

  std::map<std::int64_t, std::string> names_;
};

/// Positions in a sequence, by token id or kFirstPosition.
using PositionsOf = std::map<std::int64_t, std::vector<std::size_t>>;

/// Returns the positions, from `first` on, of the special tokens of a sequence. Adds the tokens to `names`.
[[nodiscard]] PositionsOf special_positions(const input::Sequence& sequence, std::size_t first,
                                            TokenNames& names);
[[nodiscard]] inline PositionsOf special_targets(const input::Sequence& sequence, TokenNames& names) {
  PositionsOf targets = special_positions(sequence, 0, names);
  targets[kFirstPosition] = {0};
  return targets;
}
/// Returns the cells of a target for the columns token and position. One of the two cells is undefined.
[[nodiscard]] inline std::array<Cell, 2> target_cells(std::int64_t target, const TokenNames& names) {
  if (target == kFirstPosition) return {Cell(), std::int64_t{0}};
  return {names.of(target), Cell()};
}

/// Base class of a measure whose state is one `State` per head, with TokenNames if these refer to tokens.
template <typename State, typename Names = std::array<std::uint64_t, 0>>
class PerHead : public PartsMeasure<PerHead<State, Names>> {
 public:
  explicit PerHead(const StudyShape& shape, const State& empty = {})
      : PartsMeasure<PerHead>(shape), states_(shape.heads.size(), empty) {}

  auto parts() { return std::tie(states_, names_); }

 protected:
  std::vector<State> states_;  // [heads]
  Names names_;
};

/// A cache of values that depend only on the rows of a panel and their visible keys, such as uniform
/// baselines. Panels of different heads with the same rows and visible keys share a value.
template <typename T>
class PerPanel {
 public:
  /// Returns the value for the rows of a panel, from make() if it is not cached. Valid until the next call.
  template <typename Make>
  const T& of(const StudyPanel& panel, const Make& make) {
    if (!panel.complete) return uncached_ = make();
    const std::array key = {panel.visible_index, panel.panel.first_query, panel.rows.size()};
    const auto found = cached_.find(key);
    return found != cached_.end() ? found->second : cached_.emplace(key, make()).first->second;
  }

 private:
  std::map<std::array<std::size_t, 3>, T> cached_;  // by visible_index, first query and number of rows
  T uncached_;                                      // for a panel with missing rows
};

}  // namespace attnctl::study
