#include "study/measure.hpp"

// The measures `special`, `repeats`, `rare` and `probe`: attention weight on target keys.
namespace attnctl::study {
namespace {

constexpr std::string_view kUniform = "uniform: the mean over the same rows of target keys / visible keys";

constexpr auto kSpecialDefinitions = std::to_array<Definition>({
    {"special.share", "", "[0, 1]", kUniform,
     "share of the attention weight that is on the keys with this special token, or on position 0, over the "
     "rows that may attend to such a key",
     "Clark et al. 2019, section 3.2; Xiao et al. 2023"},
    {"special.token", "", "", "",
     "the special token as the tokenizer writes it; empty in the rows of position 0"},
    {"special.position", "", "0", "", "0 in the rows of position 0; empty in the rows of a special token"},
});
constexpr auto kRepeatsDefinitions = std::to_array<Definition>({
    {"repeats.previous", "", "[0, 1]", kUniform,
     "share of the attention weight that is on the previous token, over the rows that may attend to it",
     "TransformerLens, head detector; Olsson et al. 2022"},
    {"repeats.duplicate", "", "[0, 1]", kUniform,
     "share of the attention weight that is on earlier occurrences of the query's own token, over the rows "
     "that may attend to one",
     "TransformerLens; Wang et al. 2022"},
    {"repeats.induction", "", "[0, 1]", kUniform,
     "share of the attention weight that is on the tokens directly after earlier occurrences of the query's "
     "own token, over the rows that may attend to one",
     "TransformerLens; Olsson et al. 2022"},
    {"repeats.share", "", "[0, 1]", kUniform,
     "share of the attention weight that is on keys of this `kind`, over the rows that may attend to one"},
});

/// The share of the attention weight that is on target keys, over the rows that have a visible target.
struct TargetShare : WeightSums {
  std::uint64_t without = 0;  // rows that are left out because they have no target; only for `repeats`
  BlockSum total;             // sum of all weights of the `count` rows: 1 per row, or less with a sink

  auto parts() { return std::tie(count, without, weight, total, uniform); }
  [[nodiscard]] std::optional<double> value() const {
    const double all = total.value();
    return all > 0 ? std::optional(weight.value() / all) : std::nullopt;
  }
  [[nodiscard]] Cell uniform_share() const { return mean_cell(uniform.value(), count); }
};

/// Returns the weight of a row on the visible targets, key + shift for each of `keys`, and their number.
std::pair<double, std::size_t> weight_on(std::span<const std::size_t> keys, const analysis::PatternRow& row,
                                         const forward::VisibleKeys& visible, std::size_t shift = 0) {
  double weight = 0;
  std::size_t targets = 0;
  for (const std::size_t key : keys) {
    if (!visible.shows(row.query, key + shift)) continue;
    ++targets;
    weight += static_cast<double>(row.weights[key + shift]);
  }
  return {weight, targets};
}

void add_head(std::vector<StrongHead>& heads, std::string what, std::size_t head, const TargetShare& share) {
  if (const auto value = share.value())
    heads.push_back({std::move(what), head, *value, share.uniform_share(), share.count});
}

struct HeadTargets {
  std::uint64_t rows = 0;
  std::map<std::int64_t, TargetShare> targets;  // by id

  auto parts() { return std::tie(rows, targets); }
};

/// The rows of a panel that may attend to a target, and their weight on it under uniform attention.
struct TargetNull {
  std::vector<std::size_t> rows;  // indices of the rows
  double uniform = 0;
};

class SpecialMeasure final : public PerHead<HeadTargets, TokenNames> {
 public:
  explicit SpecialMeasure(const StudyShape& shape) : PerHead(shape) {}

  void begin(const StudyBlock& block) override {
    for (const input::Sequence& sequence : block.corpus.batch.sequences)
      targets_.push_back(special_targets(sequence, names_));
  }
  void panel(const StudyPanel& panel) override {
    HeadTargets& state = states_[panel.head];
    state.rows += panel.rows.size();
    const PositionsOf& targets = targets_[panel.panel.sequence];
    const std::vector<TargetNull>& nulls = nulls_.of(panel, [&] {
      std::vector<TargetNull> found;
      for (const auto& [id, keys] : targets) {
        TargetNull& null = found.emplace_back();
        for (std::size_t r = 0; r < panel.rows.size(); ++r) {
          const std::size_t query = panel.rows[r].query;
          const auto visible =
              std::ranges::count_if(keys, [&](std::size_t key) { return panel.visible.shows(query, key); });
          if (visible == 0) continue;
          null.rows.push_back(r);
          null.uniform += static_cast<double>(visible) / static_cast<double>(panel.visible.count(query));
        }
      }
      return found;
    });
    for (auto null = nulls.begin(); const auto& [id, keys] : targets) {
      double weight = 0;
      double total = 0;
      for (const std::size_t r : null->rows) {
        for (const std::size_t key : keys) weight += static_cast<double>(panel.rows[r].weights[key]);
        total += panel.rows[r].total;
      }
      if (!null->rows.empty()) {
        state.targets[id].add(null->rows.size(), weight, null->uniform);
        state.targets[id].total.add(total);
      }
      ++null;
    }
  }
  void finish(StudyResults& results) const override {
    std::vector<std::vector<Cell>> rows;
    std::map<std::int64_t, std::vector<StrongHead>> heads;
    for (std::size_t h = 0; h < states_.size(); ++h) {
      std::optional<double>& first_weight = results.first_weights.emplace_back();
      for (const auto& [id, share] : states_[h].targets) {
        if (id == kFirstPosition && share.count > 0)
          first_weight = share.weight.value() / static_cast<double>(share.count);
        rows.push_back(row_of(shape_.head_cells(h), target_cells(id, names_), share.value(),
                              share.uniform_share(), share.count, states_[h].rows - share.count));
        add_head(heads[id], names_.of(id), h, share);
      }
    }
    for (auto& [id, of_target] : heads) results.add_strongest(std::move(of_target));
    add_table(results, "special", "special",
              {"component", "layer", "head", "name", "token", "position", "share", "uniform", "rows",
               "rows_without"},
              std::move(rows));
  }

 private:
  std::vector<PositionsOf> targets_;         // [sequences] of the block
  PerPanel<std::vector<TargetNull>> nulls_;  // [targets of the sequence]
};

constexpr std::array kKinds = {"previous", "duplicate", "induction"};
using KindShares = std::array<TargetShare, kKinds.size()>;

class RepeatsMeasure final : public PerHead<KindShares> {
 public:
  explicit RepeatsMeasure(const StudyShape& shape) : PerHead(shape) {}

  void begin(const StudyBlock& block) override {
    for (const input::Sequence& sequence : block.corpus.batch.sequences) {
      auto& earlier = earlier_.emplace_back();
      PositionsOf positions;
      for (std::size_t i = 0; i < sequence.ids.size(); ++i) {
        std::vector<std::size_t>& of_token = positions[sequence.ids[i]];
        earlier.push_back(of_token);
        of_token.push_back(i);
      }
    }
  }
  void panel(const StudyPanel& panel) override {
    KindShares& state = states_[panel.head];
    for (const analysis::PatternRow& row : panel.rows) {
      const auto add = [&](TargetShare& share, std::span<const std::size_t> keys, std::size_t shift) {
        const auto [weight, targets] = weight_on(keys, row, panel.visible, shift);
        share.without += targets == 0 ? 1 : 0;
        if (targets == 0) return;
        share.add(1, weight,
                  static_cast<double>(targets) / static_cast<double>(panel.visible.count(row.query)));
        share.total.add(row.total);
      };
      const std::vector<std::size_t>& duplicates = earlier_[panel.panel.sequence][row.query];
      const std::size_t previous[] = {row.query - 1};
      add(state[0], std::span(previous).first(row.query > 0 ? 1 : 0), 0);
      add(state[1], duplicates, 0);
      add(state[2], duplicates, 1);
    }
  }
  void finish(StudyResults& results) const override {
    const auto* const twin = dynamic_cast<const RepeatsMeasure*>(shuffled_twin_);
    std::vector<std::vector<Cell>> rows;
    std::array<std::vector<StrongHead>, kKinds.size()> heads;
    for (std::size_t h = 0; h < states_.size(); ++h) {
      for (std::size_t i = 0; i < kKinds.size(); ++i) {
        const TargetShare& share = states_[h][i];
        const auto shuffled = twin == nullptr ? std::nullopt : twin->states_[h][i].value();
        rows.push_back(row_of(shape_.head_cells(h), kKinds[i], share.value(), share.uniform_share(), shuffled,
                              share.count, share.without));
        add_head(heads[i], kKinds[i], h, share);
      }
    }
    for (std::vector<StrongHead>& of_kind : heads) results.add_strongest(std::move(of_kind));
    add_table(results, "repeats", "repeats",
              {"component", "layer", "head", "name", "kind", "share", "uniform", "shuffled", "rows",
               "rows_without"},
              std::move(rows));
  }

 private:
  /// For each token, the earlier positions with the same token id, ascending, [sequences, tokens].
  std::vector<std::vector<std::vector<std::size_t>>> earlier_;
};

constexpr auto kRareDefinitions = std::to_array<Definition>({
    {"rare.weight", "", "[0, 1]", "uniform: the mean of rarest keys / visible keys over the same rows",
     "mean weight on the token of the sentence that is rarest in the corpus (all occurrences, and all "
     "equally rare tokens), over the rows that may attend to it and also to other tokens",
     "Voita et al. 2019, section 5.3"},
    {"rare.peaks", "", "[0, 1]", "uniform, as for rare.weight",
     "share of rows whose largest weight is on the rarest token, over the rows of rare.weight",
     "Voita et al. 2019, section 5.3"},
    {"rare.low", "", "[0, 1]", "", "lower end of the 95 % interval of weight (docs/roles.md)"},
    {"rare.high", "", "[0, 1]", "", "upper end of the 95 % interval of weight (docs/roles.md)"},
    {"rare.rows_without", "", "from 0", "",
     "number of rows left out, because they may not attend to the rarest token, or only to it"},
});

struct HeadRare {
  RatioSums weight;
  std::uint64_t peaks = 0;    // rows whose largest weight is on the rarest token
  std::uint64_t without = 0;  // rows that cannot attend to the rarest token, or can only attend to it

  auto parts() { return std::tie(weight, peaks, without); }
};

class RareMeasure final : public PerHead<HeadRare> {
 public:
  explicit RareMeasure(const StudyShape& shape) : PerHead(shape) {}

  void begin(const StudyBlock& block) override {
    for (const input::Sequence& sequence : block.corpus.batch.sequences)
      rarest_.push_back(rarest_tokens(sequence, *block.frequencies));
  }
  void panel(const StudyPanel& panel) override {
    HeadRare& state = states_[panel.head];
    SentenceTerm& term = state.weight.open(panel.panel.sequence);
    const std::vector<std::size_t>& rarest = rarest_[panel.panel.sequence];
    for (const analysis::PatternRow& row : panel.rows) {
      const auto [weight, targets] = weight_on(rarest, row, panel.visible);
      const std::size_t visible = panel.visible.count(row.query);
      if (targets == 0 || targets == visible) {
        ++state.without;
        continue;
      }
      term.add(weight, static_cast<double>(targets) / static_cast<double>(visible));
      const bool peak = std::ranges::find(rarest, row.argmax) != rarest.end();
      if (peak && panel.visible.shows(row.query, row.argmax)) ++state.peaks;
    }
  }
  void finish(StudyResults& results) const override {
    const auto* const twin = dynamic_cast<const RareMeasure*>(shuffled_twin_);
    std::vector<std::vector<Cell>> rows;
    std::vector<StrongHead> heads;
    for (std::size_t h = 0; h < states_.size(); ++h) {
      const HeadRare& state = states_[h];
      const RatioSums& sums = state.weight;
      const auto shuffled = twin == nullptr ? std::nullopt : twin->states_[h].weight.mean();
      rows.push_back(row_of(shape_.head_cells(h), sums.mean(), interval_cells(sums.estimate()), sums.null(),
                            shuffled, mean_cell(static_cast<double>(state.peaks), sums.rows()), sums.rows(),
                            state.without));
      if (sums.rows() == 0) continue;
      heads.push_back({"rarest token", h, *sums.mean(), real_cell(sums.null()), sums.rows()});
      results.evidence.push_back(evidence_of(h, "rare-token", "", sums));
      results.evidence.back().shuffled = shuffled;
    }
    results.add_strongest(std::move(heads));
    add_table(results, "rare", "rare",
              {"component", "layer", "head", "name", "weight", "low", "high", "uniform", "shuffled", "peaks",
               "rows", "rows_without"},
              std::move(rows));
  }

 private:
  std::vector<std::vector<std::size_t>> rarest_;  // [sequences] of the block: positions of the rarest tokens
};

constexpr std::string_view kControl = "control: the same weight if the first copy has other tokens";

constexpr auto kProbeDefinitions = std::to_array<Definition>({
    {"probe.induction", "", "[0, 1]", kControl,
     "random sequence, repeated once: mean weight from each token of the second copy on the token after its "
     "first occurrence",
     "Olsson et al. 2022, prefix matching"},
    {"probe.duplicate", "", "[0, 1]", kControl,
     "random sequence, repeated once: mean weight from each token of the second copy on its first occurrence",
     "Wang et al. 2022"},
    {"probe.previous", "", "[0, 1]", "uniform: the mean of 1 / visible keys",
     "random sequence, repeated once: mean weight from each token of the second copy on the previous token",
     "Olsson et al. 2022; TransformerLens"},
    {"probe.score", "", "[0, 1]", kControl,
     "random sequence, repeated once: mean weight from each token of the second copy on the key of this "
     "`kind`"},
    {"control", "", "[0, 1]", "", "the same weight if the first copy has other tokens"},
    {"sequences", "", "from 0", "", "number of repeated sequences in the score"},
});

/// A target key of the queries in the second copy of a probe sequence.
struct ProbeKind {
  std::string_view name;
  std::size_t (*distance)(std::size_t length);  // from the query back to the key
  /// Role for which the weight on this target is evidence, with the control as null; empty: none.
  std::string_view role;
};
constexpr std::array kProbeKinds = {
    ProbeKind{"induction", [](std::size_t length) { return length - 1; }, "induction"},
    ProbeKind{"duplicate", [](std::size_t length) { return length; }, "duplicate-token"},
    ProbeKind{"previous", [](std::size_t) { return std::size_t{1}; }, ""},
};

using ProbeSums = std::array<RatioSums, 2>;  // over repeated sequences, over controls

class ProbeMeasure final : public PerHead<std::array<ProbeSums, kProbeKinds.size()>> {
 public:
  explicit ProbeMeasure(const StudyShape& shape) : PerHead(shape) {}

  void begin(const StudyBlock& block) override { marks_ = block.corpus.probes; }
  void panel(const StudyPanel& panel) override {
    const ProbeMarks& marks = marks_[panel.panel.sequence];
    for (const analysis::PatternRow& row : panel.rows) {
      if (row.query < marks.first + marks.length) continue;
      const double uniform = 1 / static_cast<double>(panel.visible.count(row.query));
      for (std::size_t i = 0; i < kProbeKinds.size(); ++i) {
        const std::size_t key = row.query - kProbeKinds[i].distance(marks.length);
        if (!panel.visible.shows(row.query, key)) continue;
        RatioSums& sums = states_[panel.head][i][marks.repeated ? 0 : 1];
        sums.open(panel.panel.sequence).add(static_cast<double>(row.weights[key]), uniform);
      }
    }
  }
  void finish(StudyResults& results) const override {
    std::vector<std::vector<Cell>> rows;
    for (std::size_t h = 0; h < states_.size(); ++h) {
      for (std::size_t i = 0; i < kProbeKinds.size(); ++i) {
        const auto& [sums, control] = states_[h][i];
        rows.push_back(row_of(shape_.head_cells(h), kProbeKinds[i].name, sums.mean(),
                              interval_cells(sums.estimate()), control.mean(), sums.null(), sums.sentences(),
                              sums.rows()));
        if (kProbeKinds[i].role.empty() || sums.rows() == 0) continue;
        results.evidence.push_back(evidence_of(h, kProbeKinds[i].role, "", sums));
        results.evidence.back().null = control.mean();
      }
    }
    add_table(results, "probe", "probe",
              {"component", "layer", "head", "name", "kind", "score", "low", "high", "control", "uniform",
               "sequences", "rows"},
              std::move(rows));
  }

 private:
  std::vector<ProbeMarks> marks_;  // [sequences] of the block
};

}  // namespace

MeasureRow special_measure() {
  return {.name = "special",
          .description = "weight on each special token, and on position 0",
          .make = make_measure<SpecialMeasure>,
          .definitions = kSpecialDefinitions};
}

MeasureRow repeats_measure() {
  return {
      .name = "repeats",
      .description = "weight on the previous token, on duplicates, and on the tokens after them (induction)",
      .make = make_measure<RepeatsMeasure>,
      .definitions = kRepeatsDefinitions,
      .depends_on_order = true};
}

MeasureRow rare_measure() {
  return {.name = "rare",
          .description = "weight on the token of the sentence that is rarest in the corpus",
          .make = make_measure<RareMeasure>,
          .definitions = kRareDefinitions,
          .gives_evidence = true,
          .depends_on_order = true,
          .needs_frequencies = true};
}

MeasureRow probe_measure() {
  return {
      .name = "probe",
      .description = "random tokens, repeated once: induction, duplicate and previous token, with a control",
      .make = make_measure<ProbeMeasure>,
      .definitions = kProbeDefinitions,
      .probe_only = true,
      .gives_evidence = true};
}

}  // namespace attnctl::study
