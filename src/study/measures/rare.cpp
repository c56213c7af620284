#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "study/corpus/token_frequencies.hpp"
#include "study/measures/measures.hpp"
#include "study/measures/result_rows.hpp"
#include "study/state/ratio_sums.hpp"

namespace attnctl {
namespace {

constexpr std::array kMetrics = {
    Metric{
        "rare.weight", "", "[0, 1]", "uniform: the mean of such keys / visible keys",
        "mean weight on the rarest token of the sentence by its frequency in the corpus, all places of those "
        "that are equally rare together, over the rows that may attend to it and to others too",
        "Voita et al. 2019, section 5.3"},
    Metric{"rare.peaks", "", "[0, 1]", "uniform",
           "the share of these rows whose largest weight is on the rarest token",
           "Voita et al. 2019, section 5.3"},
};

struct HeadRare {
  RatioSums weight;
  std::uint64_t peaks = 0;    // rows whose largest weight is on the rarest token
  std::uint64_t without = 0;  // rows that cannot attend to the rarest token, or only to it

  void merge(const HeadRare& other) {
    weight.merge(other.weight);
    peaks += other.peaks;
    without += other.without;
  }
  void save(StateWriter& out) const {
    weight.save(out);
    out.number(peaks);
    out.number(without);
  }
  void load(StateReader& in) {
    weight.load(in);
    peaks = in.number();
    without = in.number();
  }
  [[nodiscard]] Cell peak_share() const {
    if (weight.rows() == 0) return {};
    return real_cell(static_cast<double>(peaks) / static_cast<double>(weight.rows()));
  }
};

class RareMeasure final : public PerHead<HeadRare> {
 public:
  explicit RareMeasure(const StudyShape& shape) : PerHead(shape, {}) {}

  void begin(const StudyBlock& block) override {
    const TokenFrequencies unknown;  // without frequencies, all tokens are equally rare
    const TokenFrequencies& frequencies = block.frequencies == nullptr ? unknown : *block.frequencies;
    for (const Sequence& sequence : block.corpus.batch.sequences)
      rarest_.push_back(rarest_tokens(sequence, frequencies));
    terms_.assign(states_.size(), std::vector<SentenceTerm>(rarest_.size()));
  }
  void panel(const StudyPanel& panel) override;
  void end() override {
    for (std::size_t h = 0; h < states_.size(); ++h) {
      for (const SentenceTerm& term : terms_[h]) states_[h].weight.add(term);
    }
    terms_.clear();
  }
  void finish(StudyResults& results) const override;

 private:
  [[nodiscard]] std::optional<double> shuffled(std::size_t head) const;
  [[nodiscard]] std::vector<ResultRow> rows() const;

  std::vector<std::vector<std::size_t>> rarest_;  // [sequences] of the block: positions of the rarest tokens
  std::vector<std::vector<SentenceTerm>> terms_;  // [heads, sequences]
};

void RareMeasure::panel(const StudyPanel& panel) {
  HeadRare& state = states_[panel.head];
  SentenceTerm& term = terms_[panel.head][panel.panel.sequence];
  const std::vector<std::size_t>& rarest = rarest_[panel.panel.sequence];
  for (const PatternRow& row : panel.rows) {
    double weight = 0;
    std::size_t shown = 0;
    bool peak = false;
    for (const std::size_t key : rarest) {
      if (!panel.visible.shows(row.query, key)) continue;
      ++shown;
      weight += static_cast<double>(row.weights[key]);
      peak = peak || key == row.argmax;
    }
    const std::size_t visible = panel.visible.count(row.query);
    if (shown == 0 || shown == visible) {
      ++state.without;
      continue;
    }
    term.add(weight, static_cast<double>(shown) / static_cast<double>(visible));
    if (peak) ++state.peaks;
  }
}

/// Returns the score of the same head on shuffled tokens, at the same positions.
std::optional<double> RareMeasure::shuffled(std::size_t head) const {
  const auto* const twin = dynamic_cast<const RareMeasure*>(shuffled_twin());
  return twin == nullptr ? std::nullopt : twin->states_[head].weight.mean();
}

std::vector<ResultRow> RareMeasure::rows() const {
  std::vector<ResultRow> rows;
  for (std::size_t h = 0; h < states_.size(); ++h) {
    const HeadRare& state = states_[h];
    const auto interval = state.weight.interval();
    rows.push_back({{"head", RowHead{h}},
                    {"weight", real_cell(state.weight.mean())},
                    {"low", interval ? real_cell(interval->low) : Cell()},
                    {"high", interval ? real_cell(interval->high) : Cell()},
                    {"uniform", real_cell(state.weight.null())},
                    {"shuffled", real_cell(shuffled(h))},
                    {"peaks", state.peak_share()},
                    {"rows", count_cell(state.weight.rows())},
                    {"rows_without", count_cell(state.without)}});
  }
  return rows;
}

void RareMeasure::finish(StudyResults& results) const {
  std::vector<StrongHead> heads;
  for (std::size_t h = 0; h < states_.size(); ++h) {
    const RatioSums& sums = states_[h].weight;
    if (sums.rows() == 0) continue;
    heads.push_back(
        {"rarest token", shape_.heads[h].name, *sums.mean(), real_cell(sums.null()), sums.rows()});
    results.evidence.push_back({.head = h,
                                .role = "rare-token",
                                .detail = "",
                                .score = sums.mean(),
                                .null = sums.null(),
                                .interval = sums.interval(),
                                .count = sums.rows(),
                                .shuffled = shuffled(h)});
  }
  add_strongest(results, std::move(heads));
  add_rows(results, shape_, "rare", "rare", rows());
}

}  // namespace

std::span<const Metric> rare_metrics() {
  return kMetrics;
}

std::unique_ptr<Measure> make_rare_measure(const StudyShape& shape) {
  return std::make_unique<RareMeasure>(shape);
}

}  // namespace attnctl
