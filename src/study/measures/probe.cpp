#include "study/probe.hpp"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "study/measures/measures.hpp"
#include "study/measures/result_rows.hpp"
#include "study/state/ratio_sums.hpp"

namespace attnctl {
namespace {

constexpr std::array kMetrics = {
    Metric{"probe.induction", "", "[0, 1]", "control: the same where the first copy is of other tokens",
           "mean weight of the queries of the second copy on the token behind their first occurrence",
           "Olsson et al. 2022, prefix matching"},
    Metric{"probe.duplicate", "", "[0, 1]", "control: the same where the first copy is of other tokens",
           "mean weight of the queries of the second copy on their first occurrence", "Wang et al. 2022"},
    Metric{"probe.previous", "", "[0, 1]", "uniform: the mean of 1 / visible keys",
           "mean weight of the queries of the second copy on the token before them",
           "Olsson et al. 2022; TransformerLens"},
};

/// A target of the queries of the second copy.
struct Kind {
  const char* name;
  std::ptrdiff_t (*offset)(std::size_t length);
  const char* role;  // role for which it is evidence, with the control as null; empty: none
};
constexpr std::array kKinds = {
    Kind{"induction", [](std::size_t length) { return 1 - static_cast<std::ptrdiff_t>(length); },
         "induction"},
    Kind{"duplicate", [](std::size_t length) { return -static_cast<std::ptrdiff_t>(length); },
         "duplicate-token"},
    Kind{"previous", [](std::size_t) { return std::ptrdiff_t{-1}; }, ""},
};

struct HeadProbe {
  std::array<RatioSums, kKinds.size()> repeated, control;

  void merge(const HeadProbe& other) {
    for (std::size_t i = 0; i < kKinds.size(); ++i) {
      repeated[i].merge(other.repeated[i]);
      control[i].merge(other.control[i]);
    }
  }
  void save(StateWriter& out) const {
    for (std::size_t i = 0; i < kKinds.size(); ++i) {
      repeated[i].save(out);
      control[i].save(out);
    }
  }
  void load(StateReader& in) {
    for (std::size_t i = 0; i < kKinds.size(); ++i) {
      repeated[i].load(in);
      control[i].load(in);
    }
  }
};

class ProbeMeasure final : public PerHead<HeadProbe> {
 public:
  explicit ProbeMeasure(const StudyShape& shape) : PerHead(shape, {}) {}

  void begin(const StudyBlock& block) override {
    marks_ = block.corpus.probes;
    const std::vector<Terms> none(marks_.size());
    terms_.assign(states_.size(), none);
  }
  void panel(const StudyPanel& panel) override;
  void end() override;
  void finish(StudyResults& results) const override;

 private:
  using Terms = std::array<SentenceTerm, kKinds.size()>;

  [[nodiscard]] std::vector<ResultRow> rows() const;

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
      auto& sums = marks_[s].repeated ? states_[h].repeated : states_[h].control;
      for (std::size_t i = 0; i < kKinds.size(); ++i) sums[i].add(terms_[h][s][i]);
    }
  }
}

std::vector<ResultRow> ProbeMeasure::rows() const {
  std::vector<ResultRow> rows;
  for (std::size_t h = 0; h < states_.size(); ++h) {
    for (std::size_t i = 0; i < kKinds.size(); ++i) {
      const RatioSums& sums = states_[h].repeated[i];
      const auto interval = sums.interval();
      rows.push_back({{"head", RowHead{h}},
                      {"kind", Cell(std::string(kKinds[i].name))},
                      {"score", real_cell(sums.mean())},
                      {"low", interval ? real_cell(interval->low) : Cell()},
                      {"high", interval ? real_cell(interval->high) : Cell()},
                      {"control", real_cell(states_[h].control[i].mean())},
                      {"uniform", real_cell(sums.null())},
                      {"sequences", count_cell(sums.sentences())},
                      {"rows", count_cell(sums.rows())}});
    }
  }
  return rows;
}

void ProbeMeasure::finish(StudyResults& results) const {
  for (std::size_t h = 0; h < states_.size(); ++h) {
    for (std::size_t i = 0; i < kKinds.size(); ++i) {
      const RatioSums& sums = states_[h].repeated[i];
      if (*kKinds[i].role == '\0' || sums.rows() == 0) continue;
      results.evidence.push_back({.head = h,
                                  .role = kKinds[i].role,
                                  .detail = "",
                                  .score = sums.mean(),
                                  .null = states_[h].control[i].mean(),
                                  .interval = sums.interval(),
                                  .count = sums.rows()});
    }
  }
  add_rows(results, shape_, "probe", "probe", rows());
}

}  // namespace

std::span<const Metric> probe_metrics() {
  return kMetrics;
}

std::unique_ptr<Measure> make_probe_measure(const StudyShape& shape) {
  return std::make_unique<ProbeMeasure>(shape);
}

}  // namespace attnctl
