#include <array>
#include <map>
#include <string>
#include <utility>

#include "study/measures/measures.hpp"
#include "study/measures/per_panel.hpp"
#include "study/measures/result_rows.hpp"
#include "study/measures/special_targets.hpp"
#include "study/measures/token_names.hpp"
#include "study/target_share.hpp"

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

/// Positions of each target in a sequence.
using Targets = std::map<std::int64_t, std::vector<std::size_t>>;

/// Rows and uniform baseline of a target, for the rows of a panel.
struct TargetNull {
  std::vector<std::size_t> rows;  // rows of the panel that may attend to the target
  double uniform = 0;
};

class SpecialMeasure final : public PerHeadOfTokens<HeadTargets> {
 public:
  explicit SpecialMeasure(const StudyShape& shape) : PerHeadOfTokens(shape, {}) {}

  void begin(const StudyBlock& block) override;
  void panel(const StudyPanel& panel) override;
  void finish(StudyResults& results) const override;

 private:
  [[nodiscard]] std::vector<TargetNull> nulls(const StudyPanel& panel) const;

  std::vector<Targets> targets_;             // [sequences] of the block
  PerPanel<std::vector<TargetNull>> nulls_;  // [targets of the sequence]
};

void SpecialMeasure::begin(const StudyBlock& block) {
  targets_.clear();
  nulls_.clear();
  for (const Sequence& sequence : block.corpus.batch.sequences)
    targets_.push_back(special_targets(sequence, names_));
}

void SpecialMeasure::panel(const StudyPanel& panel) {
  HeadTargets& state = states_[panel.head];
  const Targets& targets = targets_[panel.panel.sequence];
  state.rows += panel.rows.size();
  const std::vector<TargetNull>& nulls = nulls_.of(panel, [&] { return this->nulls(panel); });
  auto null = nulls.begin();
  for (const auto& [id, keys] : targets) {
    const TargetNull& of_target = *null++;
    if (of_target.rows.empty()) continue;
    TargetShare& share = state.targets[id];
    double weight = 0;
    double total = 0;
    for (const std::size_t r : of_target.rows) {
      for (const std::size_t key : keys) weight += static_cast<double>(panel.rows[r].weights[key]);
      total += panel.rows[r].total;
    }
    share.rows += of_target.rows.size();
    share.weight.add(weight);
    share.total.add(total);
    share.uniform.add(of_target.uniform);
  }
}

std::vector<TargetNull> SpecialMeasure::nulls(const StudyPanel& panel) const {
  std::vector<TargetNull> nulls;
  for (const auto& [id, keys] : targets_[panel.panel.sequence]) {
    TargetNull& null = nulls.emplace_back();
    for (std::size_t r = 0; r < panel.rows.size(); ++r) {
      const std::size_t query = panel.rows[r].query;
      const auto shown =
          std::ranges::count_if(keys, [&](std::size_t key) { return panel.visible.shows(query, key); });
      if (shown == 0) continue;
      null.rows.push_back(r);
      null.uniform += static_cast<double>(shown) / static_cast<double>(panel.visible.count(query));
    }
  }
  return nulls;
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
  add_rows(results, shape_, "special", "special", std::move(rows));
}

}  // namespace

std::span<const Metric> special_metrics() {
  return kMetrics;
}

std::unique_ptr<Measure> make_special_measure(const StudyShape& shape) {
  return std::make_unique<SpecialMeasure>(shape);
}

}  // namespace attnctl
