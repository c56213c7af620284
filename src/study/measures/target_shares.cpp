#include "study/measures/target_shares.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "study/state/sums.hpp"

// The measures `special` and `repeats`: the share of attention weight on target keys.
namespace attnctl {
namespace {

constexpr std::string_view kUniform = "uniform: the mean over the same rows of target keys / visible keys";

constexpr std::array kSpecialMetrics = {
    Metric{
        "special.share", "", "[0, 1]", kUniform,
        "share of the attention weight that is on the keys with this special token, or on position 0, over "
        "the rows that may attend to such a key",
        "Clark et al. 2019, section 3.2; Xiao et al. 2023"},
};
constexpr std::array kRepeatsMetrics = {
    Metric{"repeats.previous", "", "[0, 1]", kUniform,
           "share of the attention weight that is on the previous token, over the rows that may attend to it",
           "TransformerLens, head detector; Olsson et al. 2022"},
    Metric{"repeats.duplicate", "", "[0, 1]", kUniform,
           "share of the attention weight that is on earlier occurrences of the query's own token, over the "
           "rows that may attend to one",
           "TransformerLens; Wang et al. 2022"},
    Metric{"repeats.induction", "", "[0, 1]", kUniform,
           "share of the attention weight that is on the tokens directly after earlier occurrences of the "
           "query's own token, over the rows that may attend to one",
           "TransformerLens; Olsson et al. 2022"},
};

/// The share of attention weight on target keys, with the share under uniform attention. The sums cover the
/// rows that have a target.
struct TargetShare {
  std::uint64_t rows = 0;     // rows with a target
  std::uint64_t without = 0;  // rows left out because they have no target
  BlockSum weight;            // weight on targets
  BlockSum total;             // all weights of those rows: 1 per row, or less if the head has a sink
  BlockSum uniform;           // targets / visible keys

  auto parts() { return std::tie(rows, without, weight, total, uniform); }
  [[nodiscard]] std::optional<double> value() const {
    const double all = total.value();
    return all > 0 ? std::optional(weight.value() / all) : std::nullopt;
  }
  [[nodiscard]] Cell uniform_share() const { return mean_cell(uniform.value(), rows); }
};

/// Adds a head to the list from which the strongest heads are chosen, if its share is defined.
void add_head(std::vector<StrongHead>& heads, std::string what, const StudyHead& head,
              const TargetShare& share) {
  if (const auto value = share.value())
    heads.push_back({std::move(what), head.name, *value, share.uniform_share(), share.rows});
}

struct HeadTargets {
  std::uint64_t rows = 0;
  std::map<std::int64_t, TargetShare> targets;  // by id

  auto parts() { return std::tie(rows, targets); }
};

/// Rows and uniform baseline of a target, for the rows of a panel.
struct TargetNull {
  std::vector<std::size_t> rows;  // rows of the panel that may attend to the target
  double uniform = 0;
};

class SpecialMeasure final : public PerHeadOfTokens<HeadTargets> {
 public:
  explicit SpecialMeasure(const StudyShape& shape) : PerHeadOfTokens(shape) {}

  void begin(const StudyBlock& block) override {
    targets_.clear();
    nulls_.clear();
    for (const Sequence& sequence : block.corpus.batch.sequences)
      targets_.push_back(special_targets(sequence, names_));
  }
  void panel(const StudyPanel& panel) override;
  void finish(StudyResults& results) const override;

 private:
  [[nodiscard]] std::vector<TargetNull> nulls(const StudyPanel& panel) const;

  std::vector<PositionsOf> targets_;         // [sequences] of the block
  PerPanel<std::vector<TargetNull>> nulls_;  // [targets of the sequence]
};

void SpecialMeasure::panel(const StudyPanel& panel) {
  HeadTargets& state = states_[panel.head];
  state.rows += panel.rows.size();
  const std::vector<TargetNull>& nulls = nulls_.of(panel, [&] { return this->nulls(panel); });
  auto null = nulls.begin();
  for (const auto& [id, keys] : targets_[panel.panel.sequence]) {
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
      const auto visible =
          std::ranges::count_if(keys, [&](std::size_t key) { return panel.visible.shows(query, key); });
      if (visible == 0) continue;
      null.rows.push_back(r);
      null.uniform += static_cast<double>(visible) / static_cast<double>(panel.visible.count(query));
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
                      {"share", real_cell(share.value())},
                      {"uniform", share.uniform_share()},
                      {"rows", count_cell(share.rows)},
                      {"rows_without", count_cell(states_[h].rows - share.rows)}});
      add_head(heads[id], target_name(id, names_), shape_.heads[h], share);
    }
  }
  for (auto& [id, of_target] : heads) results.add_strongest(std::move(of_target));
  add_rows(results, shape_, "special", "special", std::move(rows));
}

constexpr std::array kKinds = {"previous", "duplicate", "induction"};
using KindShares = std::array<TargetShare, kKinds.size()>;

/// Earlier positions of each token's id, [tokens], ascending; empty for the first occurrence.
using Earlier = std::vector<std::vector<std::size_t>>;

Earlier earlier_positions(const Sequence& sequence) {
  Earlier earlier(sequence.ids.size());
  PositionsOf positions;
  for (std::size_t i = 0; i < sequence.ids.size(); ++i) {
    std::vector<std::size_t>& of_token = positions[sequence.ids[i]];
    earlier[i] = of_token;
    of_token.push_back(i);
  }
  return earlier;
}

class RepeatsMeasure final : public PerHead<KindShares> {
 public:
  explicit RepeatsMeasure(const StudyShape& shape) : PerHead(shape) {}

  void begin(const StudyBlock& block) override {
    earlier_.clear();
    for (const Sequence& sequence : block.corpus.batch.sequences)
      earlier_.push_back(earlier_positions(sequence));
  }
  void panel(const StudyPanel& panel) override;
  void finish(StudyResults& results) const override;

 private:
  std::vector<Earlier> earlier_;  // [sequences] of the block
};

void RepeatsMeasure::panel(const StudyPanel& panel) {
  KindShares& state = states_[panel.head];
  for (const PatternRow& row : panel.rows) {
    const auto add = [&](TargetShare& share, std::span<const std::size_t> keys, std::size_t shift) {
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
    const std::vector<std::size_t>& duplicates = earlier_[panel.panel.sequence][row.query];
    const std::size_t previous[] = {row.query - 1};
    add(state[0], std::span(previous).first(row.query > 0 ? 1 : 0), 0);
    add(state[1], duplicates, 0);
    add(state[2], duplicates, 1);
  }
}

void RepeatsMeasure::finish(StudyResults& results) const {
  const auto* const twin = dynamic_cast<const RepeatsMeasure*>(shuffled_twin());
  std::vector<ResultRow> rows;
  std::array<std::vector<StrongHead>, kKinds.size()> heads;
  for (std::size_t h = 0; h < states_.size(); ++h) {
    for (std::size_t i = 0; i < kKinds.size(); ++i) {
      const TargetShare& share = states_[h][i];
      rows.push_back({{"head", RowHead{h}},
                      {"kind", text_cell(kKinds[i])},
                      {"share", real_cell(share.value())},
                      {"uniform", share.uniform_share()},
                      {"shuffled", twin == nullptr ? Cell() : real_cell(twin->states_[h][i].value())},
                      {"rows", count_cell(share.rows)},
                      {"rows_without", count_cell(share.without)}});
      add_head(heads[i], kKinds[i], shape_.heads[h], share);
    }
  }
  for (std::vector<StrongHead>& of_kind : heads) results.add_strongest(std::move(of_kind));
  add_rows(results, shape_, "repeats", "repeats", std::move(rows));
}

std::string id_name(std::int64_t id) {
  return "#" + std::to_string(id);
}

}  // namespace

void TokenNames::add(const Sequence& sequence, std::size_t position) {
  const std::int64_t id = sequence.ids[position];
  if (!names_.contains(id)) names_[id] = sequence.tokens.empty() ? id_name(id) : sequence.tokens[position];
}

std::string TokenNames::of(std::int64_t id) const {
  const auto name = names_.find(id);
  return name == names_.end() ? id_name(id) : name->second;
}

PositionsOf special_positions(const Sequence& sequence, std::size_t first, TokenNames& names) {
  PositionsOf positions;
  for (std::size_t i = first; i < sequence.ids.size(); ++i) {
    if (sequence.special[i] == 0) continue;
    positions[sequence.ids[i]].push_back(i);
    names.add(sequence, i);
  }
  return positions;
}

PositionsOf special_targets(const Sequence& sequence, TokenNames& names) {
  PositionsOf targets = special_positions(sequence, 0, names);
  targets[kFirstPosition] = {0};
  return targets;
}

std::string target_name(std::int64_t target, const TokenNames& names) {
  return target == kFirstPosition ? "position 0" : names.of(target);
}

Cell target_token(std::int64_t target, const TokenNames& names) {
  return target == kFirstPosition ? Cell() : Cell(names.of(target));
}

Cell target_position(std::int64_t target) {
  return target == kFirstPosition ? Cell(std::int64_t{0}) : Cell();
}

MeasureRow special_measure() {
  return {.name = "special",
          .description = "weight on each special token, and on position 0",
          .make = make_measure<SpecialMeasure>,
          .metrics = kSpecialMetrics};
}

MeasureRow repeats_measure() {
  return {
      .name = "repeats",
      .description = "weight on the previous token, on duplicates, and on the tokens after them (induction)",
      .make = make_measure<RepeatsMeasure>,
      .metrics = kRepeatsMetrics,
      .depends_on_order = true};
}

}  // namespace attnctl
