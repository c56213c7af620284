#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "analysis/patterns/pattern_row.hpp"
#include "study/measure.hpp"
#include "study/measures/target_shares.hpp"
#include "study/state/sums.hpp"

// The measure `roles`: evidence for the roles that are visible in the patterns of the corpus, as sums over
// sentences. study/roles.cpp has the rules of the roles and their sources.
namespace attnctl {
namespace {

constexpr std::size_t kFarthest = largest_offset;  // largest offset in each direction
constexpr std::size_t kNear = 2;                   // largest distance of a local key, in tokens

constexpr std::array kMetrics = {
    Metric{
        "roles.positional", "", "[0, 1]", "the mean of 1 / visible keys: a largest weight on a random key",
        "share of rows whose largest weight is at the best offset, over the rows with a key at that offset",
        "Voita et al. 2019, section 5.1"},
    Metric{"roles.sink", "", "[0, 1]", "the mean of 1 / visible keys: uniform attention",
           "mean weight on position 0, over all other queries", "Xiao et al. 2023"},
    Metric{"roles.separator", "", "[0, 1]", "the mean of target keys / visible keys: uniform attention",
           "mean weight on a special token that is not at position 0, over the rows that may attend to it",
           "Clark et al. 2019, section 3.2"},
    Metric{"roles.local", "", "[0, 1]", "the mean of near keys / visible keys: uniform attention",
           "mean weight on keys at most 2 tokens away, over the rows that may also attend to other keys",
           "Clark et al. 2019, section 3.1; Raganato and Tiedemann 2018"},
    Metric{"roles.broad", "", "[0, 1]", "1: uniform attention",
           "mean of entropy / ln(visible keys), over the rows that may attend to two or more keys",
           "Clark et al. 2019, section 3.3"},
};

/// Sums for the roles, of one sentence (SentenceTerm) or of all sentences (RatioSums).
template <typename Sums>
struct RoleSums {
  std::array<Sums, offset_count> offsets;  // -8 to 8
  Sums first, near, entropy;
  std::map<std::int64_t, Sums> specials;  // by id

  auto parts() { return std::tie(offsets, first, near, entropy, specials); }
  /// Calls add(sums, term) for each member and its term in `other`.
  template <typename Add>
  void fold(const RoleSums<SentenceTerm>& other, const Add& add) {
    for (std::size_t i = 0; i < offset_count; ++i) add(offsets[i], other.offsets[i]);
    add(first, other.first);
    add(near, other.near);
    add(entropy, other.entropy);
    for (const auto& [id, term] : other.specials) add(specials[id], term);
  }
};
using SentenceSums = RoleSums<SentenceTerm>;

/// Row counts and nulls for the rows of a panel that see more than one key. The sums of the terms are 0.
struct RoleNulls {
  SentenceSums terms;
  std::vector<double> log_keys;  // [rows of the panel], ln(visible keys); 0 if one key is visible
};

/// Checks whether the query sees at least one key that is not near.
bool sees_far_keys(const PatternRow& row, const VisibleKeys& visible) {
  const KeyRange near = keys_near(row, kNear);
  return visible.count(row.query, near.first, near.last) < visible.count(row.query);
}

class RolesMeasure final : public PerHeadOfTokens<RoleSums<RatioSums>> {
 public:
  explicit RolesMeasure(const StudyShape& shape) : PerHeadOfTokens(shape) {}

  void begin(const StudyBlock& block) override {
    specials_.clear();
    for (const Sequence& sequence : block.corpus.batch.sequences)
      specials_.push_back(special_positions(sequence, 1, names_));
    open_.assign(states_.size(), {});
  }
  void panel(const StudyPanel& panel) override;
  void end() override {
    for (std::size_t h = 0; h < states_.size(); ++h) close(h);
    nulls_.clear();
  }
  void finish(StudyResults& results) const override;

 private:
  /// The sentence that a head is processing. It ends when a panel of another sequence comes.
  struct Open {
    std::size_t sequence = 0;
    SentenceSums terms;
  };

  void close(std::size_t head) {
    states_[head].fold(open_[head].terms, [](RatioSums& to, const SentenceTerm& term) { to.add(term); });
    open_[head].terms = {};
  }
  [[nodiscard]] RoleNulls nulls(const StudyPanel& panel) const;

  std::vector<PositionsOf> specials_;  // [sequences] of the block
  std::vector<Open> open_;             // [heads]
  PerPanel<RoleNulls> nulls_;
};

void RolesMeasure::panel(const StudyPanel& panel) {
  Open& open = open_[panel.head];
  if (open.sequence != panel.panel.sequence) {
    close(panel.head);
    open.sequence = panel.panel.sequence;
  }
  const RoleNulls& nulls = nulls_.of(panel, [&] { return this->nulls(panel); });
  SentenceSums& terms = open.terms;
  terms.fold(nulls.terms, [](SentenceTerm& to, const SentenceTerm& from) {
    to.null += from.null;
    to.rows += from.rows;
  });
  for (std::size_t r = 0; r < panel.rows.size(); ++r) {
    const PatternRow& row = panel.rows[r];
    if (nulls.log_keys[r] == 0) continue;
    const std::size_t peak = row.argmax + kFarthest - row.query;  // wraps around for a far earlier key
    if (peak < offset_count && panel.visible.shows(row.query, row.argmax)) ++terms.offsets[peak].sum;
    if (row.query > 0) terms.first.sum += static_cast<double>(row.weights[0]);
    if (sees_far_keys(row, panel.visible)) {
      const KeyRange near = keys_near(row, kNear);
      for (std::size_t key = near.first; key < near.last; ++key)
        terms.near.sum += static_cast<double>(row.weights[key]);
    }
    terms.entropy.sum += row.entropy / nulls.log_keys[r];
  }
  for (const auto& [id, positions] : specials_[panel.panel.sequence]) {
    double sum = 0;
    for (std::size_t r = 0; r < panel.rows.size(); ++r) {
      if (nulls.log_keys[r] == 0) continue;
      for (const std::size_t key : positions) sum += static_cast<double>(panel.rows[r].weights[key]);
    }
    if (const auto term = terms.specials.find(id); term != terms.specials.end()) term->second.sum += sum;
  }
}

RoleNulls RolesMeasure::nulls(const StudyPanel& panel) const {
  RoleNulls result;
  SentenceSums& terms = result.terms;
  for (const PatternRow& row : panel.rows) {
    const auto visible = static_cast<double>(panel.visible.count(row.query));
    result.log_keys.push_back(std::log(visible));
    if (visible <= 1) continue;
    for_each_visible_offset(row, panel.visible, [&](std::size_t i) { terms.offsets[i].add(0, 1 / visible); });
    if (row.query > 0 && panel.visible.shows(row.query, 0)) terms.first.add(0, 1 / visible);
    const KeyRange near = keys_near(row, kNear);
    if (sees_far_keys(row, panel.visible))
      terms.near.add(0, static_cast<double>(panel.visible.count(row.query, near.first, near.last)) / visible);
    terms.entropy.add(0, 1);
    for (const auto& [id, positions] : specials_[panel.panel.sequence]) {
      const auto targets = static_cast<double>(std::ranges::count_if(
          positions, [&](std::size_t key) { return panel.visible.shows(row.query, key); }));
      if (targets > 0) terms.specials[id].add(0, targets / visible);
    }
  }
  return result;
}

/// Returns the offset with the largest share of rows. Prefers the smaller distance, then the negative offset.
std::optional<std::size_t> best_offset(const RoleSums<RatioSums>& head) {
  std::optional<std::size_t> best;
  for (std::size_t distance = 0; distance <= kFarthest; ++distance) {
    for (const std::size_t i : {kFarthest - distance, kFarthest + distance}) {
      const auto share = head.offsets[i].mean();
      if (share && (!best || *share > *head.offsets[*best].mean())) best = i;
    }
  }
  return best;
}

void RolesMeasure::finish(StudyResults& results) const {
  results.with_roles = true;
  for (std::size_t h = 0; h < states_.size(); ++h) {
    const auto give = [&](std::string_view role, std::string detail, const RatioSums& sums) {
      results.evidence.push_back(evidence_of(h, role, std::move(detail), sums));
    };
    const RoleSums<RatioSums>& head = states_[h];
    if (const auto best = best_offset(head)) {
      const std::int64_t offset = static_cast<std::int64_t>(*best) - largest_offset;
      give("positional", (offset > 0 ? "+" : "") + std::to_string(offset), head.offsets[*best]);
    }
    give("sink", "position 0", head.first);
    for (const auto& [id, sums] : head.specials) give("separator", names_.of(id), sums);
    give("local", "", head.near);
    give("broad", "", head.entropy);
  }
}

}  // namespace

MeasureRow roles_measure() {
  return {.name = "roles",
          .description = "the role of each head, from these measures, with evidence and null",
          .make = make_measure<RolesMeasure>,
          .metrics = kMetrics,
          .gives_evidence = true};
}

}  // namespace attnctl
