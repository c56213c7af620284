#include "attnctl/study/target_share.hpp"

#include <array>
#include <map>
#include <string>
#include <utility>

#include "study/measures/measures.hpp"
#include "study/measures/result_rows.hpp"
#include "study/measures/special_targets.hpp"
#include "study/measures/token_names.hpp"

namespace attnctl {
namespace {

constexpr std::array kMetrics = {
    Metric{
        "special.share", "", "[0, 1]", "uniform: the mean of targets / visible keys",
        "sum of weights on the keys that are this special token, or on position 0, over sum(A), of the rows "
        "that may attend to one",
        "Clark et al. 2019, section 3.2; Xiao et al. 2023"},
};

struct HeadTargets {
  std::uint64_t rows = 0;
  std::map<std::int64_t, TargetShare> targets;  // by id

  void merge(const HeadTargets& other) {
    rows += other.rows;
    for (const auto& [id, share] : other.targets) targets[id].merge(share);
  }
  void save(StateWriter& out) const {
    out.number(rows);
    out.number(targets.size());
    for (const auto& [id, share] : targets) {
      out.signed_number(id);
      share.save(out);
    }
  }
  void load(StateReader& in) {
    rows = in.number();
    targets.clear();
    for (std::size_t left = in.count(); left > 0; --left) {
      const std::int64_t id = in.signed_number();
      targets[id].load(in);
    }
  }
};

/// Keys of a sequence by what they are.
using Targets = std::map<std::int64_t, std::vector<std::size_t>>;

class SpecialMeasure final : public PerHeadOfTokens<HeadTargets> {
 public:
  explicit SpecialMeasure(const StudyShape& shape) : PerHeadOfTokens(shape, {}) {}

  void begin(const StudyBlock& block) override;
  void panel(const StudyPanel& panel) override;
  void finish(StudyResults& results) const override;

 private:
  std::vector<Targets> targets_;  // [sequences] of the block
};

void SpecialMeasure::begin(const StudyBlock& block) {
  targets_.clear();
  for (const Sequence& sequence : block.corpus.batch.sequences)
    targets_.push_back(special_targets(sequence, names_));
}

void SpecialMeasure::panel(const StudyPanel& panel) {
  HeadTargets& state = states_[panel.head];
  const Targets& targets = targets_[panel.panel.sequence];
  state.rows += panel.rows.size();
  for (const auto& [id, keys] : targets) {
    TargetShare* share = nullptr;  // none as long as no row has such a key
    for (const PatternRow& row : panel.rows) {
      double weight = 0;
      std::size_t shown = 0;
      for (const std::size_t key : keys) {
        if (!panel.visible.shows(row.query, key)) continue;
        ++shown;
        weight += static_cast<double>(row.weights[key]);
      }
      if (shown == 0) continue;
      if (share == nullptr) share = &state.targets[id];
      ++share->rows;
      share->weight.add(weight);
      share->total.add(row.total);
      share->uniform.add(static_cast<double>(shown) / static_cast<double>(panel.visible.count(row.query)));
    }
  }
}

void SpecialMeasure::finish(StudyResults& results) const {
  std::vector<ResultRow> rows;
  std::map<std::int64_t, std::vector<StrongHead>> heads;
  for (std::size_t h = 0; h < states_.size(); ++h) {
    for (const auto& [id, share] : states_[h].targets) {
      rows.push_back({{"head", RowHead{h}},
                      {"token", target_token(id, names_)},
                      {"position", target_position(id)},
                      {"share", share.share()},
                      {"uniform", share.uniform_share()},
                      {"rows", count_cell(share.rows)},
                      {"rows_without", count_cell(states_[h].rows - share.rows)}});
      if (const auto value = share.value()) {
        heads[id].push_back(
            {target_name(id, names_), shape_.heads[h].name, *value, share.uniform_share(), share.rows});
      }
    }
  }
  for (auto& [id, of_target] : heads) add_strongest(results, std::move(of_target));
  add_rows(results, shape_, "special", "special", rows);
}

}  // namespace

std::span<const Metric> special_metrics() {
  return kMetrics;
}

std::unique_ptr<Measure> make_special_measure(const StudyShape& shape) {
  return std::make_unique<SpecialMeasure>(shape);
}

}  // namespace attnctl
