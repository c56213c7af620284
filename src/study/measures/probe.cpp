#include "study/corpus/probe.hpp"

#include <array>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "study/measure.hpp"
#include "study/state/sums.hpp"

// The measure `probe`: attention in random sequences that are repeated once.
namespace attnctl {
namespace {

constexpr std::string_view kControl = "control: the same weight if the first copy has other tokens";

constexpr std::array kMetrics = {
    Metric{"probe.induction", "", "[0, 1]", kControl,
           "random sequence, repeated once: mean weight from each token of the second copy on the token "
           "after its first occurrence",
           "Olsson et al. 2022, prefix matching"},
    Metric{"probe.duplicate", "", "[0, 1]", kControl,
           "random sequence, repeated once: mean weight from each token of the second copy on its first "
           "occurrence",
           "Wang et al. 2022"},
    Metric{"probe.previous", "", "[0, 1]", "uniform: the mean of 1 / visible keys",
           "random sequence, repeated once: mean weight from each token of the second copy on the previous "
           "token",
           "Olsson et al. 2022; TransformerLens"},
};

/// A target of the queries of the second copy.
struct Kind {
  std::string_view name;
  std::ptrdiff_t (*offset)(std::size_t length);
  std::string_view role;  // role for which it is evidence, with the control as null; empty: none
};
constexpr std::array kKinds = {
    Kind{"induction", [](std::size_t length) { return 1 - static_cast<std::ptrdiff_t>(length); },
         "induction"},
    Kind{"duplicate", [](std::size_t length) { return -static_cast<std::ptrdiff_t>(length); },
         "duplicate-token"},
    Kind{"previous", [](std::size_t) { return std::ptrdiff_t{-1}; }, ""},
};

/// Sums of one target.
struct KindSums {
  RatioSums repeated, control;

  auto parts() { return std::tie(repeated, control); }
};

class ProbeMeasure final : public PerHead<std::array<KindSums, kKinds.size()>> {
 public:
  explicit ProbeMeasure(const StudyShape& shape) : PerHead(shape) {}

  void begin(const StudyBlock& block) override {
    marks_ = block.corpus.probes;
    terms_.assign(states_.size(), std::vector<Terms>(marks_.size()));
  }
  void panel(const StudyPanel& panel) override;
  void end() override;
  void finish(StudyResults& results) const override;

 private:
  using Terms = std::array<SentenceTerm, kKinds.size()>;

  std::vector<ProbeMarks> marks_;          // [sequences] of the block
  std::vector<std::vector<Terms>> terms_;  // [heads, sequences]
};

void ProbeMeasure::panel(const StudyPanel& panel) {
  const ProbeMarks& marks = marks_[panel.panel.sequence];
  Terms& terms = terms_[panel.head][panel.panel.sequence];
  for (const PatternRow& row : panel.rows) {
    if (row.query < marks.first + marks.length) continue;
    const double uniform = 1 / static_cast<double>(panel.visible.count(row.query));
    for (std::size_t i = 0; i < kKinds.size(); ++i) {
      const auto key =
          static_cast<std::size_t>(static_cast<std::ptrdiff_t>(row.query) + kKinds[i].offset(marks.length));
      if (panel.visible.shows(row.query, key)) terms[i].add(static_cast<double>(row.weights[key]), uniform);
    }
  }
}

void ProbeMeasure::end() {
  for (std::size_t h = 0; h < states_.size(); ++h) {
    for (std::size_t s = 0; s < marks_.size(); ++s) {
      for (std::size_t i = 0; i < kKinds.size(); ++i) {
        KindSums& sums = states_[h][i];
        (marks_[s].repeated ? sums.repeated : sums.control).add(terms_[h][s][i]);
      }
    }
  }
}

void ProbeMeasure::finish(StudyResults& results) const {
  std::vector<ResultRow> rows;
  for (std::size_t h = 0; h < states_.size(); ++h) {
    for (std::size_t i = 0; i < kKinds.size(); ++i) {
      const RatioSums& sums = states_[h][i].repeated;
      const auto control = states_[h][i].control.mean();
      const auto [low, high] = interval_cells(sums.interval());
      rows.push_back({{"head", RowHead{h}},
                      {"kind", text_cell(kKinds[i].name)},
                      {"score", real_cell(sums.mean())},
                      {"low", low},
                      {"high", high},
                      {"control", real_cell(control)},
                      {"uniform", real_cell(sums.null())},
                      {"sequences", count_cell(sums.sentences())},
                      {"rows", count_cell(sums.rows())}});
      if (kKinds[i].role.empty() || sums.rows() == 0) continue;
      results.evidence.push_back(evidence_of(h, kKinds[i].role, "", sums));
      results.evidence.back().null = control;
    }
  }
  add_rows(results, shape_, "probe", "probe", std::move(rows));
}

}  // namespace

MeasureRow probe_measure() {
  return {
      .name = "probe",
      .description = "random tokens, repeated once: induction, duplicate and previous token, with a control",
      .make = make_measure<ProbeMeasure>,
      .metrics = kMetrics,
      .probe_only = true,
      .gives_evidence = true};
}

}  // namespace attnctl
