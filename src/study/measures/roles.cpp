#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analysis/patterns/pattern_row.hpp"
#include "study/measures/measures.hpp"
#include "study/measures/per_panel.hpp"
#include "study/measures/token_names.hpp"
#include "study/state/ratio_sums.hpp"

// Evidence for the roles that are visible in the patterns of the corpus, as sums over sentences.
// study/roles.cpp has the rules of the roles and their sources.
namespace attnctl {
namespace {

constexpr std::size_t kFarthest = largest_offset;  // largest offset in each direction
constexpr std::size_t kNear = 2;                   // largest distance of a local key, in tokens

constexpr std::array kMetrics = {
    Metric{"roles.positional", "", "[0, 1]", "the mean of 1 / visible keys: peaks that fall anywhere",
           "share of the rows with a key at that offset that have their largest weight there",
           "Voita et al. 2019, section 5.1"},
    Metric{"roles.sink", "", "[0, 1]", "the mean of 1 / visible keys: even weights",
           "mean weight on position 0, over the other queries", "Xiao et al. 2023"},
    Metric{"roles.separator", "", "[0, 1]", "the mean of such keys / visible keys: even weights",
           "mean weight on a special token that is not at position 0, over the rows that may attend to it",
           "Clark et al. 2019, section 3.2"},
    Metric{"roles.local", "", "[0, 1]", "the mean of near keys / visible keys: even weights",
           "mean weight on keys at most 2 tokens away, over the rows that may attend to others too",
           "Clark et al. 2019, section 3.1; Raganato and Tiedemann 2018"},
    Metric{"roles.broad", "", "[0, 1]", "1: even weights",
           "mean of entropy / ln(visible keys), over the rows that may attend to two keys or more",
           "Clark et al. 2019, section 3.3"},
};

/// Sums for the roles, of one sentence (SentenceTerm) or of all sentences (RatioSums).
template <typename Sums>
struct Habits {
  std::array<Sums, offset_count> offsets;  // -8 to 8
  Sums first, near, entropy;
  std::map<std::int64_t, Sums> specials;  // by id
};

struct HeadHabits : Habits<RatioSums> {
  void merge(const HeadHabits& other) {
    for (std::size_t i = 0; i < offset_count; ++i) offsets[i].merge(other.offsets[i]);
    first.merge(other.first);
    near.merge(other.near);
    entropy.merge(other.entropy);
    for (const auto& [id, sums] : other.specials) specials[id].merge(sums);
  }
  void add(const Habits<SentenceTerm>& sentence) {
    for (std::size_t i = 0; i < offset_count; ++i) offsets[i].add(sentence.offsets[i]);
    first.add(sentence.first);
    near.add(sentence.near);
    entropy.add(sentence.entropy);
    for (const auto& [id, term] : sentence.specials) specials[id].add(term);
  }
  void save(StateWriter& out) const {
    for (const RatioSums& sums : offsets) sums.save(out);
    for (const RatioSums* const sums : {&first, &near, &entropy}) sums->save(out);
    out.number(specials.size());
    for (const auto& [id, sums] : specials) {
      out.signed_number(id);
      sums.save(out);
    }
  }
  void load(StateReader& in) {
    for (RatioSums& sums : offsets) sums.load(in);
    for (RatioSums* const sums : {&first, &near, &entropy}) sums->load(in);
    specials.clear();
    for (std::size_t left = in.count(); left > 0; --left) {
      const std::int64_t id = in.signed_number();
      specials[id].load(in);
    }
  }
};

/// Row counts and nulls for the rows of a panel that see more than one key. The sums of the terms are 0.
struct HabitNulls {
  Habits<SentenceTerm> terms;
  std::vector<double> log_keys;  // [rows of the panel], ln(visible keys); 0 if one key is visible

  void add_to(Habits<SentenceTerm>& sentence) const {
    const auto add = [](const SentenceTerm& from, SentenceTerm& to) {
      to.null += from.null;
      to.rows += from.rows;
    };
    for (std::size_t i = 0; i < offset_count; ++i) add(terms.offsets[i], sentence.offsets[i]);
    add(terms.first, sentence.first);
    add(terms.near, sentence.near);
    add(terms.entropy, sentence.entropy);
    for (const auto& [id, term] : terms.specials) add(term, sentence.specials[id]);
  }
};

/// Checks whether the query sees at least one key that is not near.
bool has_near(const PatternRow& row, const VisibleKeys& visible) {
  const KeyRange near = keys_near(row, kNear);
  return visible.count(row.query, near.first, near.last) < visible.count(row.query);
}

class RolesMeasure final : public PerHeadOfTokens<HeadHabits> {
 public:
  explicit RolesMeasure(const StudyShape& shape) : PerHeadOfTokens(shape, {}) {}

  void begin(const StudyBlock& block) override;
  void panel(const StudyPanel& panel) override;
  void end() override {
    for (std::size_t h = 0; h < states_.size(); ++h) close(h);
    nulls_.clear();
  }
  void finish(StudyResults& results) const override;

 private:
  using Places = std::map<std::int64_t, std::vector<std::size_t>>;  // positions by id

  /// The sentence that a head is processing. It ends when a panel of another sequence comes.
  struct Open {
    std::size_t sequence = 0;
    Habits<SentenceTerm> terms;
  };

  void close(std::size_t head) {
    states_[head].add(open_[head].terms);
    open_[head].terms = {};
  }
  [[nodiscard]] HabitNulls nulls(const StudyPanel& panel) const;
  [[nodiscard]] std::optional<std::size_t> best_offset(const HeadHabits& head) const;

  std::vector<Places> specials_;  // [sequences] of the block
  std::vector<Open> open_;        // [heads]
  PerPanel<HabitNulls> nulls_;
};

void RolesMeasure::begin(const StudyBlock& block) {
  specials_.clear();
  for (const Sequence& sequence : block.corpus.batch.sequences) {
    Places& places = specials_.emplace_back();
    for (std::size_t i = 1; i < sequence.ids.size(); ++i) {
      if (sequence.special[i] == 0) continue;
      const std::int64_t id = sequence.ids[i];
      places[id].push_back(i);
      names_.add(sequence, i);
    }
  }
  open_.assign(states_.size(), {});
}

void RolesMeasure::panel(const StudyPanel& panel) {
  Open& open = open_[panel.head];
  if (open.sequence != panel.panel.sequence) {
    close(panel.head);
    open.sequence = panel.panel.sequence;
  }
  const HabitNulls& nulls = nulls_.of(panel, [&] { return this->nulls(panel); });
  Habits<SentenceTerm>& terms = open.terms;
  nulls.add_to(terms);
  for (std::size_t r = 0; r < panel.rows.size(); ++r) {
    const PatternRow& row = panel.rows[r];
    if (nulls.log_keys[r] == 0) continue;
    const std::size_t peak = row.argmax + kFarthest - row.query;  // wraps around for a far earlier key
    if (peak < offset_count && panel.visible.shows(row.query, row.argmax)) ++terms.offsets[peak].sum;
    if (row.query > 0) terms.first.sum += static_cast<double>(row.weights[0]);
    if (has_near(row, panel.visible)) {
      const KeyRange near = keys_near(row, kNear);
      for (std::size_t key = near.first; key < near.last; ++key)
        terms.near.sum += static_cast<double>(row.weights[key]);
    }
    terms.entropy.sum += row.entropy / nulls.log_keys[r];
  }
  for (const auto& [id, places] : specials_[panel.panel.sequence]) {
    double sum = 0;
    for (std::size_t r = 0; r < panel.rows.size(); ++r) {
      if (nulls.log_keys[r] == 0) continue;
      for (const std::size_t key : places) sum += static_cast<double>(panel.rows[r].weights[key]);
    }
    if (const auto term = terms.specials.find(id); term != terms.specials.end()) term->second.sum += sum;
  }
}

HabitNulls RolesMeasure::nulls(const StudyPanel& panel) const {
  HabitNulls result;
  Habits<SentenceTerm>& terms = result.terms;
  for (const PatternRow& row : panel.rows) {
    const auto visible = static_cast<double>(panel.visible.count(row.query));
    result.log_keys.push_back(std::log(visible));
    if (visible <= 1) continue;
    const KeyRange keys = keys_near(row, kFarthest);
    for (std::size_t key = keys.first; key < keys.last; ++key) {
      if (panel.visible.shows(row.query, key)) terms.offsets[key + kFarthest - row.query].add(0, 1 / visible);
    }
    if (row.query > 0 && panel.visible.shows(row.query, 0)) terms.first.add(0, 1 / visible);
    const KeyRange near = keys_near(row, kNear);
    if (has_near(row, panel.visible))
      terms.near.add(0, static_cast<double>(panel.visible.count(row.query, near.first, near.last)) / visible);
    terms.entropy.add(0, 1);
    for (const auto& [id, places] : specials_[panel.panel.sequence]) {
      const auto shown = static_cast<double>(std::ranges::count_if(
          places, [&](std::size_t key) { return panel.visible.shows(row.query, key); }));
      if (shown > 0) terms.specials[id].add(0, shown / visible);
    }
  }
  return result;
}

/// Returns the offset with the largest share of rows. Prefers the smaller distance, then the negative offset.
std::optional<std::size_t> RolesMeasure::best_offset(const HeadHabits& head) const {
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
  results.tell_roles = true;
  for (std::size_t h = 0; h < states_.size(); ++h) {
    const auto give = [&](std::string_view role, std::string detail, const RatioSums& sums) {
      results.evidence.push_back({.head = h,
                                  .role = role,
                                  .detail = std::move(detail),
                                  .score = sums.mean(),
                                  .null = sums.null(),
                                  .interval = sums.interval(),
                                  .count = sums.rows()});
    };
    const HeadHabits& head = states_[h];
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

std::span<const Metric> roles_metrics() {
  return kMetrics;
}

std::unique_ptr<Measure> make_roles_measure(const StudyShape& shape) {
  return std::make_unique<RolesMeasure>(shape);
}

}  // namespace attnctl
