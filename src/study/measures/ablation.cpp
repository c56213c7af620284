#include "study/ablation.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "causal/footprint.hpp"
#include "causal/gradient.hpp"
#include "causal/interventions.hpp"
#include "study/measure.hpp"

// The measures `ablation` and `probe_ablation`: what removing heads and MLPs does to the predictions.
namespace attnctl::study {
namespace {

constexpr auto kAblationDefinitions = std::to_array<Definition>({
    {"loss_change", "nats", "", "0: the set does not matter",
     "mean over scored queries of the change of -ln p(right token) when the set is removed",
     "Michel et al. 2019"},
    {"divergence", "nats", "from 0", "0: the set does not matter",
     "mean over scored queries of KL(p || q), where p is the prediction of the model, and q that without the "
     "set",
     "Kullback and Leibler 1951"},
    {"logit_change", "", "", "0",
     "mean over scored queries of the change of the right token's logit minus the mean of all logits"},
    {"direct_change", "", "", "0",
     "the part of logit_change that does not pass through later layers: the change of the heads' outputs, "
     "through "
     "the final norm with its unchanged scale and the output matrix; undefined for models with post-norms",
     "Elhage et al. 2021"},
    {"self_repair", "", "", "0: later layers neither repair nor amplify",
     "logit_change - direct_change: what later layers add when the set is removed", "Rushing and Nanda 2024"},
    {"answer_change", "", "", "0", "mean over sentences of the change of logit(--answer) - logit(--wrong)",
     "Wang et al. 2022"},
    {"estimate", "nats", "", "0",
     "first-order estimate of loss_change: sum over positions of (replacement - z) . dL/dz; undefined for "
     "MLPs",
     "Nanda 2023, attribution patching"},
    {"importance", "nats", "from 0", "0: the head does not matter",
     "mean over sentences, weighted by predicted tokens, of |sum over positions of z . dL/dz|, summed over "
     "the heads of the set",
     "Michel et al. 2019"},
    {"p_value", "", "(0, 1]", "uniform if the set is like the null sets",
     "(1 + number of null sets with at least this loss_change, or for keep at most this one) / (1 + "
     "null_sets)",
     "Phipson and Smyth 2010"},
    {"set", "", "", "", "the heads or MLPs that are removed together"},
    {"ablation.heads", "", "", "", "the heads of the set, joined by +; empty for an MLP"},
    {"ablation.kind", "", "", "",
     "head, pair, layer, mlp, group, keep (all other heads are removed) or random"},
    {"removed", "", "from 1", "", "number of heads and MLPs that are removed"},
    {"ablation.sentences", "", "from 0", "", "number of sentences with scored queries"},
    {"queries", "", "from 0", "",
     "number of scored queries: those that predict a next token (of the target, if there is one), or masked "
     "tokens"},
    {"loss", "nats", "from 0", "", "mean over scored queries of -ln p(right token), without any removal"},
    {"loss_change_low", "nats", "", "",
     "lower end of the 95 % interval of loss_change (bootstrap over sentences)"},
    {"loss_change_high", "nats", "", "", "upper end of the 95 % interval of loss_change"},
    {"divergence_low", "nats", "from 0", "", "lower end of the 95 % interval of divergence"},
    {"divergence_high", "nats", "from 0", "", "upper end of the 95 % interval of divergence"},
    {"answer_change_low", "", "", "", "lower end of the 95 % interval of answer_change"},
    {"answer_change_high", "", "", "", "upper end of the 95 % interval of answer_change"},
    {"null_sets", "", "from 0", "",
     "number of null sets: for a head, a pair or an MLP, the other ones in the same layers (if they are "
     "fewer "
     "than 10, in all layers); for other sets, random sets with as many heads of the same layers"},
    {"null_mean", "nats", "", "", "mean loss_change of the null sets"},
    {"null_high", "nats", "", "", "largest loss_change of the null sets"},
    {"probe_loss_change", "nats", "", "0: the head does not matter for copying",
     "loss_change of the head on the second copy of repeated random tokens (table probe_ablation)",
     "Olsson et al. 2022"},
    {"control_loss", "nats", "from 0", "",
     "loss on the controls, whose first copy has other tokens, so that nothing can be copied"},
    {"control_change", "nats", "", "0", "loss_change on the controls"},
    {"sentence", "", "", "", "place of the sentence in its file"},
    {"confirmed", "", "true or false", "",
     "whether the whole 95 % interval of loss_change is above 0 and above null_mean"},
    {"kept", "", "from 0", "", "number of heads that are kept; the others are removed"},
    {"ordered", "nats", "from 0", "", "loss if the first heads of --order are kept"},
    {"kept.random", "nats", "from 0", "", "mean loss over random sets of kept heads"},
    {"random_low", "nats", "from 0", "", "smallest loss over random sets of kept heads"},
    {"random_high", "nats", "from 0", "", "largest loss over random sets of kept heads"},
});

constexpr std::size_t kFewestNulls = 10;

/// The numbers of a set and a sentence, in the order of the state file.
enum EffectIndex : std::size_t {
  kLoss,
  kDivergence,
  kLogit,
  kDirect,
  kAnswer,
  kEstimate,
  kImportance,
  kEffects
};

/// The results of one sentence.
struct AblatedSentence {
  std::string name;
  std::uint64_t control = 0;   // 1: a control of the probe
  std::uint64_t queries = 0;   // scored queries
  float loss = 0;              // without removal
  std::vector<float> effects;  // [sets, kEffects]
};

/// The means of the effects of all sets over some sentences, and their intervals. The 95 % interval has the
/// percentiles of 1,000 samples of the sentences with replacement, which are the same for all sets. For more
/// than 10,000 sentences, it is the mean +- 1.96 standard errors of a ratio of sums (Cochran 1977).
class EffectMeans {
 public:
  EffectMeans(std::vector<const AblatedSentence*> sentences, std::size_t sets, std::uint64_t seed)
      : sentences_(std::move(sentences)) {
    const std::size_t size = sentences_.size();
    for (std::size_t set = 0; set < sets; ++set) {
      for (std::size_t effect = 0; effect < kEffects; ++effect)
        means_.push_back(ratio(terms(set, effect), {}));
    }
    if (size < 2 || size > kMostSampled) return;
    counts_.resize(kResamples * size);
    for (std::size_t sample = 0; sample < kResamples; ++sample) {
      Random random(seed, sample);
      for (std::size_t i = 0; i < size; ++i) counts_[sample * size + random.next() % size] += 1;
    }
  }

  /// Returns nullopt if the effect is undefined.
  [[nodiscard]] std::optional<double> mean(std::size_t set, std::size_t effect) const {
    const double value = means_[set * kEffects + effect];
    return std::isfinite(value) ? std::optional(value) : std::nullopt;
  }
  [[nodiscard]] std::optional<ConfidenceInterval> interval(std::size_t set, std::size_t effect) const {
    const std::optional<double> center = mean(set, effect);
    const std::size_t size = sentences_.size();
    if (size < 2 || !center) return std::nullopt;
    const std::vector<EffectTerm> all = terms(set, effect);
    if (counts_.empty()) {
      double squares = 0, weight = 0;
      for (const EffectTerm& term : all) {
        squares += std::pow(term.sum - *center * term.weight, 2);
        weight += term.weight;
      }
      const double width = 1.96 * std::sqrt(squares) / weight;
      return ConfidenceInterval{*center - width, *center + width};
    }
    std::vector<double> samples;
    for (std::size_t sample = 0; sample < kResamples; ++sample)
      samples.push_back(ratio(all, std::span(counts_).subspan(sample * size, size)));
    std::ranges::sort(samples);
    constexpr std::size_t kTail = kResamples / 40;  // 2.5 %
    return ConfidenceInterval{samples[kTail], samples[kResamples - 1 - kTail]};
  }
  [[nodiscard]] std::size_t sentences() const { return sentences_.size(); }
  [[nodiscard]] std::uint64_t queries() const {
    std::uint64_t sum = 0;
    for (const AblatedSentence* const sentence : sentences_) sum += sentence->queries;
    return sum;
  }
  /// Returns the mean loss without removal.
  [[nodiscard]] std::optional<double> loss() const {
    double sum = 0;
    for (const AblatedSentence* const sentence : sentences_)
      if (sentence->queries > 0) sum += double{sentence->loss} * static_cast<double>(sentence->queries);
    return queries() == 0 ? std::nullopt : std::optional(sum / static_cast<double>(queries()));
  }

 private:
  static constexpr std::size_t kResamples = 1000;
  static constexpr std::size_t kMostSampled = 10'000;

  /// The part of a sentence in a weighted mean.
  struct EffectTerm {
    double sum = 0, weight = 0;
  };
  [[nodiscard]] std::vector<EffectTerm> terms(std::size_t set, std::size_t effect) const {
    std::vector<EffectTerm> all;
    all.reserve(sentences_.size());
    for (const AblatedSentence* const sentence : sentences_) {
      // The answer has one value per sentence, or none; the other effects are means over its queries.
      const double value = double{sentence->effects[set * kEffects + effect]};
      const double answers = std::isfinite(value) ? 1 : 0;
      const double weight = effect == kAnswer ? answers : static_cast<double>(sentence->queries);
      all.push_back({weight > 0 ? weight * value : 0, weight});
    }
    return all;
  }
  /// `counts` says how often each sentence is in a sample; empty: once.
  [[nodiscard]] static double ratio(std::span<const EffectTerm> all, std::span<const float> counts) {
    double sum = 0, weight = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double count = counts.empty() ? 1.0 : double{counts[i]};
      sum += count * all[i].sum;
      weight += count * all[i].weight;
    }
    return sum / weight;
  }

  std::vector<const AblatedSentence*> sentences_;
  std::vector<double> means_;  // [sets, kEffects]
  std::vector<float> counts_;  // [kResamples, sentences]; empty: no samples
};

/// The changes of the loss of the null sets of one set.
struct NullChanges {
  std::size_t count = 0;
  std::size_t extreme = 0;  // those with at least the change of the set; for `keep`, at most
  double sum = 0;
  double low = std::numeric_limits<double>::infinity(), high = -low;

  [[nodiscard]] double mean() const { return sum / static_cast<double>(count); }
};

/// The null sets of all sets: for a head, a pair or an MLP, the other ones of its kind in the same layers,
/// or, if these are fewer than kFewestNulls, all others of its kind; for other sets, the random sets that
/// belong to them.
class NullSets {
 public:
  NullSets(const std::vector<RemovedSet>& sets, const EffectMeans& means) : sets_(sets), means_(means) {
    for (std::size_t s = 0; s < sets.size(); ++s) {
      const std::optional<double> change = means.mean(s, kLoss);
      if (!change) continue;
      if (sets[s].null_of >= 0) drawn_[sets[s].null_of].push_back(*change);
      of_kind_[sets[s].kind].push_back(*change);
      of_layers_[layers_of(sets[s])].push_back(*change);
    }
    for (auto& group : drawn_) std::ranges::sort(group.second);
    for (auto& group : of_kind_) std::ranges::sort(group.second);
    for (auto& group : of_layers_) std::ranges::sort(group.second);
  }

  [[nodiscard]] NullChanges of(std::size_t s) const {
    const std::optional<double> own = means_.mean(s, kLoss);
    if (!own) return {};
    const std::string& kind = sets_[s].kind;
    if (kind != "head" && kind != "pair" && kind != "mlp") {
      const auto found = drawn_.find(static_cast<std::int64_t>(s));
      if (found == drawn_.end()) return {};
      NullChanges nulls = compared(found->second, *own, false);
      if (kind == "keep")  // a good order raises the loss less than random ones
        nulls.extreme =
            static_cast<std::size_t>(std::ranges::upper_bound(found->second, *own) - found->second.begin());
      return nulls;
    }
    const std::vector<double>& same = of_layers_.at(layers_of(sets_[s]));
    return compared(same.size() > kFewestNulls ? same : of_kind_.at(kind), *own, true);
  }

 private:
  using LayersOfKind = std::pair<std::string, std::vector<std::size_t>>;
  [[nodiscard]] static LayersOfKind layers_of(const RemovedSet& set) {
    LayersOfKind key{set.kind, {}};
    for (const model::HeadId id : set.heads) key.second.push_back(id.layer);
    return key;
  }
  /// `with_own`: the ascending changes also have the one of the set, which is left out.
  [[nodiscard]] static NullChanges compared(const std::vector<double>& changes, double own, bool with_own) {
    const std::size_t left_out = with_own ? 1 : 0;
    NullChanges nulls;
    nulls.count = changes.size() - left_out;
    if (nulls.count == 0) return nulls;
    const auto place = std::ranges::lower_bound(changes, own);
    nulls.extreme = static_cast<std::size_t>(changes.end() - place) - left_out;
    for (const double change : changes) nulls.sum += change;
    if (with_own) nulls.sum -= own;
    const bool is_low = with_own && changes.front() == own, is_high = with_own && changes.back() == own;
    nulls.low = is_low ? changes[1] : changes.front();
    nulls.high = is_high ? changes[changes.size() - 2] : changes.back();
    return nulls;
  }

  const std::vector<RemovedSet>& sets_;
  const EffectMeans& means_;
  std::map<std::int64_t, std::vector<double>> drawn_;   // by the set that they belong to
  std::map<std::string, std::vector<double>> of_kind_;  // ascending, like the other two
  std::map<LayersOfKind, std::vector<double>> of_layers_;
};

/// Returns a heatmap of a value of each head, [heads].
HeatmapPage head_page(const StudyShape& shape, const std::string& title, const std::string& unit,
                      const std::vector<Cell>& cells) {
  const HeadGrid grid(shape);
  const Shape size = {grid.layers.size(), grid.columns.size()};
  std::vector<double> values(size[0] * size[1], kUndefined);
  for (std::size_t h = 0; h < grid.cells.size(); ++h) values[grid.cells[h]] = number_of(cells.at(h));
  HeatmapPage page{.title = title,
                   .scale = {.label = unit},
                   .heatmaps = {{title, "Head", "Layer", grid.columns, grid.layers,
                                 make_tensor(size, std::move(values))}}};
  page.fit_scale();
  return page;
}

/// Returns a value with its interval as text: "0.710 (0.660 to 0.750)".
Cell interval_text(const std::optional<double>& mean, const std::optional<ConfidenceInterval>& interval) {
  if (!mean) return {};
  if (!interval) return fmt::format("{:.3f}", *mean);
  return fmt::format("{:.3f} ({:.3f} to {:.3f})", *mean, interval->low, interval->high);
}

constexpr std::size_t kTextSets = 20;  // largest number of sets that are shown as text

/// The part that both measures share: the results of all sentences.
class AblationMeasure : public Measure {
 public:
  explicit AblationMeasure(const StudyShape& shape) : Measure(shape) {
    if (shape.ablated) sets_ = *shape.ablated;
  }

  [[nodiscard]] bool runs_own_passes() const override { return true; }
  void panel(const StudyPanel& /*panel*/) override {}
  void begin(const StudyBlock& block) override;
  [[nodiscard]] bool has_data() const override { return !sentences(false).empty(); }
  void set_context(const Measure& so_far) override {
    sets_ =
        dynamic_cast<const AblationMeasure&>(so_far).sets_;  // a continued study has them in its state only
  }

  void merge(const Measure& other) override {
    const auto& from = dynamic_cast<const AblationMeasure&>(other);
    if (sets_.empty()) sets_ = from.sets_;
    sentences_.insert(from.sentences_.begin(), from.sentences_.end());
  }
  void save(StateWriter& out) const override {
    out.number(sets_.size());
    for (const RemovedSet& set : sets_) {
      save_state(out, set);
      out.number(set.heads.size());
      for (const model::HeadId id : set.heads) {
        out.number(id.layer);
        out.number(id.head);
      }
      save_list(out, set.mlps);
    }
    out.number(sentences_.size());
    for (const auto& [key, sentence] : sentences_) {
      save_state(out, key);
      out.text(sentence.name);
      out.number(sentence.control);
      out.number(sentence.queries);
      out.floats({&sentence.loss, 1});
      out.floats(sentence.effects);
    }
  }
  void load(StateReader& in) override {
    sets_.clear();
    for (std::size_t left = in.count(); left > 0; --left) {
      RemovedSet& set = sets_.emplace_back();
      load_state(in, set);
      for (std::size_t more = in.count(); more > 0; --more) {
        const std::uint64_t layer = in.number();
        set.heads.push_back({layer, in.number()});
      }
      load_list(in, set.mlps);
      if (set.null_of >= std::ssize(sets_)) in.damaged("a random set has a wrong number");
      if (set.kind == "head" && set.heads.size() != 1) in.damaged("a set has a wrong number of heads");
    }
    for (std::size_t left = in.count(); left > 0; --left) {
      std::pair<std::uint64_t, std::uint64_t> key;
      load_state(in, key);
      AblatedSentence& sentence = sentences_[key];
      sentence.name = in.text();
      sentence.control = in.number();
      sentence.queries = in.number();
      if (sentence.control > 1 || sentence.queries >= std::uint64_t{1} << 32U)
        in.damaged("a sentence has too many queries");
      sentence.loss = in.floats(1).front();
      sentence.effects = in.floats(sets_.size() * kEffects);
    }
  }

 protected:
  /// Returns the queries of a sequence that are scored. May replace tokens of the sequence by the mask token.
  virtual causal::ScoredQueries score(const StudyBlock& block, std::size_t sequence,
                                      input::Sequence& changed) const = 0;

  [[nodiscard]] std::vector<const AblatedSentence*> sentences(bool control) const {
    std::vector<const AblatedSentence*> found;
    for (const auto& [key, sentence] : sentences_) {
      const bool answers = sentence.effects.size() > kAnswer && std::isfinite(sentence.effects[kAnswer]);
      // A forged state may have sentences of other sets.
      const bool complete = sentence.effects.size() == sets_.size() * kEffects;
      if (complete && (sentence.control != 0) == control && (sentence.queries > 0 || answers))
        found.push_back(&sentence);
    }
    return found;
  }
  /// Returns the cells of the columns component, layer, head, name, set, kind and removed.
  [[nodiscard]] std::vector<Cell> set_cells(const RemovedSet& set) const {
    std::optional<std::size_t> head;
    for (std::size_t h = 0; set.kind == "head" && h < shape_.heads.size(); ++h)
      if (shape_.heads[h].id == set.heads.front()) head = h;
    return row_of(shape_.head_cells(head), set.name, set.kind, set.heads.size() + set.mlps.size());
  }
  /// Returns the cells of null_sets, null_mean, null_high and p_value.
  [[nodiscard]] static std::vector<Cell> null_cells(const NullChanges& nulls) {
    if (nulls.count == 0) return row_of(nulls.count, Cell(), Cell(), Cell());
    return row_of(nulls.count, real_cell(nulls.mean()), real_cell(nulls.high),
                  real_cell(static_cast<double>(1 + nulls.extreme) / static_cast<double>(1 + nulls.count)));
  }

  /// Returns the indices of the sets that are not random, from the largest change of the loss to the
  /// smallest.
  [[nodiscard]] std::vector<std::size_t> harmful_sets(const EffectMeans& means) const {
    std::vector<std::size_t> found;
    for (std::size_t s = 0; s < sets_.size(); ++s)
      if (sets_[s].kind != "random" && means.mean(s, kLoss)) found.push_back(s);
    std::ranges::stable_sort(found, std::ranges::greater(),
                             [&](std::size_t s) { return means.mean(s, kLoss); });
    return found;
  }
  /// Adds the first kTextSets rows of a table of sets, and a line with the number of the others.
  static void add_sets(StudyResults& results, std::string title, std::vector<Column> columns,
                       std::size_t first_columns, std::vector<std::vector<Cell>> rows) {
    if (rows.empty()) return;
    const std::size_t all = rows.size();
    rows.resize(std::min(all, kTextSets));
    results.text.emplace_back(TextTable{.title = std::move(title),
                                        .table = make_table("sets", std::move(columns), std::move(rows)),
                                        .first_columns = first_columns});
    if (all > kTextSets)
      results.text.emplace_back(
          TextLine{"", counted(all - kTextSets, "more set") + " with smaller changes: --format json"});
  }

  std::vector<RemovedSet> sets_;
  /// By the number of the block and the index of the sentence in it.
  std::map<std::pair<std::uint64_t, std::uint64_t>, AblatedSentence> sentences_;
};

/// Returns the donor of a sequence: a random one of other tokens and, like its target, at least as long,
/// otherwise the longest one. nullptr if the corpus has no other sequence.
const input::Sequence* donor_of(const AblationData& data, const input::Sequence& sequence, Random& random) {
  std::vector<const input::Sequence*> fitting;
  const input::Sequence* longest = nullptr;
  for (const input::Sequence& donor : data.donors) {
    if (donor.ids == sequence.ids) continue;
    if (donor.queries() >= sequence.queries() &&
        donor.predicted().queries() >= sequence.predicted().queries())
      fitting.push_back(&donor);
    if (longest == nullptr || donor.queries() > longest->queries()) longest = &donor;
  }
  return fitting.empty() ? longest : fitting[random.next() % fitting.size()];
}

void AblationMeasure::begin(const StudyBlock& block) {
  const AblationData& data = *block.ablation;
  const model::ModelConfig& config = block.model.config();
  const std::uint64_t block_seed = Random(data.seed, block.corpus.number).next();
  input::Batch batch = block.corpus.batch;
  std::vector<causal::ScoredQueries> scored;
  for (std::size_t s = 0; s < batch.sequences.size(); ++s)
    scored.push_back(score(block, s, batch.sequences[s]));
  Pool alone(1);
  Warnings warnings;  // the pass with the patterns has the same
  forward::RunContext context{.pool = alone, .warnings = warnings};
  if (block.streamed) context.streamed_rows = causal::kStreamedRows;
  const causal::CausalPass pass({.model = block.model,
                                 .batch = batch,
                                 .scored = scored,
                                 .answer = data.settings->answer,
                                 .mlps = false,
                                 .mean_output = data.mean_output},
                                context);
  std::vector<causal::RecordedSequence> donated;  // [sequences] for `resample`
  if (data.settings->replacement == Replacement::resample) {
    input::Batch donors;
    for (std::size_t s = 0; s < batch.sequences.size(); ++s) {
      Random random(block_seed, s);
      const input::Sequence* const donor = donor_of(data, block.corpus.batch.sequences[s], random);
      if (donor == nullptr)
        fail(Status::bad_input,
             "--replace resample: the corpus has only one input; give more, or another corpus (--mean-from)");
      donors.sequences.push_back(*donor);
    }
    donated = causal::record(block.model, donors, data.removes_mlps(), context);
  }
  const bool resampled = data.settings->replacement == Replacement::resample;
  std::uint64_t beyond = 0;  // number of positions for which Substitute::row() repeats the last row
  for (std::size_t s = 0; (resampled || data.settings->by_position) && s < batch.sequences.size(); ++s) {
    std::size_t rows = 0;
    for (const OwnedMatrix<float>& z : resampled ? donated[s].z : data.mean_z)
      rows = std::max(rows, z.rows());
    beyond += std::max(batch.sequences[s].queries(), rows) - rows;
  }
  if (beyond > 0)
    block.warnings->add("repeated_position",
                        resampled ? "--replace resample: the other input is shorter than the sentence; a "
                                    "position after its end takes the values of its last position"
                                  : "--by-position: no input of --mean-from is this long; a position after "
                                    "the end of its longest input takes the mean of its last position",
                        beyond);
  const auto substitute = [&](std::size_t s, std::size_t layer, bool mlp) -> MatrixView<const float> {
    switch (data.settings->replacement) {
      case Replacement::mean:
        return (mlp ? data.mean_mlp : data.mean_z)[layer].view();
      case Replacement::resample:
        return std::as_const(mlp ? donated[s].mlp : donated[s].z)[layer].view();
      case Replacement::zero:
        break;
    }
    return {};
  };
  std::vector<causal::Intervention> interventions;
  for (const RemovedSet& set : sets_) {
    for (std::size_t s = 0; s < batch.sequences.size(); ++s) {
      causal::Intervention& one = interventions.emplace_back();
      one.sequence = s;
      for (const model::HeadId id : set.heads) {
        const std::size_t width = config.layers.at(id.layer).attention.d_value;
        const MatrixView<const float> rows = substitute(s, id.layer, false);
        one.heads.push_back(
            {id, {rows.rows == 0 ? rows : rows.col_range(id.head * width, width), std::nullopt}});
      }
      for (const std::uint64_t layer : set.mlps)
        one.mlps.push_back({layer, {substitute(s, layer, true), std::nullopt}});
    }
  }
  const std::vector<causal::Effect> effects = pass.run(interventions, context);
  const std::vector<causal::HeadGradients> gradients =
      causal::loss_gradients(block.model, batch, scored, pass.recorded(), context);
  for (std::size_t s = 0; s < batch.sequences.size(); ++s) {
    AblatedSentence& sentence = sentences_[{block.corpus.number, s}];
    sentence.name = batch.sequences[s].id;
    sentence.control = !block.corpus.probes.empty() && !block.corpus.probes[s].repeated ? 1 : 0;
    sentence.queries = scored[s].queries.size();
    sentence.loss = static_cast<float>(pass.predictions()[s].loss);
    for (std::size_t set = 0; set < sets_.size(); ++set) {
      const std::size_t i = set * batch.sequences.size() + s;
      const causal::Effect& effect = effects[i];
      const causal::LinearEstimate linear =
          scored[s].queries.empty()
              ? causal::LinearEstimate()
              : causal::estimate(config, interventions[i], pass.recorded()[s], gradients[s]);
      for (const double value : {effect.loss, effect.divergence, effect.logit, effect.direct,
                                 effect.logit_difference, linear.change, linear.importance})
        sentence.effects.push_back(static_cast<float>(value));
    }
  }
}

/// Returns the queries of a sequence that predict tokens [first, n), with these tokens.
causal::ScoredQueries next_tokens(const std::vector<std::int64_t>& ids, std::size_t first) {
  causal::ScoredQueries scored;
  for (std::size_t token = std::max<std::size_t>(first, 1); token < ids.size(); ++token) {
    scored.queries.push_back(token - 1);
    scored.targets.push_back(ids[token]);
  }
  return scored;
}

class CorpusAblation final : public AblationMeasure {
 public:
  using AblationMeasure::AblationMeasure;

  void finish(StudyResults& results) const override {
    const EffectMeans means(sentences(false), sets_.size(), shape_.seed);
    const NullSets nulls(sets_, means);
    bool answers = false;
    std::vector<std::vector<Cell>> rows;
    results.head_rows.resize(shape_.heads.size());
    for (std::vector<Cell>& row : results.head_rows) row.resize(3);
    std::vector<Cell> grid(shape_.heads.size());
    for (std::size_t s = 0; s < sets_.size(); ++s) {
      const auto value = [&](std::size_t effect) { return means.mean(s, effect); };
      answers = answers || value(kAnswer);
      const std::array<Cell, 3> logits = logit_cells(means, s);
      const std::vector<Cell> null = null_cells(nulls.of(s));
      rows.push_back(row_of(set_cells(sets_[s]), means.sentences(), means.queries(), real_cell(means.loss()),
                            real_cell(value(kLoss)), interval_cells(means.interval(s, kLoss)),
                            real_cell(value(kDivergence)), interval_cells(means.interval(s, kDivergence)),
                            logits, real_cell(value(kAnswer)), interval_cells(means.interval(s, kAnswer)),
                            real_cell(value(kEstimate)), real_cell(value(kImportance)), null,
                            text_cell(sets_[s].head_names)));
      for (std::size_t h = 0; sets_[s].kind == "head" && h < shape_.heads.size(); ++h) {
        if (shape_.heads[h].id != sets_[s].heads.front()) continue;
        results.head_rows[h] = {real_cell(value(kLoss)), real_cell(value(kDivergence)), null.back()};
        results.ablated.resize(shape_.heads.size());
        results.ablated[h] = {
            real_cell(value(kLoss)), means.interval(s, kLoss), null[1], null.back(), logits[1], logits[2]};
        grid[h] = real_cell(value(kLoss));
      }
    }
    results.head_columns = {"loss_change", "divergence", "p_value"};
    add_text(results, means, nulls, answers);
    if (std::ranges::any_of(sets_, [](const RemovedSet& set) { return set.kind == "head"; })) {
      results.text.push_back(head_grid(shape_, "Change of the loss (nats) without the head", grid));
      results.pictures.push_back(
          {"ablation", head_page(shape_, "Change of the loss without the head", "nats", grid)});
    }
    add_kept(results, means, nulls);
    if (results.pictures.empty()) add_bars(results, means);
    add_table(results, "ablation", "ablation",
              {"component",
               "layer",
               "head",
               "name",
               "set",
               "kind",
               "removed",
               "sentences",
               "queries",
               "loss",
               "loss_change",
               "loss_change_low",
               "loss_change_high",
               "divergence",
               "divergence_low",
               "divergence_high",
               "logit_change",
               "direct_change",
               "self_repair",
               "answer_change",
               "answer_change_low",
               "answer_change_high",
               "estimate",
               "importance",
               "null_sets",
               "null_mean",
               "null_high",
               "p_value",
               "heads"},
              std::move(rows));
    std::vector<std::vector<Cell>> of_sentences;
    for (std::size_t s = 0; s < sets_.size(); ++s) {
      for (const AblatedSentence* const sentence : sentences(false)) {
        const float* const effects = sentence->effects.data() + s * kEffects;
        const auto cell = [&](std::size_t effect) { return real_cell(double{effects[effect]}); };
        of_sentences.push_back(row_of(sets_[s].name, sentence->name, sentence->queries,
                                      real_cell(double{sentence->loss}), cell(kLoss), cell(kDivergence),
                                      cell(kLogit), cell(kDirect), cell(kAnswer)));
      }
    }
    add_table(results, "ablation_sentence", "ablation_sentences",
              {"set", "sentence", "queries", "loss", "loss_change", "divergence", "logit_change",
               "direct_change", "answer_change"},
              std::move(of_sentences));
  }

 private:
  /// Returns the cells of logit_change, direct_change and self_repair.
  [[nodiscard]] static std::array<Cell, 3> logit_cells(const EffectMeans& means, std::size_t s) {
    const std::optional<double> logit = means.mean(s, kLogit), direct = means.mean(s, kDirect);
    return {real_cell(logit), real_cell(direct), logit && direct ? real_cell(*logit - *direct) : Cell()};
  }

  void add_text(StudyResults& results, const EffectMeans& means, const NullSets& nulls, bool answers) const {
    results.text.emplace_back(TextLine{
        "Loss",
        fmt::format(": {:.3f} nats without any removal, over {} of {}", means.loss().value_or(kUndefined),
                    counted(means.queries(), "predicted token"), counted(means.sentences(), "sentence"))});
    std::vector<Column> columns = {"set",           "loss_change (95 % interval)",
                                   "divergence",    "null_mean",
                                   "p_value",       "logit_change",
                                   "direct_change", "self_repair",
                                   "estimate",      "importance",
                                   "null_sets",     "null_high",
                                   "heads"};
    if (answers) columns.insert(columns.begin() + 3, "answer_change (95 % interval)");
    std::vector<std::vector<Cell>> rows;
    for (const std::size_t s : harmful_sets(means)) {
      const std::vector<Cell> null = null_cells(nulls.of(s));
      std::vector<Cell>& row = rows.emplace_back(
          row_of(sets_[s].name, interval_text(means.mean(s, kLoss), means.interval(s, kLoss)),
                 real_cell(means.mean(s, kDivergence)), null[1], null[3], logit_cells(means, s),
                 real_cell(means.mean(s, kEstimate)), real_cell(means.mean(s, kImportance)), null[0], null[2],
                 text_cell(sets_[s].head_names)));
      if (answers)
        row.insert(row.begin() + 3, interval_text(means.mean(s, kAnswer), means.interval(s, kAnswer)));
    }
    add_sets(results, "Sets whose removal raises the loss most", std::move(columns), answers ? 6 : 5,
             std::move(rows));
  }

  /// Adds a picture of the changes of the loss. It has room for the labels of kDrawnSets bars.
  void add_bars(StudyResults& results, const EffectMeans& means) const {
    std::vector<std::vector<Cell>> rows;
    for (const std::size_t s : harmful_sets(means))
      rows.push_back(row_of(sets_[s].name, real_cell(means.mean(s, kLoss))));
    if (rows.empty()) return;
    constexpr std::size_t kDrawnSets = 16;
    rows.resize(std::min(rows.size(), kDrawnSets));
    ChartPage page{"Sets whose removal raises the loss most",
                   make_table("sets", {"set", "loss_change"}, std::move(rows)),
                   {}};
    page.charts.push_back({.title = "",
                           .x = "set",
                           .y = {"loss_change"},
                           .x_axis = "removed set",
                           .y_axis = "change of the loss (nats)",
                           .bars = true});
    results.pictures.push_back({"sets", std::move(page)});
  }

  /// Adds the curve of the loss over the number of heads that are kept (kind `keep`).
  void add_kept(StudyResults& results, const EffectMeans& means, const NullSets& nulls) const {
    std::vector<std::vector<Cell>> rows;
    for (std::size_t s = 0; s < sets_.size(); ++s) {
      const std::optional<double> change = means.mean(s, kLoss);
      if (sets_[s].kind != "keep" || !change || !means.loss()) continue;
      const double loss = *means.loss();
      const NullChanges random = nulls.of(s);
      const auto of_random = [&](double value) {
        return random.count == 0 ? Cell() : real_cell(loss + value);
      };
      rows.push_back(row_of(shape_.heads.size() - sets_[s].heads.size(), real_cell(loss + *change),
                            of_random(random.mean()), of_random(random.low), of_random(random.high)));
    }
    if (rows.empty()) return;
    const Cell all = real_cell(means.loss());
    rows.push_back(row_of(shape_.heads.size(), all, all, all, all));
    const std::vector<Column> columns = {"kept", "ordered", "random", "random_low", "random_high"};
    const Table table = make_table("kept", columns, rows);
    ChartPage page{"Loss by the number of heads that are kept", table, {}};
    page.charts.push_back({.title = "",
                           .x = "kept",
                           .y = {"ordered", "random", "random_low", "random_high"},
                           .x_axis = "heads kept",
                           .y_axis = "loss (nats)"});
    results.pictures.push_back({"kept", std::move(page)});
    results.text.emplace_back(TextTable{"Loss (nats) by the number of heads that are kept", table});
    add_table(results, "kept", "kept", columns, std::move(rows));
  }

  causal::ScoredQueries score(const StudyBlock& block, std::size_t s,
                              input::Sequence& changed) const override {
    const AblationData& data = *block.ablation;
    const bool answers = data.settings->answer.has_value();
    if (data.next_token) {
      causal::ScoredQueries scored = next_tokens(changed.predicted().ids, 1);
      if (answers) scored.answer = input::last_of_text(changed.predicted());
      return scored;
    }
    causal::ScoredQueries scored;
    const auto is_mask = [&](std::int64_t id) { return id == data.mask; };
    const auto given = std::ranges::find_if(changed.ids, is_mask);
    if (given != changed.ids.end()) {  // the right token is known only if it is the answer
      if (!answers) {
        block.warnings->add("mask_without_answer",
                            "left out a sentence with a mask token: its right token is unknown without "
                            "--answer and --wrong of attnctl ablate");
        return scored;
      }
      if (std::ranges::count_if(changed.ids, is_mask) > 1)
        block.warnings->add("several_masks",
                            "a sentence has several mask tokens; only the first one is predicted");
      scored.answer = static_cast<std::size_t>(given - changed.ids.begin());
      scored.queries = {*scored.answer};
      scored.targets = {data.settings->answer->right};
      return scored;
    }
    if (answers)
      block.warnings->add("answer_without_mask",
                          "--answer: a sentence has no mask token, so it has no answer_change");
    const std::vector<std::size_t> positions = ordinary_tokens(changed);
    if (positions.empty()) return scored;
    Random random(Random(~data.seed, block.corpus.number).next(), s);
    const std::size_t always = random.next() % positions.size();
    for (std::size_t i = 0; i < positions.size(); ++i) {
      if (random.uniform() >= data.settings->mask_rate && i != always) continue;
      scored.queries.push_back(positions[i]);
      scored.targets.push_back(changed.ids[positions[i]]);
      changed.ids[positions[i]] = *data.mask;
    }
    return scored;
  }
};

class ProbeAblation final : public AblationMeasure {
 public:
  using AblationMeasure::AblationMeasure;

  void finish(StudyResults& results) const override {
    const EffectMeans means(sentences(false), sets_.size(), shape_.seed);
    const NullSets nulls(sets_, means);
    const EffectMeans controls(sentences(true), sets_.size(), shape_.seed);
    results.text.emplace_back(TextLine{
        "Repeated random tokens",
        fmt::format(": the loss on the second copy is {:.3f} nats; on controls, which do not repeat, {:.3f}",
                    means.loss().value_or(kUndefined), controls.loss().value_or(kUndefined))});
    std::vector<std::vector<Cell>> shown;
    for (const std::size_t s : harmful_sets(means)) {
      const std::vector<Cell> null = null_cells(nulls.of(s));
      shown.push_back(row_of(sets_[s].name, interval_text(means.mean(s, kLoss), means.interval(s, kLoss)),
                             real_cell(controls.mean(s, kLoss)), null[1], null[3],
                             real_cell(means.mean(s, kEstimate)), real_cell(means.mean(s, kImportance)),
                             null[0], null[2], text_cell(sets_[s].head_names)));
    }
    add_sets(results, "Sets whose removal raises the loss on the second copy most",
             {"set", "loss_change (95 % interval)", "control_change", "null_mean", "p_value", "estimate",
              "importance", "null_sets", "null_high", "heads"},
             5, std::move(shown));
    std::vector<Cell> of_heads(shape_.heads.size());
    std::vector<std::vector<Cell>> rows;
    for (std::size_t s = 0; s < sets_.size(); ++s) {
      for (std::size_t h = 0; sets_[s].kind == "head" && h < shape_.heads.size(); ++h)
        if (shape_.heads[h].id == sets_[s].heads.front()) of_heads[h] = real_cell(means.mean(s, kLoss));
      rows.push_back(row_of(set_cells(sets_[s]), means.sentences(), means.queries(), real_cell(means.loss()),
                            real_cell(means.mean(s, kLoss)), interval_cells(means.interval(s, kLoss)),
                            real_cell(controls.loss()), real_cell(controls.mean(s, kLoss)),
                            real_cell(means.mean(s, kEstimate)), real_cell(means.mean(s, kImportance)),
                            null_cells(nulls.of(s)), text_cell(sets_[s].head_names)));
    }
    results.head_columns = {"probe_loss_change"};
    for (const Cell& cell : of_heads) results.head_rows.push_back({cell});
    if (std::ranges::any_of(sets_, [](const RemovedSet& set) { return set.kind == "head"; }))
      results.pictures.push_back(
          {"probe_ablation",
           head_page(shape_, "Change of the loss on repeated tokens without the head", "nats", of_heads)});
    add_table(
        results, "probe_ablation", "probe_ablation",
        {"component",        "layer",        "head",           "name",     "set",         "kind",
         "removed",          "sentences",    "queries",        "loss",     "loss_change", "loss_change_low",
         "loss_change_high", "control_loss", "control_change", "estimate", "importance",  "null_sets",
         "null_mean",        "null_high",    "p_value",        "heads"},
        std::move(rows));
  }

 private:
  /// Scores the predictions of the second copy, except for its first token, which nothing predicts.
  causal::ScoredQueries score(const StudyBlock& block, std::size_t s,
                              input::Sequence& changed) const override {
    const ProbeMarks& marks = block.corpus.probes[s];
    return next_tokens(changed.ids, marks.first + marks.length + 1);
  }
};

}  // namespace

MeasureRow ablation_measure() {
  return {.name = "ablation",
          .description = "change of the loss and of the predictions when heads are removed (attnctl ablate)",
          .version = 2,
          .make = make_measure<CorpusAblation>,
          .definitions = kAblationDefinitions,
          .on_request = true,
          .annotation =
              "sentences with tokens to predict (a sentence with a mask token needs --answer and "
              "--wrong of attnctl ablate)"};
}

MeasureRow probe_ablation_measure() {
  return {.name = "probe_ablation",
          .description = "the same on random tokens that are repeated: which heads copy",
          .version = 2,
          .make = make_measure<ProbeAblation>,
          .definitions = {},
          .probe_only = true,
          .on_request = true,
          .annotation = "room for a probe"};
}

}  // namespace attnctl::study
