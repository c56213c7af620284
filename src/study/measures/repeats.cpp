#include <array>
#include <map>
#include <string>
#include <utility>

#include "study/measures/measures.hpp"
#include "study/measures/result_rows.hpp"
#include "study/target_share.hpp"

namespace attnctl {
namespace {

constexpr std::array kMetrics = {
    Metric{"repeats.previous", "", "[0, 1]", "uniform: the mean of targets / visible keys",
           "sum(A o D) / sum(A) over the rows with a target, D the subdiagonal",
           "TransformerLens, head detector; Olsson et al. 2022"},
    Metric{"repeats.duplicate", "", "[0, 1]", "uniform: the mean of targets / visible keys",
           "the same, D the earlier places of the query's own token", "TransformerLens; Wang et al. 2022"},
    Metric{"repeats.induction", "", "[0, 1]", "uniform: the mean of targets / visible keys",
           "the same, D the places right behind those of the duplicates",
           "TransformerLens; Olsson et al. 2022"},
};

constexpr std::array kKinds = {"previous", "duplicate", "induction"};

struct HeadRepeats {
  std::array<TargetShare, kKinds.size()> kinds;

  void merge(const HeadRepeats& other) {
    for (std::size_t i = 0; i < kinds.size(); ++i) kinds[i].merge(other.kinds[i]);
  }
  void save(StateWriter& out) const {
    for (const TargetShare& kind : kinds) kind.save(out);
  }
  void load(StateReader& in) {
    for (TargetShare& kind : kinds) kind.load(in);
  }
};

/// Earlier positions of each token's id, [tokens], ascending; empty for the first occurrence.
using Earlier = std::vector<std::vector<std::size_t>>;

Earlier earlier_places(const Sequence& sequence) {
  Earlier earlier(sequence.ids.size());
  std::map<std::int64_t, std::vector<std::size_t>> places;
  for (std::size_t i = 0; i < sequence.ids.size(); ++i) {
    std::vector<std::size_t>& of_token = places[sequence.ids[i]];
    earlier[i] = of_token;
    of_token.push_back(i);
  }
  return earlier;
}

class RepeatsMeasure final : public PerHead<HeadRepeats> {
 public:
  explicit RepeatsMeasure(const StudyShape& shape) : PerHead(shape, {}) {}

  void begin(const StudyBlock& block) override {
    earlier_.clear();
    for (const Sequence& sequence : block.corpus.batch.sequences)
      earlier_.push_back(earlier_places(sequence));
  }
  void panel(const StudyPanel& panel) override;
  void finish(StudyResults& results) const override;

 private:
  std::vector<Earlier> earlier_;  // [sequences] of the block
};

void RepeatsMeasure::panel(const StudyPanel& panel) {
  HeadRepeats& state = states_[panel.head];
  for (const PatternRow& row : panel.rows) {
    const std::vector<std::size_t>& duplicates = earlier_[panel.panel.sequence][row.query];
    const auto add = [&](std::size_t kind, std::span<const std::size_t> keys, std::size_t shift) {
      TargetShare& share = state.kinds[kind];
      double weight = 0;
      std::size_t targets = 0;
      for (const std::size_t key : keys) {
        if (!panel.visible.shows(row.query, key + shift)) continue;
        ++targets;
        weight += static_cast<double>(row.weights[key + shift]);
      }
      if (targets == 0) {
        ++share.without;
        return;
      }
      ++share.rows;
      share.weight.add(weight);
      share.total.add(row.total);
      share.uniform.add(static_cast<double>(targets) / static_cast<double>(panel.visible.count(row.query)));
    };
    const std::size_t before[] = {row.query - 1};
    add(0, std::span(before).first(row.query > 0 ? 1 : 0), 0);
    add(1, duplicates, 0);
    add(2, duplicates, 1);
  }
}

void RepeatsMeasure::finish(StudyResults& results) const {
  const auto* const twin = dynamic_cast<const RepeatsMeasure*>(shuffled_twin());
  std::vector<ResultRow> rows;
  for (std::size_t h = 0; h < states_.size(); ++h) {
    for (std::size_t i = 0; i < kKinds.size(); ++i) {
      const TargetShare& kind = states_[h].kinds[i];
      rows.push_back({{"head", RowHead{h}},
                      {"kind", Cell(std::string(kKinds[i]))},
                      {"share", kind.share()},
                      {"uniform", kind.uniform_share()},
                      {"shuffled", twin == nullptr ? Cell() : twin->states_[h].kinds[i].share()},
                      {"rows", count_cell(kind.rows)},
                      {"rows_without", count_cell(kind.without)}});
    }
  }
  for (std::size_t i = 0; i < kKinds.size(); ++i) {
    std::vector<StrongHead> heads;
    for (std::size_t h = 0; h < states_.size(); ++h) {
      const TargetShare& kind = states_[h].kinds[i];
      if (const auto value = kind.value())
        heads.push_back({kKinds[i], shape_.heads[h].name, *value, kind.uniform_share(), kind.rows});
    }
    add_strongest(results, std::move(heads));
  }
  add_rows(results, shape_, "repeats", "repeats", std::move(rows));
}

}  // namespace

std::span<const Metric> repeats_metrics() {
  return kMetrics;
}

std::unique_ptr<Measure> make_repeats_measure(const StudyShape& shape) {
  return std::make_unique<RepeatsMeasure>(shape);
}

}  // namespace attnctl
