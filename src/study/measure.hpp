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

#include "analysis/metric.hpp"
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

/// A head of a study, with all that results say of it: states are merged without the model.
struct StudyHead {
  HeadId id;
  std::string name;       // "0.1", "enc.0.1"
  Cell component;         // "enc", or undefined
  std::size_t layer = 0;  // in its component
  std::size_t kv_head = 0;
};

/// What a study is of, the same for all of its blocks and shards.
struct StudyShape {
  std::vector<StudyHead> heads;  // ascending
  std::uint64_t seed = 0;        // of measures that draw
  bool fold_subtypes = false;    // of relations: nsubj:pass as nsubj

  /// Columns component, layer, head, which every table of CSV begins with, and their cells.
  [[nodiscard]] static std::vector<std::string> head_columns();
  [[nodiscard]] std::vector<Cell> head_cells(std::size_t head) const;
  /// A value a head as a table of the page: a row a layer, a column a head.
  [[nodiscard]] TextTable grid(std::string title, const std::vector<Cell>& cells) const;
};
[[nodiscard]] StudyShape shape_of(const Selection& selection, const ModelConfig& config, std::uint64_t seed);

/// One block and what measures need to know of it. Only self-attention: queries and keys are one sequence.
class StudyBlock {
 public:
  StudyBlock(const Model& model, const Vocabulary& vocabulary, const CorpusBlock& corpus,
             const StudyShape& shape);

  const Model& model;
  const Vocabulary& vocabulary;
  const CorpusBlock& corpus;
  const StudyShape& shape;
  const TokenFrequencies* frequencies = nullptr;  // of the corpus, where a measure needs them

  [[nodiscard]] const SequenceMarks& marks(std::size_t sequence) const { return marks_[sequence]; }
  /// The keys that queries of a sequence may attend to in a layer that has selected heads.
  [[nodiscard]] const VisibleKeys& visible(std::size_t sequence, std::size_t layer) const {
    return visible_[rule_of_layer_.at(layer)][sequence];
  }
  /// A number for that: the same for all layers whose queries may attend to the same keys.
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
  std::size_t head = 0;              // in StudyShape::heads
  std::span<const PatternRow> rows;  // of the panel, without fully masked ones and those that are not finite
  const VisibleKeys& visible;
  std::size_t place = 0;  // of `visible` among those of the block
  bool complete = true;   // every row that may attend to a key is there
};

/// What a study keeps of its heads: a small state that merges. An instance sees one block at most; the state
/// of a study is an instance that others are merged into, in any order with the same bytes. So: counts are
/// integers, sums are BlockSum or ExactSum, and nothing depends on which block came first.
class Measure {
 public:
  virtual ~Measure() = default;
  [[nodiscard]] virtual Needs needs() const { return {}; }

  /// Before begin(), and while nothing else is done to it: what the study has so far, for what a block then
  /// need not keep. What is merged must not depend on it.
  virtual void look_at(const Measure& /*so_far*/) {}
  /// The block, before its pass. From one thread, as all that follows.
  virtual void begin(const StudyBlock& block) = 0;
  /// Panels of one head come in order (by sequence, then rows), heads layer by layer in any order.
  virtual void panel(const StudyPanel& panel) = 0;
  /// All panels have come.
  virtual void end() {}

  /// `other` is of the same kind and of the same study.
  virtual void merge(const Measure& other) = 0;
  virtual void save(StateWriter& out) const = 0;
  /// Throws Error(bad_input) where the bytes are not of such a state.
  virtual void load(StateReader& in) = 0;

  /// The same measure of the same heads where tokens were in random order (--null-shuffle), for finish() to
  /// compare with; outlives this. Null: none was asked for.
  void compare_with(const Measure* shuffled) { shuffled_twin_ = shuffled; }
  /// Adds what it gives; everything is said of StudyShape::heads.
  virtual void finish(StudyResults& results) const = 0;

 protected:
  [[nodiscard]] const Measure* shuffled_twin() const { return shuffled_twin_; }

 private:
  const Measure* shuffled_twin_ = nullptr;
};

/// A row of the catalogue: `--measures` names it.
struct MeasureRow {
  std::string_view name;
  std::string_view description;
  std::uint64_t version;  // of its state: a new one where that changes
  std::unique_ptr<Measure> (*make)(const StudyShape& shape);
  std::span<const Metric> (*metrics)();  // what its numbers mean
  bool of_probe = false;                 // it sees the blocks of the probe alone, others those of the corpus
  bool gives_evidence = false;           // of roles: it is wanted of random models too (--null-model)
  std::size_t most_heads = 0;            // that it takes, else make() throws Error(limit); 0: any number
  bool of_order = false;           // it finds tokens where they stand: --null-shuffle shows it others there
  bool needs_frequencies = false;  // StudyBlock::frequencies
};
[[nodiscard]] std::span<const MeasureRow> measure_catalogue();

/// "metrics,distance" as rows, in the order of the catalogue; empty: all. Throws Error(usage).
[[nodiscard]] std::vector<const MeasureRow*> parse_measures(std::string_view list);

/// Those of `rows` that take so many heads; each of the others is a warning.
[[nodiscard]] std::vector<const MeasureRow*> within_limit(const std::vector<const MeasureRow*>& rows,
                                                          std::size_t heads, Warnings& warnings);

/// A measure whose state is one `State` a head: State has merge(const State&), save(StateWriter&) const and
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
