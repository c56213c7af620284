#include "study/behaviour.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "analysis/head_axes.hpp"
#include "analysis/patterns/pattern_metrics.hpp"
#include "analysis/similarity/head_pairs.hpp"
#include "base/numbers.hpp"
#include "base/text.hpp"
#include "causal/recording.hpp"
#include "linalg/kernels/kernels.hpp"
#include "reference/reference.hpp"
#include "study/measure.hpp"

namespace attnctl::study {
namespace {

constexpr auto kBehaviourDefinitions = std::to_array<Definition>({
    {"js_divergence", "nats", "[0, ln 2]", "0",
     "mean over pattern rows of the Jensen-Shannon divergence of the rows of the two models", "Lin 1991"},
    {"cka", "", "[-1, 1]; below 0 only by chance", "1; for independent outputs 0",
     "linear CKA of the outputs z of the two models, from the sums over sentences of unbiased estimates of "
     "HSIC within each sentence; sentences of fewer than four tokens are left out",
     "Kornblith et al. 2019; Nguyen et al. 2021, minibatch CKA"},
    {"noise", "", "", "",
     "what rounding alone gives: the number of this table for model a and its float64 pass, rounded to "
     "float32, instead of model b, in the first sentence; of metrics, the size of the difference"},
    {"cka_noise", "", "[-1, 1]", "1", "the noise of cka"},
    {"metric", "", "", "", "a metric of the pattern, as in attnctl analyze"},
    {"metric_changes.a", "", "", "", "mean of the metric over sentences in model a"},
    {"metric_changes.b", "", "", "", "mean of the metric over sentences in model b"},
    {"difference", "", "", "0", "b - a"},
    {"measure", "", "", "",
     "kl_divergence: of the predictions of b from those of a, nats per token; top1_agreement: share of "
     "tokens "
     "whose most probable prediction is the same; loss_change: of the next tokens, b - a, nats per token"},
    {"value", "", "", "", "mean of this measure"},
    {"low", "", "", "", "lower end of the 95 % interval over sentences"},
    {"high", "", "", "", "upper end of the 95 % interval over sentences"},
    {"clear", "", "", "",
     "true: the interval of confidence 1 - 0.05 / m, where m is the number of differences in the table, does "
     "not contain 0",
     "Bonferroni"},
    {"rows", "", "from 0", "", "number of pattern rows or of predictions"},
    {"sentences", "", "from 0", "", "number of sentences"},
});

const Definition& definition(std::string_view name) {
  return *std::ranges::find(kBehaviourDefinitions, name, &Definition::name);
}

/// The mean of paired differences over sentences.
class PairedMean {
 public:
  void add(double a, double b) {
    ++count_;
    a_ += a;
    b_ += b;
    squares_ += (b - a) * (b - a);
  }
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] double a() const { return mean(a_); }
  [[nodiscard]] double b() const { return mean(b_); }
  [[nodiscard]] double difference() const { return mean(b_ - a_); }
  /// The interval of the difference with confidence 1 - 0.05 / `tests`, by Student's t; nullopt with fewer
  /// than two sentences.
  [[nodiscard]] std::optional<ConfidenceInterval> interval(std::size_t tests = 1) const {
    if (count_ < 2) return std::nullopt;
    const auto n = static_cast<double>(count_);
    const double variance = std::max(0.0, squares_ / n - difference() * difference()) * n / (n - 1);
    const double half =
        student_quantile(0.025 / static_cast<double>(tests), count_ - 1) * std::sqrt(variance / n);
    return ConfidenceInterval{difference() - half, difference() + half};
  }

 private:
  [[nodiscard]] double mean(double sum) const {
    return count_ == 0 ? kUndefined : sum / static_cast<double>(count_);
  }
  std::uint64_t count_ = 0;
  double a_ = 0, b_ = 0, squares_ = 0;
};

/// What a head did in one sequence.
struct KeptHead {
  std::vector<float> pattern;  // [n m], row after row
  std::vector<float> z;        // [n v]
  std::size_t rows = 0, width = 0;
};

/// Keeps the patterns and outputs of some heads, [heads][sequences].
class HeadRecorder final : public forward::Observer {
 public:
  /// Keeps every `step`-th row, and outputs if `outputs` is true. `heads` are ascending.
  HeadRecorder(std::span<const model::HeadId> heads, bool outputs, std::size_t step = 1)
      : heads_(heads.begin(), heads.end()), outputs_(outputs), step_(step) {}

  [[nodiscard]] forward::Needs needs() const override { return {.z = outputs_}; }
  void begin(const model::Model& /*model*/, const input::Batch& batch) override {
    kept_.assign(heads_.size(), std::vector<KeptHead>(batch.sequences.size()));
  }
  void panel(const forward::AttentionPanel& panel) override {
    const auto place = analysis::head_index(heads_, {panel.layer, panel.head});
    if (!place) return;
    KeptHead& kept = kept_[*place][panel.sequence];
    for (std::size_t r = 0; r < panel.pattern.rows; ++r) {
      if ((panel.first_query + r) % step_ != step_ / 2) continue;
      ++kept.rows;
      const auto pattern = panel.pattern.row(r);
      kept.pattern.insert(kept.pattern.end(), pattern.begin(), pattern.end());
      if (panel.z.data == nullptr) continue;
      const auto z = panel.z.row(r);
      kept.z.insert(kept.z.end(), z.begin(), z.end());
      kept.width = z.size();
    }
  }
  [[nodiscard]] const KeptHead& kept(model::HeadId head, std::size_t sequence) const {
    return kept_[analysis::head_index(heads_, head).value()][sequence];
  }

 private:
  std::vector<model::HeadId> heads_;
  bool outputs_ = true;
  std::size_t step_ = 1;
  std::vector<std::vector<KeptHead>> kept_;
};

/// Keeps the logits of each sequence [n, vocabulary].
class LogitRecorder final : public forward::Observer {
 public:
  [[nodiscard]] forward::Needs needs() const override { return {.patterns = false, .logits = true}; }
  void begin(const model::Model& model, const input::Batch& batch) override {
    logits_.clear();
    for (const input::Sequence& sequence : batch.sequences)
      logits_.emplace_back(sequence.predicted().queries(), model.config().output_embedding().vocabulary);
  }
  void panel(const forward::AttentionPanel& /*panel*/) override {}
  void logits(std::size_t sequence, std::size_t first_query, MatrixView<const float> values) override {
    for (std::size_t r = 0; r < values.rows; ++r)
      std::ranges::copy(values.row(r), logits_[sequence].view().row(first_query + r).begin());
  }
  [[nodiscard]] const std::vector<OwnedMatrix<float>>& logits() const { return logits_; }

 private:
  std::vector<OwnedMatrix<float>> logits_;  // [sequences]
};

/// Records the patterns, outputs and metrics of some heads in a batch, and the logits if `with_logits` is
/// true.
class RecordedModel {
 public:
  RecordedModel(const model::Model& model, const input::Batch& batch, const forward::Selection& selection,
                bool with_logits)
      : model_(model),
        batch_(batch),
        selection_(selection),
        heads_(selection.heads,
               std::ranges::all_of(
                   selection.heads,
                   [&](model::HeadId id) { return model.config().layers[id.layer].attention.value.weight; })),
        metrics_(selection, true) {
    if (with_logits) logits_.emplace();
  }

  /// Records the pass of the model.
  void run(Pool& pool, Warnings& warnings) {
    std::vector<forward::Observer*> observers = {&heads_, &metrics_};
    if (logits_) observers.push_back(&*logits_);
    forward::RunContext context{.pool = pool, .warnings = warnings};
    forward::run_forward(model_, batch_, selection_, observers, context);
    found_ = metrics_.finish();
  }

  /// Records the float64 pass of the model, rounded to float32. The batch must have one sequence.
  void run_in_float64(Pool& pool) {
    const reference::ReferencePass pass = reference::run_reference(
        model_, batch_.sequences.front(), selection_.heads.back().layer, logits_.has_value(), pool);
    heads_.begin(model_, batch_);
    metrics_.begin(model_, batch_);
    for (const model::HeadId id : selection_.heads) {
      const reference::ReferenceLayer& layer = pass.layers[id.layer];
      const OwnedMatrix<float> pattern = rounded(layer.pattern[id.head]);
      const OwnedMatrix<float> z = layer.z.empty() ? OwnedMatrix<float>() : rounded(layer.z[id.head]);
      std::vector<std::uint8_t> masked(pattern.rows());
      for (std::size_t r = 0; r < masked.size(); ++r) {
        const auto row = pattern.view().row(r);
        masked[r] = std::ranges::all_of(row, [](float weight) { return weight == 0; }) ? 1 : 0;
      }
      forward::AttentionPanel panel;
      panel.layer = id.layer;
      panel.head = id.head;
      panel.pattern = pattern.view();
      panel.z = z.view();
      panel.fully_masked = masked;
      heads_.panel(panel);
      metrics_.panel(panel);
    }
    if (logits_) {
      logits_->begin(model_, batch_);
      logits_->logits(0, 0, rounded(pass.logits).view());
    }
    found_ = metrics_.finish();
  }

  [[nodiscard]] const KeptHead& kept(model::HeadId head, std::size_t sequence) const {
    return heads_.kept(head, sequence);
  }
  /// Returns the means of the metrics of a head [row_metrics()].
  [[nodiscard]] std::span<const std::optional<double>> metrics(model::HeadId head,
                                                               std::size_t sequence) const {
    const std::size_t place = analysis::head_index(selection_.heads, head).value();
    return found_[sequence * selection_.heads.size() + place].means;  // sorted by sequence, then by head
  }
  [[nodiscard]] const OwnedMatrix<float>& logits(std::size_t sequence) const {
    return logits_.value().logits()[sequence];
  }

 private:
  static OwnedMatrix<float> rounded(const OwnedMatrix<double>& values) {
    OwnedMatrix<float> out(values.rows(), values.cols());
    std::ranges::transform(values.values(), out.values().begin(),
                           [](double value) { return static_cast<float>(value); });
    return out;
  }

  const model::Model& model_;
  const input::Batch& batch_;
  forward::Selection selection_;
  HeadRecorder heads_;
  analysis::PatternMetrics metrics_;
  std::optional<LogitRecorder> logits_;
  std::vector<analysis::HeadPatternMetrics> found_;
};

/// Returns the sum over rows of the Jensen-Shannon divergence of two patterns, one after the other.
double divergence_of(std::span<const float> patterns) {
  return std::max(0.0, analysis::pattern_pairs(patterns, 2).divergence[analysis::pair_index(2, 0, 1)]);
}

/// The sums of one head.
struct BehaviourSums {
  RatioSums divergence;
  std::array<double, 3> hsic = {};  // of a with a, of a with b, of b with b
  std::vector<PairedMean> metrics = std::vector<PairedMean>(analysis::row_metrics().size());

  /// Adds a sequence: a head of model a and its partner in model b.
  void add(const RecordedModel& a, model::HeadId head, const RecordedModel& b, model::HeadId partner,
           std::size_t sequence) {
    const KeptHead &of_a = a.kept(head, sequence), &of_b = b.kept(partner, sequence);
    add_patterns(of_a, of_b);
    add_outputs(of_a, of_b);
    const auto x = a.metrics(head, sequence), y = b.metrics(partner, sequence);
    for (std::size_t m = 0; m < metrics.size(); ++m)
      if (x[m] && y[m]) metrics[m].add(*x[m], *y[m]);
  }
  [[nodiscard]] double cka() const {
    // Estimates below 0 are chance: the outputs of one model hardly differ from each other.
    return hsic[0] > 0 && hsic[2] > 0 ? hsic[1] / std::sqrt(hsic[0] * hsic[2]) : kUndefined;
  }

 private:
  void add_outputs(const KeptHead& a, const KeptHead& b) {
    if (a.rows < analysis::kLeastOutputs || a.rows != b.rows || a.z.empty() || b.z.empty()) return;
    std::vector<float> rows;
    for (std::size_t r = 0; r < a.rows; ++r) {
      rows.insert(rows.end(), a.z.begin() + offset(r * a.width), a.z.begin() + offset((r + 1) * a.width));
      rows.insert(rows.end(), b.z.begin() + offset(r * b.width), b.z.begin() + offset((r + 1) * b.width));
    }
    analysis::HeadOutputs outputs{{0, a.width, a.width + b.width}, {}};
    const std::size_t width = a.width + b.width;
    for (std::size_t r = 0; r < a.rows; ++r)
      outputs.rows.push_back(std::span(rows).subspan(r * width, width));
    const std::vector<double> found = analysis::output_pairs(outputs);
    for (std::size_t i = 0; i < hsic.size(); ++i) hsic.at(i) += found[i];
  }
  void add_patterns(const KeptHead& a, const KeptHead& b) {
    if (a.pattern.size() != b.pattern.size()) return;  // of different components
    std::vector<float> both = a.pattern;
    both.insert(both.end(), b.pattern.begin(), b.pattern.end());
    divergence.add({.sum = divergence_of(both), .null = 0, .rows = a.rows});
  }
  static std::ptrdiff_t offset(std::size_t place) { return static_cast<std::ptrdiff_t>(place); }
};

/// What two models predict in one sequence.
struct PredictionTerms {
  SentenceTerm divergence, agreement;
  double loss_a = 0, loss_b = 0;
  std::size_t predicted = 0;  // number of next tokens

  /// Compares the logits. `ids` are the tokens; empty if the model does not predict the next token.
  PredictionTerms(const OwnedMatrix<float>& a, const OwnedMatrix<float>& b,
                  std::span<const std::int64_t> ids) {
    const linalg::Kernels& kernels = linalg::kernels();
    std::vector<float> probabilities(a.cols());
    for (std::size_t r = 0; r < a.rows(); ++r) {
      const auto x = a.view().row(r), y = b.view().row(r);
      kernels.softmax(x, probabilities);
      const auto log_sum = [&](std::span<const float> row) {
        const linalg::ExpSum sum = kernels.exp_sum(row);
        return double{sum.largest} + std::log(sum.sum);
      };
      const double of_a = log_sum(x), of_b = log_sum(y);
      // sum p_a (ln p_a - ln p_b) = sum p_a (x - y) - ln sum e^x + ln sum e^y
      divergence.add(std::max(0.0, kernels.weighted_difference(probabilities, x, y) + of_b - of_a), 0);
      const auto best = [](std::span<const float> row) {
        return std::ranges::max_element(row) - row.begin();
      };
      agreement.add(best(x) == best(y) ? 1 : 0, 0);
      if (r + 1 >= ids.size()) continue;
      const auto target = static_cast<std::size_t>(ids[r + 1]);
      loss_a += of_a - double{x[target]};
      loss_b += of_b - double{y[target]};
      ++predicted;
    }
  }
};

/// The sums of the predictions.
struct PredictionSums {
  RatioSums divergence, agreement;
  PairedMean loss;

  void add(const PredictionTerms& terms) {
    divergence.add(terms.divergence);
    agreement.add(terms.agreement);
    const auto count = static_cast<double>(terms.predicted);
    if (terms.predicted > 0) loss.add(terms.loss_a / count, terms.loss_b / count);
  }
};

/// Largest size of the patterns and outputs of one model that are kept at the same time.
constexpr std::size_t kMostBytes = std::size_t{64} << 20;

/// Returns the number of elements of the largest pattern of a sequence.
std::size_t largest_pattern(const input::Sequence& sequence) {
  const std::size_t longest = std::max(sequence.keys(), sequence.predicted().keys());
  return longest * longest;
}

/// Divides the heads so that the patterns of one part fit into kMostBytes; at least one head per part.
std::vector<forward::Selection> parts_of(const forward::Selection& selection, const input::Batch& batch) {
  std::size_t each = 1;
  for (const input::Sequence& sequence : batch.sequences) each += largest_pattern(sequence) * sizeof(float);
  const std::size_t most = std::max<std::size_t>(kMostBytes / each, 1);
  std::vector<forward::Selection> parts;
  for (std::size_t first = 0; first < selection.heads.size(); first += most) {
    const auto begin = selection.heads.begin() + static_cast<std::ptrdiff_t>(first);
    parts.push_back(
        {{begin, begin + static_cast<std::ptrdiff_t>(std::min(most, selection.heads.size() - first))}});
  }
  return parts;
}

/// Returns some columns of a table, with titles for text.
Table with_titles(const Table& table, const std::vector<std::pair<std::string, std::string>>& columns) {
  std::vector<Column> titles;
  for (const auto& [column, title] : columns) titles.emplace_back(title);
  std::vector<std::vector<Cell>> rows(table.rows);
  std::vector<Cell> cells(table.columns.size());
  for (std::size_t i = 0; i < table.rows; ++i) {
    table.row(i, cells);
    for (const auto& [column, title] : columns) rows[i].push_back(cells[table.find(column).value()]);
  }
  return make_table(table.name, std::move(titles), std::move(rows));
}

/// Returns the rows of `metric_changes` that are clear, those first that are the largest number of half
/// intervals away from 0.
Table clear_changes(const Table& metrics) {
  const std::size_t place = metrics.find("clear").value();
  std::vector<std::pair<double, std::vector<Cell>>> clear;
  std::vector<Cell> cells(metrics.columns.size());
  for (std::size_t i = 0; i < metrics.rows; ++i) {
    metrics.row(i, cells);
    if (cells[place] != Cell(true)) continue;
    const auto number = [&](const char* column) { return number_of(cells[metrics.find(column).value()]); };
    clear.emplace_back(std::abs(number("difference")) / std::max(number("high") - number("low"), 1e-300),
                       cells);
  }
  std::ranges::stable_sort(clear, std::ranges::greater(), [](const auto& row) { return row.first; });
  std::vector<std::vector<Cell>> rows;
  for (auto& [distance, row] : clear) rows.push_back(std::move(row));
  return with_titles(make_table("metric_changes", metrics.columns, std::move(rows)), {{"metric", "metric"},
                                                                                      {"name", "head"},
                                                                                      {"a", "a"},
                                                                                      {"b", "b"},
                                                                                      {"difference", "b - a"},
                                                                                      {"low", "low"},
                                                                                      {"high", "high"}});
}

/// Compares two models block by block.
class BehaviourComparer {
 public:
  BehaviourComparer(const BehaviourInput& input, Pool& pool, Warnings& warnings)
      : input_(input), pool_(pool), warnings_(warnings), heads_(input.selection.heads.size()) {}

  void add(const input::Batch& batch) {
    const bool decodes = std::ranges::all_of(batch.sequences, [&](const input::Sequence& sequence) {
      return sequence.target != nullptr || !(input_.a.config().decoder || input_.b.config().decoder);
    });
    const bool outputs = decodes && input_.a.config().head.present && input_.b.config().head.present;
    if (noise_.empty()) set_noise({.sequences = {batch.sequences.front()}}, outputs);
    std::size_t first = 0;
    for (const forward::Selection& part : parts_of(input_.selection, batch)) {
      add_heads(batch, part, first, outputs && first == 0);
      first += part.heads.size();
    }
  }

  [[nodiscard]] Results results(std::optional<std::size_t> top) {
    Results results;
    const Table heads = heads_table(), metrics = metrics_table();
    results.add_table("behaviour", heads);
    results.add_table("metric_change", metrics);
    const std::size_t most = top.value_or(10);
    const auto add_text = [&](const char* title, const Table& rows, const char* none) {
      if (rows.rows > 0)
        results.text.emplace_back(TextTable{title, rows});
      else
        results.text.emplace_back(TextLine{"", none});
    };
    HeatmapPage page = heads_page(results, "behaviour.js_divergence", true);
    page.title = "Divergence of Patterns from a to b";
    page.scale.label = "JS divergence (nats)";
    page.subtitle = {"a: " + input_.a.name(), "b: " + input_.b.name()};
    results.pictures.push_back({"behaviour", std::move(page)});
    Table divergences = with_titles(heads, {{"name", "head"},
                                            {"name_b", "head of b"},
                                            {"js_divergence", "JS divergence"},
                                            {"low", "low"},
                                            {"high", "high"},
                                            {"cka", "CKA"}});
    const bool differ = std::ranges::any_of(
        heads_, [](const BehaviourSums& head) { return head.divergence.mean().value_or(0) > 0; });
    add_text("Heads whose patterns differ most",
             differ ? select_rows(divergences, "JS divergence", most) : Table{}, "No pattern differs.");
    if (differ)
      add_noise(results, "patterns", "nats", largest_noise([](const BehaviourSums& head) {
                  return head.divergence.mean().value_or(kUndefined);
                }));
    const Table clear = clear_changes(metrics);
    add_text("Metrics that differ clearly", select_rows(clear, "", most),
             "No metric of a head differs clearly.");
    if (clear.rows > 0)
      add_noise(results, "metrics", "", largest_noise([](const BehaviourSums& head) {
                  double largest = kUndefined;
                  for (const PairedMean& mean : head.metrics)
                    largest = std::fmax(largest, std::abs(mean.difference()));
                  return largest;
                }));
    if (outputs_.divergence.sentences() > 0) {
      const Table outputs = outputs_table();
      results.add_table("output", outputs);
      results.text.emplace_back(TextTable{"Predictions", with_titles(outputs, {{"measure", "measure"},
                                                                               {"value", "value"},
                                                                               {"low", "low"},
                                                                               {"high", "high"},
                                                                               {"rows", "rows"}})});
      if (const auto noise = noise_of_outputs_.divergence.mean(); noise && outputs_.divergence.mean() > 0.0)
        results.text.emplace_back(TextLine{
            "", fmt::format("Rounding to float32 alone gives a KL divergence of {:.1e} nats.", *noise)});
    }
    return results;
  }

 private:
  /// Returns the largest of a noise over the heads.
  template <typename Noise>
  [[nodiscard]] double largest_noise(const Noise& noise) const {
    double largest = kUndefined;
    for (const BehaviourSums& head : noise_) largest = std::fmax(largest, noise(head));
    return largest;
  }
  static void add_noise(Results& results, std::string_view what, std::string_view unit, double noise) {
    if (std::isfinite(noise))
      results.text.emplace_back(
          TextLine{"", fmt::format("Rounding to float32 alone changes {} of a by at most {:.1e}{}{}.", what,
                                   noise, unit.empty() ? "" : " ", unit)});
  }

  /// Compares model a with its float64 pass.
  void set_noise(const input::Batch& one, bool outputs) {
    RecordedModel single(input_.a, one, input_.selection, outputs);
    RecordedModel exact = single;
    single.run(pool_, warnings_);
    exact.run_in_float64(pool_);
    noise_.resize(heads_.size());
    pool_.run(noise_.size(), [&](std::size_t i, std::size_t /*worker*/) {
      noise_[i].add(single, input_.selection.heads[i], exact, input_.selection.heads[i], 0);
    });
    if (outputs) add_outputs(one, single, exact, noise_of_outputs_);
  }

  /// The head of b with which the selected head `place` is compared.
  [[nodiscard]] model::HeadId partner(std::size_t place) const {
    return input_.partners.empty() ? input_.selection.heads[place] : input_.partners[place];
  }

  void add_heads(const input::Batch& batch, const forward::Selection& part, std::size_t first, bool outputs) {
    forward::Selection partners;
    for (std::size_t i = 0; i < part.heads.size(); ++i) partners.heads.push_back(partner(first + i));
    std::ranges::sort(partners.heads);
    RecordedModel a(input_.a, batch, part, outputs), b(input_.b, batch, partners, outputs);
    a.run(pool_, warnings_);
    b.run(pool_, warnings_);
    pool_.run(part.heads.size(), [&](std::size_t head, std::size_t /*worker*/) {
      for (std::size_t s = 0; s < batch.sequences.size(); ++s)
        heads_[first + head].add(a, part.heads[head], b, partner(first + head), s);
    });
    if (outputs) add_outputs(batch, a, b, outputs_);
  }

  void add_outputs(const input::Batch& batch, const RecordedModel& a, const RecordedModel& b,
                   PredictionSums& sums) {
    const bool next =
        input_.a.config().layers.back().attention.causal || input_.a.config().decoder.has_value();
    std::vector<std::optional<PredictionTerms>> terms(batch.sequences.size());
    pool_.run(terms.size(), [&](std::size_t s, std::size_t /*worker*/) {
      terms[s].emplace(a.logits(s), b.logits(s),
                       next ? std::span<const std::int64_t>(batch.sequences[s].predicted().ids)
                            : std::span<const std::int64_t>());
    });
    for (const auto& each : terms) sums.add(each.value());
  }

  /// A Jensen-Shannon divergence is at most ln 2.
  [[nodiscard]] static std::optional<ConfidenceInterval> bounded(std::optional<ConfidenceInterval> interval) {
    if (interval) interval->high = std::min(interval->high, std::numbers::ln2);
    return interval;
  }

  [[nodiscard]] Table heads_table() const {
    std::vector<Column> columns =
        columns_of(kBehaviourDefinitions, {"component", "layer", "head", "name", "name_b", "js_divergence",
                                           "low", "high", "noise", "cka", "cka_noise", "rows", "sentences"});
    std::vector<std::vector<Cell>> rows;
    for (std::size_t i = 0; i < heads_.size(); ++i) {
      const BehaviourSums& sums = heads_[i];
      rows.push_back(row_of(analysis::head_cells(input_.a.config(), input_.selection.heads[i]),
                            model::head_name(input_.b.config(), partner(i)), sums.divergence.mean(),
                            interval_cells(bounded(sums.divergence.mean_interval())),
                            noise_.empty() ? std::nullopt : noise_[i].divergence.mean(), sums.cka(),
                            noise_.empty() ? kUndefined : noise_[i].cka(),
                            static_cast<std::size_t>(sums.divergence.rows()),
                            static_cast<std::size_t>(sums.divergence.sentences())));
    }
    return make_table("behaviour", std::move(columns), std::move(rows));
  }

  [[nodiscard]] Table metrics_table() const {
    std::vector<Column> columns =
        columns_of(kBehaviourDefinitions, {"metric", "component", "layer", "head", "name"});
    columns.emplace_back("a", definition("metric_changes.a"));
    columns.emplace_back("b", definition("metric_changes.b"));
    for (const char* const name : {"difference", "low", "high", "noise", "clear", "sentences"})
      columns.emplace_back(definition(name));
    std::vector<std::vector<Cell>> rows;
    std::size_t tests = 0;
    for (const BehaviourSums& head : heads_)
      tests += static_cast<std::size_t>(std::ranges::count_if(
          head.metrics, [](const PairedMean& mean) { return mean.interval().has_value(); }));
    for (std::size_t m = 0; m < analysis::row_metrics().size(); ++m) {
      for (std::size_t i = 0; i < heads_.size(); ++i) {
        const PairedMean& mean = heads_[i].metrics[m];
        const auto wide = mean.interval(std::max<std::size_t>(tests, 1));
        rows.push_back(row_of(analysis::row_metrics()[m].about.name,
                              analysis::head_cells(input_.a.config(), input_.selection.heads[i]), mean.a(),
                              mean.b(), mean.difference(), interval_cells(mean.interval()),
                              noise_.empty() ? kUndefined : std::abs(noise_[i].metrics[m].difference()),
                              wide ? Cell(wide->low > 0 || wide->high < 0) : Cell(),
                              static_cast<std::size_t>(mean.count())));
      }
    }
    return make_table("metric_changes", std::move(columns), std::move(rows));
  }

  [[nodiscard]] Table outputs_table() const {
    std::vector<std::vector<Cell>> rows;
    rows.push_back(row_of(
        "kl_divergence", outputs_.divergence.mean(), interval_cells(outputs_.divergence.mean_interval()),
        noise_of_outputs_.divergence.mean(), static_cast<std::size_t>(outputs_.divergence.rows())));
    rows.push_back(row_of("top1_agreement", outputs_.agreement.mean(),
                          interval_cells(outputs_.agreement.estimate()), noise_of_outputs_.agreement.mean(),
                          static_cast<std::size_t>(outputs_.agreement.rows())));
    if (outputs_.loss.count() > 0)
      rows.push_back(row_of("loss_change", outputs_.loss.difference(),
                            interval_cells(outputs_.loss.interval()), noise_of_outputs_.loss.difference(),
                            static_cast<std::size_t>(outputs_.loss.count())));
    return make_table("output",
                      columns_of(kBehaviourDefinitions, {"measure", "value", "low", "high", "noise", "rows"}),
                      std::move(rows));
  }

  BehaviourInput input_;
  Pool& pool_;
  Warnings& warnings_;
  std::vector<BehaviourSums> heads_;  // [selected heads]
  PredictionSums outputs_;
  /// Model a compared with its float64 pass: [selected heads], empty before the first block.
  std::vector<BehaviourSums> noise_;
  PredictionSums noise_of_outputs_;
};

/// The divergences of all selected heads of a from all heads of b.
class DivergenceSums {
 public:
  /// The arguments are borrowed. `heads_b` are ascending.
  DivergenceSums(const BehaviourInput& input, std::span<const model::HeadId> heads_b)
      : input_(input),
        heads_b_(heads_b),
        sums_(input.selection.heads.size(), heads_b.size()),
        rows_(input.selection.heads.size()) {}

  void add(const input::Batch& batch, Pool& pool, Warnings& warnings) {
    const std::vector<model::HeadId>& heads_a = input_.selection.heads;
    std::size_t elements = 0;
    for (const input::Sequence& sequence : batch.sequences) elements += largest_pattern(sequence);
    const std::size_t bytes = elements * (heads_a.size() + heads_b_.size()) * sizeof(float);
    const std::size_t step = bytes / (2 * kMostBytes) + 1;
    HeadRecorder a(heads_a, false, step), b(heads_b_, false, step);
    forward::RunContext context{.pool = pool, .warnings = warnings};
    forward::Observer* const of_a[] = {&a};
    forward::run_forward(input_.a, batch, input_.selection, of_a, context);
    forward::Observer* const of_b[] = {&b};
    forward::run_forward(input_.b, batch, {{heads_b_.begin(), heads_b_.end()}}, of_b, context);
    std::vector<OwnedMatrix<double>> found(batch.sequences.size());
    pool.run(found.size(), [&](std::size_t s, std::size_t /*worker*/) { found[s] = divergences(s, a, b); });
    for (std::size_t s = 0; s < found.size(); ++s) {
      for (std::size_t i = 0; i < heads_a.size(); ++i) {
        rows_[i] += a.kept(heads_a[i], s).rows;
        for (std::size_t j = 0; j < heads_b_.size(); ++j) sums_(i, j) += found[s](i, j);
      }
    }
  }

  /// Returns 1 - divergence / ln 2 [heads of a, heads of b]; NaN for heads of different components.
  [[nodiscard]] OwnedMatrix<double> similarities() const {
    OwnedMatrix<double> similarity(sums_.rows(), sums_.cols());
    for (std::size_t i = 0; i < sums_.rows(); ++i) {
      for (std::size_t j = 0; j < sums_.cols(); ++j)
        similarity(i, j) =
            1 - std::max(0.0, sums_(i, j)) / (static_cast<double>(rows_[i]) * std::numbers::ln2);
    }
    return similarity;
  }

 private:
  /// Returns the sums over the kept rows of a sequence [heads of a, heads of b].
  [[nodiscard]] OwnedMatrix<double> divergences(std::size_t sequence, const HeadRecorder& a,
                                                const HeadRecorder& b) const {
    const std::vector<model::HeadId>& heads_a = input_.selection.heads;
    OwnedMatrix<double> sums(heads_a.size(), heads_b_.size());
    std::ranges::fill(sums.values(), kUndefined);
    for (const model::Component component : {model::Component::none, model::Component::encoder,
                                             model::Component::decoder, model::Component::cross}) {
      const auto places = [&](const model::Model& model, std::span<const model::HeadId> heads) {
        std::vector<std::size_t> found;
        for (std::size_t i = 0; i < heads.size(); ++i)
          if (model.config().layers[heads[i].layer].component == component) found.push_back(i);
        return found;
      };
      const std::vector<std::size_t> x = places(input_.a, heads_a), y = places(input_.b, heads_b_);
      if (x.empty() || y.empty()) continue;
      std::vector<float> patterns;
      for (const std::size_t i : x) {
        const std::vector<float>& one = a.kept(heads_a[i], sequence).pattern;
        patterns.insert(patterns.end(), one.begin(), one.end());
      }
      for (const std::size_t j : y) {
        const std::vector<float>& one = b.kept(heads_b_[j], sequence).pattern;
        patterns.insert(patterns.end(), one.begin(), one.end());
      }
      const std::size_t both = x.size() + y.size();
      const std::vector<double> pairs = analysis::pattern_pairs(patterns, both).divergence;
      for (std::size_t i = 0; i < x.size(); ++i) {
        for (std::size_t j = 0; j < y.size(); ++j)
          sums(x[i], y[j]) = pairs[analysis::pair_index(both, i, x.size() + j)];
      }
    }
    return sums;
  }

  BehaviourInput input_;
  std::span<const model::HeadId> heads_b_;
  OwnedMatrix<double> sums_;       // [heads of a, heads of b]
  std::vector<std::size_t> rows_;  // [heads of a]
};

/// Calls add() with each block of the corpus. The blocks of a small corpus are larger than those of a study,
/// which makes the passes faster.
template <typename Add>
void for_each_block(const BehaviourInput& input, const char* work, Progress& progress, const Add& add) {
  CorpusOptions corpus = input.corpus;
  corpus.batch_tokens = std::max(corpus.batch_tokens, CorpusOptions().batch_tokens);
  corpus.probe = {};
  CorpusBlocks blocks(corpus, input.a, input.vocabulary_a, input.encoder);
  progress.begin(work, 0, "block");
  while (const std::optional<CorpusBlock> block = blocks.next()) {
    add(block->batch);
    progress.advance();
  }
  progress.end();
}

}  // namespace

std::span<const Definition> behaviour_definitions() {
  return kBehaviourDefinitions;
}

std::optional<std::string> behaviour_difference(const BehaviourInput& input) {
  if (input.selection.heads.empty()) return "no head is in both models";
  const model::ModelConfig& a = input.a.config();
  const model::ModelConfig& b = input.b.config();
  const auto ids = static_cast<std::int64_t>(std::max(input.vocabulary_a.size(), input.vocabulary_b.size()));
  for (std::int64_t id = 0; id < ids; ++id) {
    const auto x = input.vocabulary_a.token(id), y = input.vocabulary_b.token(id);
    if (x == y) continue;
    const auto shown = [](const auto& token) { return token ? in_quotes(*token) : std::string("nothing"); };
    return fmt::format("the tokenizers differ: token {} is {} in the first model and {} in the second", id,
                       shown(x), shown(y));
  }
  if (a.output_embedding().vocabulary != b.output_embedding().vocabulary)
    return fmt::format("the vocabularies have {} and {} tokens", a.output_embedding().vocabulary,
                       b.output_embedding().vocabulary);
  return std::nullopt;
}

analysis::HeadMatch match_behaviour(const BehaviourInput& input, const forward::Selection& heads_b,
                                    std::uint64_t seed, Pool& pool, Progress& progress, Warnings& warnings) {
  DivergenceSums sums(input, heads_b.heads);
  for_each_block(input, "match", progress,
                 [&](const input::Batch& batch) { sums.add(batch, pool, warnings); });
  return analysis::match_heads(sums.similarities().view(), seed);
}

Results compare_behaviour(const BehaviourInput& input, std::optional<std::size_t> top, Pool& pool,
                          Progress& progress, Warnings& warnings) {
  BehaviourComparer comparer(input, pool, warnings);
  for_each_block(input, "compare", progress, [&](const input::Batch& batch) { comparer.add(batch); });
  return comparer.results(top);
}

}  // namespace attnctl::study
