#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "study/corpus/token_frequencies.hpp"
#include "study/measure.hpp"
#include "study/state/sums.hpp"

// The measure `rare`: attention to the rarest token of the sentence.
namespace attnctl {
namespace {

constexpr std::array kMetrics = {
    Metric{"rare.weight", "", "[0, 1]", "uniform: the mean of rarest keys / visible keys over the same rows",
           "mean weight on the token of the sentence that is rarest in the corpus (all occurrences, and all "
           "equally rare tokens), over the rows that may attend to it and also to other tokens",
           "Voita et al. 2019, section 5.3"},
    Metric{"rare.peaks", "", "[0, 1]", "uniform, as for rare.weight",
           "share of rows whose largest weight is on the rarest token, over the rows of rare.weight",
           "Voita et al. 2019, section 5.3"},
};

struct HeadRare {
  RatioSums weight;
  std::uint64_t peaks = 0;    // rows whose largest weight is on the rarest token
  std::uint64_t without = 0;  // rows that cannot attend to the rarest token, or only to it

  auto parts() { return std::tie(weight, peaks, without); }
};

class RareMeasure final : public PerHead<HeadRare> {
 public:
  explicit RareMeasure(const StudyShape& shape) : PerHead(shape) {}

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
  std::vector<std::vector<std::size_t>> rarest_;  // [sequences] of the block: positions of the rarest tokens
  std::vector<std::vector<SentenceTerm>> terms_;  // [heads, sequences]
};

void RareMeasure::panel(const StudyPanel& panel) {
  HeadRare& state = states_[panel.head];
  SentenceTerm& term = terms_[panel.head][panel.panel.sequence];
  const std::vector<std::size_t>& rarest = rarest_[panel.panel.sequence];
  for (const PatternRow& row : panel.rows) {
    double weight = 0;
    std::size_t targets = 0;
    bool peak = false;
    for (const std::size_t key : rarest) {
      if (!panel.visible.shows(row.query, key)) continue;
      ++targets;
      weight += static_cast<double>(row.weights[key]);
      peak = peak || key == row.argmax;
    }
    const std::size_t visible = panel.visible.count(row.query);
    if (targets == 0 || targets == visible) {
      ++state.without;
      continue;
    }
    term.add(weight, static_cast<double>(targets) / static_cast<double>(visible));
    if (peak) ++state.peaks;
  }
}

void RareMeasure::finish(StudyResults& results) const {
  const auto* const twin = dynamic_cast<const RareMeasure*>(shuffled_twin());
  std::vector<ResultRow> rows;
  std::vector<StrongHead> heads;
  for (std::size_t h = 0; h < states_.size(); ++h) {
    const HeadRare& state = states_[h];
    const RatioSums& sums = state.weight;
    const auto shuffled = twin == nullptr ? std::nullopt : twin->states_[h].weight.mean();
    const auto [low, high] = interval_cells(sums.interval());
    rows.push_back({{"head", RowHead{h}},
                    {"weight", real_cell(sums.mean())},
                    {"low", low},
                    {"high", high},
                    {"uniform", real_cell(sums.null())},
                    {"shuffled", real_cell(shuffled)},
                    {"peaks", mean_cell(static_cast<double>(state.peaks), sums.rows())},
                    {"rows", count_cell(sums.rows())},
                    {"rows_without", count_cell(state.without)}});
    if (sums.rows() == 0) continue;
    heads.push_back(
        {"rarest token", shape_.heads[h].name, *sums.mean(), real_cell(sums.null()), sums.rows()});
    results.evidence.push_back(evidence_of(h, "rare-token", "", sums));
    results.evidence.back().shuffled = shuffled;
  }
  results.add_strongest(std::move(heads));
  add_rows(results, shape_, "rare", "rare", std::move(rows));
}

}  // namespace

MeasureRow rare_measure() {
  return {.name = "rare",
          .description = "weight on the token of the sentence that is rarest in the corpus",
          .make = make_measure<RareMeasure>,
          .metrics = kMetrics,
          .gives_evidence = true,
          .depends_on_order = true,
          .needs_frequencies = true};
}

}  // namespace attnctl
