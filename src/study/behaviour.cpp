#include "study/behaviour.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
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
#include "study/state/sums.hpp"

namespace attnctl::study {
namespace {

using analysis::row_of;

constexpr auto kBehaviourDefinitions = std::to_array<Definition>({
    {"js_divergence", "nats", "[0, ln 2]", "0",
     "mean over pattern rows of the Jensen-Shannon divergence of the rows of the two models", "Lin 1991"},
    {"cka", "", "[-1, 1]; below 0 only by chance", "1; for independent outputs 0",
     "linear CKA of the outputs z of the two models, from unbiased estimates of HSIC of each sentence",
     "Kornblith et al. 2019; Song et al. 2012"},
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
  /// The 95 % interval of the difference by Student's t; nullopt with fewer than two sentences.
  [[nodiscard]] std::optional<ConfidenceInterval> interval() const {
    if (count_ < 2) return std::nullopt;
    const auto n = static_cast<double>(count_);
    const double variance = std::max(0.0, squares_ / n - difference() * difference()) * n / (n - 1);
    const double half = student_quantile(0.025, count_ - 1) * std::sqrt(variance / n);
    return ConfidenceInterval{difference() - half, difference() + half};
  }

 private:
  [[nodiscard]] double mean(double sum) const {
    return count_ == 0 ? kUndefined : sum / static_cast<double>(count_);
  }
  std::uint64_t count_ = 0;
  double a_ = 0, b_ = 0, squares_ = 0;
};

std::array<Cell, 2> interval_cells_of(const std::optional<ConfidenceInterval>& interval) {
  if (!interval) return {};
  return {analysis::cell_of(interval->low), analysis::cell_of(interval->high)};
}

/// Keeps the patterns and outputs of some heads, [heads][sequences].
class HeadRecorder final : public forward::Observer {
 public:
  struct Kept {
    std::vector<float> pattern;  // [n m], row after row
    std::vector<float> z;        // [n v]
    std::size_t rows = 0, width = 0;
  };

  explicit HeadRecorder(std::span<const model::HeadId> heads) : heads_(heads.begin(), heads.end()) {}

  [[nodiscard]] forward::Needs needs() const override { return {.z = has_values_}; }
  void set_values(bool present) { has_values_ = present; }
  void begin(const model::Model& /*model*/, const input::Batch& batch) override {
    kept_.assign(heads_.size(), std::vector<Kept>(batch.sequences.size()));
  }
  void panel(const forward::AttentionPanel& panel) override {
    const auto place = analysis::head_index(heads_, {panel.layer, panel.head});
    if (!place) return;
    Kept& kept = kept_[*place][panel.sequence];
    for (std::size_t r = 0; r < panel.pattern.rows; ++r) {
      const auto pattern = panel.pattern.row(r);
      kept.pattern.insert(kept.pattern.end(), pattern.begin(), pattern.end());
      if (panel.z.data == nullptr) continue;
      const auto z = panel.z.row(r);
      kept.z.insert(kept.z.end(), z.begin(), z.end());
      kept.width = z.size();
    }
    kept.rows += panel.pattern.rows;
  }
  [[nodiscard]] const std::vector<std::vector<Kept>>& kept() const { return kept_; }

 private:
  std::vector<model::HeadId> heads_;
  bool has_values_ = true;
  std::vector<std::vector<Kept>> kept_;
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

/// The sums of one head.
struct HeadSums {
  RatioSums divergence;
  std::array<double, 3> hsic = {};       // of a with a, of a with b, of b with b
  std::vector<PairedMean> metrics = {};  // [row_metrics()]

  void add_outputs(const HeadRecorder::Kept& a, const HeadRecorder::Kept& b) {
    if (a.rows < analysis::kLeastOutputs || a.z.empty() || b.z.empty()) return;
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
  void add_patterns(const HeadRecorder::Kept& a, const HeadRecorder::Kept& b) {
    std::vector<float> both = a.pattern;
    both.insert(both.end(), b.pattern.begin(), b.pattern.end());
    const double sum = analysis::pattern_pairs(both, 2).divergence[analysis::pair_index(2, 0, 1)];
    divergence.add({.sum = std::max(0.0, sum), .null = 0, .rows = a.rows});
  }
  [[nodiscard]] double cka() const {
    const double scale = hsic[0] * hsic[2];
    return scale > 0 ? hsic[1] / std::sqrt(scale) : kUndefined;
  }

 private:
  static std::ptrdiff_t offset(std::size_t place) { return static_cast<std::ptrdiff_t>(place); }
};

/// The sums of the predictions.
struct OutputSums {
  RatioSums divergence, agreement;
  PairedMean loss;

  /// Adds the predictions of one sequence. `ids` are the tokens; empty if the model does not predict the next
  /// token.
  void add(const OwnedMatrix<float>& a, const OwnedMatrix<float>& b, std::span<const std::int64_t> ids) {
    const linalg::Kernels& kernels = linalg::kernels();
    std::vector<float> probabilities(a.cols());
    SentenceTerm kl, same;
    double loss_a = 0, loss_b = 0;
    std::size_t predicted = 0;
    for (std::size_t r = 0; r < a.rows(); ++r) {
      const auto x = a.view().row(r), y = b.view().row(r);
      kernels.softmax(x, probabilities);
      const auto log_sum = [&](std::span<const float> row) {
        const linalg::ExpSum sum = kernels.exp_sum(row);
        return double{sum.largest} + std::log(sum.sum);
      };
      const double of_a = log_sum(x), of_b = log_sum(y);
      // sum p_a (ln p_a - ln p_b) = sum p_a (x - y) - ln sum e^x + ln sum e^y
      kl.add(std::max(0.0, kernels.weighted_difference(probabilities, x, y) + of_b - of_a), 0);
      const auto best = [](std::span<const float> row) {
        return std::ranges::max_element(row) - row.begin();
      };
      same.add(best(x) == best(y) ? 1 : 0, 0);
      if (r + 1 >= ids.size()) continue;
      const auto target = static_cast<std::size_t>(ids[r + 1]);
      loss_a += of_a - double{x[target]};
      loss_b += of_b - double{y[target]};
      ++predicted;
    }
    divergence.add(kl);
    agreement.add(same);
    if (predicted > 0)
      loss.add(loss_a / static_cast<double>(predicted), loss_b / static_cast<double>(predicted));
  }
};

/// Largest size of the patterns and outputs of one model that are kept at the same time.
constexpr std::size_t kMostBytes = std::size_t{64} << 20;

/// Divides the heads so that the patterns of one part fit into kMostBytes; at least one head per part.
std::vector<forward::Selection> parts_of(const forward::Selection& selection, const input::Batch& batch) {
  std::size_t each = 1;
  for (const input::Sequence& sequence : batch.sequences) {
    const std::size_t longest = std::max(sequence.keys(), sequence.predicted().keys());
    each += longest * longest * sizeof(float);
  }
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

/// Returns the differences of metrics whose interval does not contain 0, those first that are the largest
/// number of half intervals away from 0.
Table clear_changes(const Table& metrics) {
  const Table shown = with_titles(metrics, {{"metric", "metric"},
                                            {"name", "head"},
                                            {"a", "a"},
                                            {"b", "b"},
                                            {"difference", "b - a"},
                                            {"low", "low"},
                                            {"high", "high"}});
  std::vector<std::pair<double, std::vector<Cell>>> clear;
  std::vector<Cell> cells(shown.columns.size());
  for (std::size_t i = 0; i < shown.rows; ++i) {
    shown.row(i, cells);
    const double difference = number_of(cells[4]), low = number_of(cells[5]), high = number_of(cells[6]);
    if (low > 0 || high < 0) clear.emplace_back(std::abs(difference) / std::max(high - low, 1e-300), cells);
  }
  std::ranges::stable_sort(clear, std::ranges::greater(), [](const auto& row) { return row.first; });
  std::vector<std::vector<Cell>> rows;
  for (auto& [distance, row] : clear) rows.push_back(std::move(row));
  return make_table("metric_changes", shown.columns, std::move(rows));
}

/// Compares two models block by block.
class Comparer {
 public:
  Comparer(const BehaviourInput& input, Pool& pool, Warnings& warnings)
      : input_(input), pool_(pool), warnings_(warnings), heads_(input.selection.heads.size()) {
    for (HeadSums& head : heads_) head.metrics.resize(analysis::row_metrics().size());
  }

  void add(const input::Batch& batch) {
    std::size_t first = 0;
    for (const forward::Selection& part : parts_of(input_.selection, batch)) {
      add_heads(batch, part, first);
      first += part.heads.size();
    }
    if (input_.a.config().head.present && input_.b.config().head.present) add_outputs(batch);
  }

  [[nodiscard]] Results results(std::optional<std::size_t> top) {
    Results results;
    const Table heads = heads_table(), metrics = metrics_table();
    results.add_table("behaviour", heads);
    results.add_table("metric_change", metrics);
    const std::size_t most = top.value_or(10);
    results.text.emplace_back(TextTable{"Heads whose patterns differ most",
                                        select_rows(with_titles(heads, {{"name", "head"},
                                                                        {"js_divergence", "JS divergence"},
                                                                        {"low", "low"},
                                                                        {"high", "high"},
                                                                        {"cka", "CKA"}}),
                                                    "JS divergence", most)});
    results.text.emplace_back(TextTable{"Metrics that differ most, relative to their intervals",
                                        select_rows(clear_changes(metrics), "", most)});
    if (outputs_.divergence.sentences() > 0) {
      const Table outputs = outputs_table();
      results.add_table("output", outputs);
      results.text.emplace_back(TextTable{"Predictions", outputs});
    }
    return results;
  }

 private:
  void add_heads(const input::Batch& batch, const forward::Selection& part, std::size_t first) {
    std::array<HeadRecorder, 2> recorders = {HeadRecorder(part.heads), HeadRecorder(part.heads)};
    std::array<std::vector<analysis::HeadPatternMetrics>, 2> metrics;
    const std::array<const model::Model*, 2> models = {&input_.a, &input_.b};
    for (std::size_t i = 0; i < models.size(); ++i) {
      const model::Model& model = *models.at(i);
      recorders.at(i).set_values(std::ranges::all_of(part.heads, [&](model::HeadId id) {
        return model.config().layers[id.layer].attention.value.weight;
      }));
      analysis::PatternMetrics observer(part, true);
      forward::Observer* const observers[] = {&recorders.at(i), &observer};
      forward::RunContext context{.pool = pool_, .warnings = warnings_};
      forward::run_forward(model, batch, part, observers, context);
      metrics.at(i) = observer.finish();
    }
    pool_.run(part.heads.size(), [&](std::size_t head, std::size_t /*worker*/) {
      HeadSums& sums = heads_[first + head];
      for (std::size_t s = 0; s < batch.sequences.size(); ++s) {
        const HeadRecorder::Kept& a = recorders[0].kept()[head][s];
        const HeadRecorder::Kept& b = recorders[1].kept()[head][s];
        sums.add_patterns(a, b);
        sums.add_outputs(a, b);
      }
    });
    for (std::size_t i = 0; i < metrics[0].size(); ++i) {
      const auto head = analysis::head_index(part.heads, metrics[0][i].head);
      for (std::size_t m = 0; head && m < metrics[0][i].means.size(); ++m) {
        const auto& a = metrics[0][i].means[m];
        const auto& b = metrics[1][i].means[m];
        if (a && b) heads_[first + *head].metrics[m].add(*a, *b);
      }
    }
  }

  void add_outputs(const input::Batch& batch) {
    std::array<LogitRecorder, 2> recorders;
    const std::array<const model::Model*, 2> models = {&input_.a, &input_.b};
    for (std::size_t i = 0; i < models.size(); ++i) {
      forward::Observer* const observers[] = {&recorders.at(i)};
      forward::RunContext context{.pool = pool_, .warnings = warnings_};
      forward::run_forward(*models.at(i), batch, {}, observers, context);
    }
    const bool next =
        input_.a.config().layers.back().attention.causal || input_.a.config().decoder.has_value();
    for (std::size_t s = 0; s < batch.sequences.size(); ++s) {
      const auto& a = recorders[0].logits()[s];
      const auto& b = recorders[1].logits()[s];
      outputs_.add(a, b,
                   next ? std::span<const std::int64_t>(batch.sequences[s].predicted().ids)
                        : std::span<const std::int64_t>());
    }
  }

  [[nodiscard]] Table heads_table() {
    std::vector<Column> columns = columns_of(
        kBehaviourDefinitions,
        {"component", "layer", "head", "name", "js_divergence", "low", "high", "cka", "rows", "sentences"});
    std::vector<std::vector<Cell>> rows;
    for (std::size_t i = 0; i < heads_.size(); ++i) {
      HeadSums& sums = heads_[i];
      rows.push_back(row_of(analysis::head_cells(input_.a.config(), input_.selection.heads[i]),
                            sums.divergence.mean(), interval_cells_of(sums.divergence.mean_interval()),
                            sums.cka(), static_cast<std::size_t>(sums.divergence.rows()),
                            static_cast<std::size_t>(sums.divergence.sentences())));
    }
    return make_table("behaviour", std::move(columns), std::move(rows));
  }

  [[nodiscard]] Table metrics_table() const {
    std::vector<Column> columns =
        columns_of(kBehaviourDefinitions, {"metric", "component", "layer", "head", "name"});
    columns.emplace_back("a", definition("metric_changes.a"));
    columns.emplace_back("b", definition("metric_changes.b"));
    for (const char* const name : {"difference", "low", "high", "sentences"})
      columns.emplace_back(definition(name));
    std::vector<std::vector<Cell>> rows;
    for (std::size_t m = 0; m < analysis::row_metrics().size(); ++m) {
      for (std::size_t i = 0; i < heads_.size(); ++i) {
        const PairedMean& mean = heads_[i].metrics[m];
        rows.push_back(row_of(analysis::row_metrics()[m].about.name,
                              analysis::head_cells(input_.a.config(), input_.selection.heads[i]), mean.a(),
                              mean.b(), mean.difference(), interval_cells_of(mean.interval()),
                              static_cast<std::size_t>(mean.count())));
      }
    }
    return make_table("metric_changes", std::move(columns), std::move(rows));
  }

  [[nodiscard]] Table outputs_table() const {
    std::vector<std::vector<Cell>> rows;
    const auto add = [&](const char* name, std::optional<double> value,
                         const std::optional<ConfidenceInterval>& interval, std::uint64_t count) {
      rows.push_back(row_of(name, value, interval_cells_of(interval), static_cast<std::size_t>(count)));
    };
    add("kl_divergence", outputs_.divergence.mean(), outputs_.divergence.mean_interval(),
        outputs_.divergence.rows());
    const auto agreement = outputs_.agreement.estimate();
    add("top1_agreement", outputs_.agreement.mean(),
        agreement ? std::optional(agreement->interval()) : std::nullopt, outputs_.agreement.rows());
    if (outputs_.loss.count() > 0)
      add("loss_change", outputs_.loss.difference(), outputs_.loss.interval(), outputs_.loss.count());
    return make_table("output",
                      columns_of(kBehaviourDefinitions, {"measure", "value", "low", "high", "rows"}),
                      std::move(rows));
  }

  BehaviourInput input_;
  Pool& pool_;
  Warnings& warnings_;
  std::vector<HeadSums> heads_;  // [selected heads]
  OutputSums outputs_;
};

}  // namespace

std::span<const Definition> behaviour_definitions() {
  return kBehaviourDefinitions;
}

std::optional<std::string> behaviour_difference(const BehaviourInput& input) {
  const model::ModelConfig& a = input.a.config();
  const model::ModelConfig& b = input.b.config();
  for (const model::HeadId head : input.selection.heads) {
    const bool has = head.layer < b.layers.size() && head.head < b.layers[head.layer].attention.heads &&
                     b.layers[head.layer].component == a.layers[head.layer].component;
    if (!has) return fmt::format("the second model has no head {}", model::head_name(a, head));
  }
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

Results compare_behaviour(const BehaviourInput& input, std::optional<std::size_t> top, Pool& pool,
                          Progress& progress, Warnings& warnings) {
  Comparer comparer(input, pool, warnings);
  CorpusBlocks blocks(input.corpus, input.a, input.vocabulary_a, input.encoder);
  progress.begin("compare", 0, "block");
  while (const std::optional<CorpusBlock> block = blocks.next()) {
    if (!block->probes.empty()) continue;
    comparer.add(block->batch);
    progress.advance();
  }
  progress.end();
  return comparer.results(top);
}

}  // namespace attnctl::study
