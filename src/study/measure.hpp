#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/patterns/pattern_row.hpp"
#include "base/warnings.hpp"
#include "forward/attention/visibility.hpp"
#include "forward/observer.hpp"
#include "forward/run.hpp"
#include "study/corpus/corpus_blocks.hpp"
#include "study/corpus/token_frequencies.hpp"
#include "study/results.hpp"
#include "study/state/state_io.hpp"

namespace attnctl {

/// A head of a study, with everything that results print about it. States are merged without the model.
struct StudyHead {
  HeadId id;
  std::string name;       // "0.1", "enc.0.1"
  Cell component;         // "enc", "dec", "cross", or undefined
  std::size_t layer = 0;  // index in its component
  std::size_t kv_head = 0;
};

/// The heads and settings of a study. They are the same for all of its blocks and shards.
struct StudyShape {
  std::vector<StudyHead> heads;  // in ascending order
  std::uint64_t seed = 0;        // seed of the measures that draw random numbers
  bool fold_subtypes = false;    // in relations, count nsubj:pass as nsubj

  /// Names and cells of the columns component, layer and head, which come first in every CSV table.
  [[nodiscard]] static std::vector<std::string> head_columns();
  [[nodiscard]] std::vector<Cell> head_cells(std::size_t head) const;
  /// Returns a text table of one value per head, with one row per layer and one column per head index.
  [[nodiscard]] TextTable grid(std::string title, const std::vector<Cell>& cells) const;
};
[[nodiscard]] StudyShape shape_of(const Selection& selection, const ModelConfig& config, std::uint64_t seed);

/// One block, with the data that measures need. Self-attention only: queries and keys come from one sequence.
class StudyBlock {
 public:
  StudyBlock(const Model& model, const Vocabulary& vocabulary, const CorpusBlock& corpus,
             const StudyShape& shape);

  const Model& model;
  const Vocabulary& vocabulary;
  const CorpusBlock& corpus;
  const StudyShape& shape;
  const TokenFrequencies* frequencies = nullptr;  // of the corpus; set if a measure needs them

  [[nodiscard]] const SequenceMarks& marks(std::size_t sequence) const { return marks_[sequence]; }
  /// Returns the keys that each query of the sequence may attend to in this layer. The layer must have a
  /// selected head.
  [[nodiscard]] const VisibleKeys& visible(std::size_t sequence, std::size_t layer) const {
    return visible_[rule_of_layer_.at(layer)][sequence];
  }
  /// Returns the index of visible(sequence, layer). Layers with the same visible keys have the same index.
  [[nodiscard]] std::size_t place(std::size_t sequence, std::size_t layer) const {
    return rule_of_layer_.at(layer) * marks_.size() + sequence;
  }

 private:
  std::vector<SequenceMarks> marks_;
  std::map<std::size_t, std::size_t> rule_of_layer_;
  std::vector<std::vector<VisibleKeys>> visible_;  // [rules, sequences]
};

/// Consecutive rows of one head's pattern of one sequence.
struct StudyPanel {
  const AttentionPanel& panel;
  std::size_t head = 0;              // index into StudyShape::heads
  std::span<const PatternRow> rows;  // rows of the panel, except fully masked and non-finite ones
  const VisibleKeys& visible;
  std::size_t place = 0;  // StudyBlock::place() of `visible`
  bool complete = true;   // true if `rows` has every row that may attend to a key
};

/// Base class of the measures. A measure keeps a small state that can be merged.
/// One instance processes at most one block. The state of a study is an instance into which others are
/// merged. The order of merging must not change a byte: counts are integers, sums are BlockSum or ExactSum,
/// and nothing depends on which block came first.
class Measure {
 public:
  virtual ~Measure() = default;
  [[nodiscard]] virtual Needs needs() const { return {}; }

  /// Shows the measure the state of the study so far, so that it can skip data that the study no longer
  /// needs. The caller calls this before begin(), while no other thread changes `so_far`. The merged result
  /// must not depend on it.
  virtual void look_at(const Measure& /*so_far*/) {}
  /// Starts a block, before its forward pass. All calls for one block come from one thread.
  virtual void begin(const StudyBlock& block) = 0;
  /// Processes a panel. The panels of one head come in order of sequence, then rows; layers come in order,
  /// the heads of a layer in any order.
  virtual void panel(const StudyPanel& panel) = 0;
  /// Ends the block, after its last panel.
  virtual void end() {}

  /// Adds the state of `other`, which must be the same measure of the same study.
  virtual void merge(const Measure& other) = 0;
  virtual void save(StateWriter& out) const = 0;
  /// Reads a state. Throws Error(bad_input) if the bytes are not a valid state of this measure.
  virtual void load(StateReader& in) = 0;

  /// Sets the state of the same measure on shuffled tokens (--null-shuffle), which finish() uses as a null.
  /// `shuffled` must outlive this measure; it is null if there are no shuffles.
  void compare_with(const Measure* shuffled) { shuffled_twin_ = shuffled; }
  /// Adds the results, which cover all heads of StudyShape::heads.
  virtual void finish(StudyResults& results) const = 0;

 protected:
  [[nodiscard]] const Measure* shuffled_twin() const { return shuffled_twin_; }

 private:
  const Measure* shuffled_twin_ = nullptr;
};

/// A row of the catalogue of measures. `--measures` selects rows by name.
struct MeasureRow {
  std::string_view name;
  std::string_view description;
  std::uint64_t version;  // version of the state; increase it when the state changes
  std::unique_ptr<Measure> (*make)(const StudyShape& shape);
  std::span<const Metric> (*metrics)();  // definitions of its numbers
  bool of_probe = false;        // true: processes only probe blocks; false: only blocks of the corpus
  bool gives_evidence = false;  // gives evidence for roles; --null-model runs it on random models
  std::size_t most_heads = 0;   // largest number of heads; make() throws Error(limit) above it; 0: no limit
  bool of_order = false;        // depends on token order; --null-shuffle runs it on shuffled tokens
  bool needs_frequencies = false;  // needs StudyBlock::frequencies
};
[[nodiscard]] std::span<const MeasureRow> measure_catalogue();

/// Parses a list such as "metrics,distance". Returns rows in the order of the catalogue; all rows if the list
/// is empty. Throws Error(usage) for an unknown name.
[[nodiscard]] std::vector<const MeasureRow*> parse_measures(std::string_view list);

/// Returns the rows whose limit allows `heads` heads. Adds a warning for each of the other rows.
[[nodiscard]] std::vector<const MeasureRow*> within_limit(const std::vector<const MeasureRow*>& rows,
                                                          std::size_t heads, Warnings& warnings);

/// A measure whose state is one `State` per head. State has merge(const State&), save(StateWriter&) const and
/// load(StateReader&).
template <typename State>
class PerHead : public Measure {
 public:
  PerHead(const StudyShape& shape, const State& empty) : shape_(shape), states_(shape.heads.size(), empty) {}

  void merge(const Measure& other) override {
    const auto& states = dynamic_cast<const PerHead&>(other).states_;
    for (std::size_t i = 0; i < states_.size(); ++i) states_[i].merge(states.at(i));
  }
  void save(StateWriter& out) const override {
    for (const State& state : states_) state.save(out);
  }
  void load(StateReader& in) override {
    for (State& state : states_) state.load(in);
  }

 protected:
  const StudyShape& shape_;  // outlives the measure
  std::vector<State> states_;
};

}  // namespace attnctl
