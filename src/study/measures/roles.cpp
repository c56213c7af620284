#include "attnctl/analysis/offset_peaks.hpp"
#include "attnctl/study/ratio_sums.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "study/measures/measures.hpp"
#include "study/measures/token_names.hpp"

// What roles are told by that show in the corpus itself: sums over sentences. Which of it makes a role, and
// why: study/roles.cpp.
namespace attnctl {
namespace {

constexpr std::size_t kFarthest = largest_offset;  // of positions, before and behind
constexpr std::size_t kNear = 2;                   // tokens to either side that are local

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

/// Of one sentence, or of all of them.
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

/// Which offsets show a row a key, as bits. The same for all heads that may attend to the same keys.
class OffsetMasks {
 public:
  [[nodiscard]] std::uint32_t of(const VisibleKeys& visible, std::size_t query, std::size_t keys) {
    std::vector<std::uint32_t>& masks = masks_[&visible];
    for (std::size_t i = masks.size(); i <= query; ++i) masks.push_back(make(visible, i, keys));
    return masks[query];
  }
  void clear() { masks_.clear(); }

 private:
  [[nodiscard]] static std::uint32_t make(const VisibleKeys& visible, std::size_t query, std::size_t keys) {
    std::uint32_t mask = 0;
    for (std::size_t i = 0; i < offset_count; ++i) {
      const std::size_t key = query + i;  // 8 too far
      if (key < kFarthest || key - kFarthest >= keys) continue;
      if (visible.shows(query, key - kFarthest)) mask |= 1U << i;
    }
    return mask;
  }

  std::map<const VisibleKeys*, std::vector<std::uint32_t>> masks_;  // [queries]
};

class RolesMeasure final : public PerHeadOfTokens<HeadHabits> {
 public:
  explicit RolesMeasure(const StudyShape& shape) : PerHeadOfTokens(shape, {}) {}

  void begin(const StudyBlock& block) override;
  void panel(const StudyPanel& panel) override;
  void end() override {
    for (std::size_t h = 0; h < states_.size(); ++h) close(h);
    masks_.clear();
  }
  void finish(StudyResults& results) const override;

 private:
  using Places = std::map<std::int64_t, std::vector<std::size_t>>;  // keys by id

  /// The sentence that a head is at, all its panels seen.
  struct Open {
    std::size_t sequence = 0;
    Habits<SentenceTerm> terms;
  };

  void close(std::size_t head) {
    states_[head].add(open_[head].terms);
    open_[head].terms = {};
  }
  void add(Habits<SentenceTerm>& terms, const PatternRow& row, const StudyPanel& panel);
  [[nodiscard]] std::optional<std::size_t> best_offset(const HeadHabits& head) const;

  std::vector<Places> specials_;  // [sequences] of the block
  std::vector<Open> open_;        // [heads]
  OffsetMasks masks_;
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
  for (const PatternRow& row : panel.rows) {
    if (panel.visible.count(row.query) > 1) add(open.terms, row, panel);
  }
}

void RolesMeasure::add(Habits<SentenceTerm>& terms, const PatternRow& row, const StudyPanel& panel) {
  const std::size_t keys = row.weights.size();
  const auto visible = static_cast<double>(panel.visible.count(row.query));
  const auto weight = [&](std::size_t key) { return static_cast<double>(row.weights[key]); };
  const std::uint32_t mask = masks_.of(panel.visible, row.query, keys);
  const std::size_t peak = row.argmax + kFarthest - row.query;  // wraps where it is far before
  for (std::uint32_t left = mask; left != 0; left &= left - 1) {
    const auto i = static_cast<std::size_t>(std::countr_zero(left));
    terms.offsets[i].add(i == peak ? 1 : 0, 1 / visible);
  }
  if (row.query > 0 && panel.visible.shows(row.query, 0)) terms.first.add(weight(0), 1 / visible);
  const std::size_t from = row.query - std::min(row.query, kNear);
  const std::size_t to = std::min(row.query + kNear + 1, keys);
  const auto near = static_cast<double>(panel.visible.count(row.query, from, to));
  if (near < visible) {
    double sum = 0;
    for (std::size_t key = from; key < to; ++key) sum += weight(key);
    terms.near.add(sum, near / visible);
  }
  terms.entropy.add(row.entropy / std::log(visible), 1);
  for (const auto& [id, places] : specials_[panel.panel.sequence]) {
    double sum = 0;
    double shown = 0;
    for (const std::size_t key : places) {
      if (!panel.visible.shows(row.query, key)) continue;
      sum += weight(key);
      ++shown;
    }
    if (shown > 0) terms.specials[id].add(sum, shown / visible);
  }
}

/// Of equal ones the nearer, then the one before.
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
