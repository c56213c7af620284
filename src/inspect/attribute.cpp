#include "inspect/attribute.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "analysis/head_axes.hpp"
#include "analysis/model_summary.hpp"
#include "base/error.hpp"
#include "causal/decomposition.hpp"
#include "causal/integrated.hpp"
#include "forward/attention/visibility.hpp"
#include "forward/block.hpp"
#include "inspect/memory_plan.hpp"

namespace attnctl::inspect {
namespace {

using analysis::row_of;

constexpr auto kAttributionDefinitions = std::to_array<Definition>({
    {"logits.contribution", "", "", "0",
     "the writer's part of the logit: what it wrote into the residual stream at this position, through the "
     "final "
     "norm with its scale frozen and the output matrix; all parts of a token add up to its logit",
     "Elhage et al. 2021"},
    {"scores.contribution", "", "", "0",
     "the part of scale q k^T that comes from these two writers; all parts add up to the score before "
     "positions "
     "and masks",
     "Elhage et al. 2021"},
    {"patterns.contribution", "nats", "", "0",
     "weight times the mean of d ln p / d weight while the patterns of all heads of this layer grow from 0 "
     "to their values; p is the probability of the first explained token",
     "Hao et al. 2021, integrated gradients"},
    {"pattern_heads.contribution", "nats", "", "0", "sum of the contributions of the head's weights",
     "Hao et al. 2021, integrated gradients"},
    {"pattern_layers.contribution", "nats", "", "0",
     "sum of the contributions of all heads of the layer: about log_probability - without, the better the "
     "more --steps",
     "Sundararajan et al. 2017, completeness"},
    {"log_probability", "nats", "at most 0", "", "ln p of the first explained token"},
    {"without", "nats", "at most 0", "", "ln p with all patterns of this layer 0"},
    {"query_token", "", "", "", "the token of the query"},
    {"key_token", "", "", "", "the token of the key"},
    {"weight", "", "[0, 1]", "", "the weight of the pattern"},
    {"writer", "", "", "", "the embedding, a head, an MLP, or biases of norms and projections (constant)"},
    {"token", "", "", "", "the token whose logit is written as a sum"},
    {"of", "", "", "", "the head whose score or pattern is explained"},
    {"query", "tokens", "from 0", "", "position of the query"},
    {"key", "tokens", "from 0", "", "position of the key"},
    {"query_writer", "", "", "", "what wrote the part of the stream that the query reads"},
    {"key_writer", "", "", "", "what wrote the part of the stream that the key reads"},
});

constexpr std::size_t kMostParts = 15;

class BestToken final : public forward::Observer {
 public:
  [[nodiscard]] forward::Needs needs() const override { return {.patterns = false, .logits = true}; }
  void panel(const forward::AttentionPanel& /*panel*/) override {}
  void logits(std::size_t /*sequence*/, std::size_t /*first_query*/,
              MatrixView<const float> values) override {
    const auto row = values.row(0);
    best_ = std::ranges::max_element(row) - row.begin();
  }
  [[nodiscard]] std::int64_t best() const { return best_; }

 private:
  std::int64_t best_ = 0;
};

/// Adds a line about the parts that a table of kMostParts rows leaves out, if any. `all` is the number of
/// parts, `rest` the sum of those that are left out, and `what` names a part.
void add_rest(std::vector<PageBlock>& text, std::size_t all, double rest, std::string_view what) {
  if (all <= kMostParts) return;
  text.emplace_back(TextLine{"", fmt::format("{}, which add up to {:.3f}: --format json",
                                             counted(all - kMostParts, fmt::format("more {}", what)), rest)});
}

/// Returns the cells of the columns writer, component, layer, head and name.
std::vector<Cell> writer_cells(const model::ModelConfig& config, const causal::Writer* writer) {
  if (writer == nullptr) return row_of("constant", Cell(), Cell(), Cell(), Cell());
  if (writer->kind == causal::Writer::Origin::head)
    return row_of(causal::name_of(*writer, config),
                  analysis::head_cells(config, {writer->layer, writer->head}));
  return row_of(causal::name_of(*writer, config), Cell(), Cell(), Cell(), Cell());
}

std::string writer_name(const model::ModelConfig& config, const std::vector<causal::Writer>& writers,
                        std::size_t index) {
  return index < writers.size() ? causal::name_of(writers[index], config) : "constant";
}

void add_logits(const model::Model& model, const tokenizer::Vocabulary& vocabulary,
                const causal::RecordedSequence& recorded, std::size_t position,
                const std::vector<std::int64_t>& tokens, forward::RunContext& context, Results& results) {
  const model::ModelConfig& config = model.config();
  const causal::LogitParts parts = causal::logit_parts(model, recorded, position, tokens, context);
  std::vector<std::vector<Cell>> rows;
  std::vector<Column> columns =
      columns_of(kAttributionDefinitions, {"token", "writer", "component", "layer", "head", "name"});
  columns.emplace_back("contribution", kAttributionDefinitions[0]);
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    const std::string token = token_text(vocabulary, tokens[t]);
    std::vector<std::pair<double, std::size_t>> order;
    double sum = parts.constant[t];
    for (std::size_t w = 0; w <= parts.writers.size(); ++w) {
      const bool constant = w == parts.writers.size();
      const double value = constant ? parts.constant[t] : parts.parts(w, t);
      rows.push_back(row_of(token, writer_cells(config, constant ? nullptr : &parts.writers[w]), value));
      if (!constant) sum += value;
      order.emplace_back(value, w);
    }
    std::ranges::stable_sort(order, std::ranges::greater(),
                             [](const auto& each) { return std::abs(each.first); });
    std::vector<std::vector<Cell>> shown;
    double rest = 0;
    for (const auto& [value, writer] : order) {
      if (shown.size() == kMostParts)
        rest += value;
      else
        shown.push_back(row_of(writer_name(config, parts.writers, writer), value));
    }
    results.text.emplace_back(TextTable{
        fmt::format("Parts of the logit of {} ({:.3f}) at position {}", in_quotes(token), sum, position),
        make_table("logits", {"writer", "contribution"}, std::move(shown))});
    add_rest(results.text, order.size(), rest, "writer");
  }
  results.add_table("logit_part", make_table("logits", std::move(columns), std::move(rows)));
}

void add_score(const model::Model& model, const causal::RecordedSequence& recorded, const ScoreChoice& score,
               forward::RunContext& context, Results& results, std::vector<std::vector<Cell>>& rows) {
  const model::ModelConfig& config = model.config();
  const causal::ScoreParts parts =
      causal::score_parts(model, recorded, score.head, score.query, score.key, context);
  const std::string name = model::head_name(config, score.head);
  std::vector<std::pair<double, std::pair<std::size_t, std::size_t>>> order;
  double sum = 0;
  for (std::size_t q = 0; q < parts.parts.rows(); ++q) {
    for (std::size_t k = 0; k < parts.parts.cols(); ++k) {
      const double value = parts.parts(q, k);
      sum += value;
      rows.push_back(row_of(name, score.query, score.key, writer_name(config, parts.query_writers, q),
                            writer_name(config, parts.key_writers, k), value));
      order.push_back({value, {q, k}});
    }
  }
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [](const auto& each) { return std::abs(each.first); });
  std::vector<std::vector<Cell>> shown;
  double rest = 0;
  for (const auto& [value, pair] : order) {
    if (shown.size() == kMostParts)
      rest += value;
    else
      shown.push_back(row_of(writer_name(config, parts.query_writers, pair.first),
                             writer_name(config, parts.key_writers, pair.second), value));
  }
  results.text.emplace_back(
      TextTable{fmt::format("Parts of the score of head {} from position {} to {} ({:.3f})", name,
                            score.query, score.key, sum),
                make_table("scores", {"query_writer", "key_writer", "contribution"}, std::move(shown))});
  add_rest(results.text, order.size(), rest, "pair");
}

Column contribution_column(std::string_view of) {
  return {"contribution",
          *std::ranges::find(kAttributionDefinitions, fmt::format("{}.contribution", of), &Definition::name)};
}

/// Adds the parts of the patterns of heads in ln p(token) at a position.
class PatternTables {
 public:
  PatternTables(const AttributeRequest& request, const OpenModel& open, std::size_t position,
                std::int64_t token, forward::RunContext& context)
      : request_(request), config_(open.model.config()), token_(token_text(open.vocabulary, token)) {
    batch_.sequences = {request.input};
    const causal::ScoredQueries scored{.queries = {position}, .targets = {token}};
    const causal::CausalPass pass({.model = open.model, .batch = batch_, .scored = {&scored, 1}}, context);
    log_probability_ = -pass.predictions()[0].loss;
    // All heads of a layer are needed for the sum of the layer.
    const std::vector<std::size_t> layers = request.patterns.layers();
    forward::Selection whole_layers;
    std::vector<causal::Intervention> removals;
    for (const std::size_t layer : layers) {
      causal::Intervention& removal = removals.emplace_back();
      for (std::size_t head = 0; head < config_.layers[layer].attention.heads; ++head) {
        whole_layers.heads.push_back({layer, head});
        removal.heads.push_back({{layer, head}, {}});
      }
    }
    const std::vector<causal::Effect> effects = pass.run(removals, context);
    for (std::size_t i = 0; i < layers.size(); ++i)
      layers_.push_back({layers[i], log_probability_ - effects[i].loss, 0});
    for (const causal::PatternParts& parts :
         causal::integrate_patterns(open.model, batch_, pass, scored, whole_layers, request.steps, context))
      add_head(parts);
  }

  void add_to(Results& results) {
    std::vector<std::vector<Cell>> rows;
    for (const LayerSum& of : layers_)
      rows.push_back(row_of(model::layer_name(config_, of.layer), log_probability_, of.without, of.sum));
    std::vector<Column> columns =
        columns_of(kAttributionDefinitions, {"layer", "log_probability", "without"});
    columns.push_back(contribution_column("pattern_layers"));
    const Table layers = make_table("pattern_layers", std::move(columns), std::move(rows));
    results.text.emplace_back(TextTable{
        fmt::format("ln p of {} and what the patterns of a layer add to it", in_quotes(token_)), layers});
    columns = columns_of(kAttributionDefinitions, {"component", "layer", "head", "name"});
    columns.push_back(contribution_column("pattern_heads"));
    results.add_table("pattern_head", make_table("pattern_heads", std::move(columns), std::move(head_rows_)));
    columns =
        columns_of(kAttributionDefinitions, {"of", "query", "query_token", "key", "key_token", "weight"});
    columns.push_back(contribution_column("patterns"));
    results.add_table("pattern_part", make_table("patterns", std::move(columns), std::move(rows_)));
    results.add_table("pattern_layer", layers);
    std::ranges::move(text_, std::back_inserter(results.text));
    HeatmapPage page;
    page.title = "Integrated Gradients of Patterns";
    page.subtitle = results.subtitle;
    page.heatmaps = std::move(heatmaps_);
    page.scale.label = fmt::format("part of ln p of {}", in_quotes(token_));
    page.scale.diverging = true;
    page.fit_scale();
    results.pictures.push_back({"patterns", std::move(page)});
  }

 private:
  struct LayerSum {
    std::size_t layer = 0;
    double without = 0, sum = 0;  // ln p with patterns of 0; sum of all contributions
  };
  /// One weight of a pattern.
  struct Pair {
    std::size_t query = 0, key = 0;
    double part = 0;
  };

  void add_head(const causal::PatternParts& head) {
    double sum = 0;
    std::vector<Pair> pairs;
    for (std::size_t i = 0; i < head.parts.rows(); ++i) {
      for (std::size_t j = 0; j < head.parts.cols(); ++j) {
        if (head.pattern(i, j) == 0) continue;
        pairs.push_back({i, j, double{head.parts(i, j)}});
        sum += pairs.back().part;
      }
    }
    std::ranges::find(layers_, head.head.layer, &LayerSum::layer)->sum += sum;
    if (std::ranges::find(request_.patterns.heads, head.head) == request_.patterns.heads.end()) return;
    head_rows_.push_back(row_of(analysis::head_cells(config_, head.head), sum));
    const std::string name = model::head_name(config_, head.head);
    const forward::Sides sides = forward::sides_of(config_.layers[head.head.layer].component, request_.input);
    const std::vector<std::string>& queries = sides.queries_of.tokens;
    const std::vector<std::string>& keys = sides.keys_of.tokens;
    const auto token = [](const std::vector<std::string>& tokens, std::size_t position) {
      return position < tokens.size() ? Cell(tokens[position]) : Cell();
    };
    const auto row = [&](const Pair& pair) {
      return row_of(name, pair.query, token(queries, pair.query), pair.key, token(keys, pair.key),
                    head.pattern(pair.query, pair.key), pair.part);
    };
    for (const Pair& pair : pairs) rows_.push_back(row(pair));
    std::ranges::stable_sort(pairs, std::ranges::greater(),
                             [](const Pair& pair) { return std::abs(pair.part); });
    std::vector<std::vector<Cell>> shown;
    double rest = 0;
    for (const Pair& pair : pairs) {
      if (shown.size() == kMostParts) {
        rest += pair.part;
        continue;
      }
      shown.push_back(row(pair));
      shown.back().erase(shown.back().begin());
    }
    text_.emplace_back(TextTable{
        fmt::format("Parts of the pattern of head {} ({:.3f})", name, sum),
        make_table("patterns", {"query", "query_token", "key", "key_token", "weight", "contribution"},
                   std::move(shown))});
    add_rest(text_, pairs.size(), rest, "weight");
    std::vector<double> values;
    for (const float part : head.parts.values()) values.push_back(double{part});
    heatmaps_.push_back({name, "Key", "Query", keys, queries,
                         make_tensor({head.parts.rows(), head.parts.cols()}, std::move(values))});
  }

  const AttributeRequest& request_;
  const model::ModelConfig& config_;
  std::string token_;
  input::Batch batch_;
  double log_probability_ = 0;
  std::vector<LayerSum> layers_;
  std::vector<std::vector<Cell>> head_rows_, rows_;
  std::vector<PageBlock> text_;
  std::vector<Heatmap> heatmaps_;
};

}  // namespace

namespace {

/// Returns the memory of an attribution. The copies for integrated gradients have RunContext::packed_rows
/// rows, or one copy.
WorkBytes bytes_of(const AttributeRequest& request, const model::Model& model, const input::Batch& batch,
                   const forward::RunContext& context) {
  const model::ModelConfig& config = model.config();
  WorkBytes bytes = causal_bytes(model, batch, 1, true, context.pool.size());
  std::uint64_t largest = 0;  // layer
  for (std::size_t i = 0; i < config.layers.size(); ++i) largest = std::max(largest, model.layer_bytes(i));
  // W_O of one layer in float64; with scores, the weights of a second layer.
  bytes.weights_streamed = saturating_sum(bytes.weights_streamed, largest, largest);
  bytes.weights_resident = saturating_sum(bytes.weights_resident, largest);
  std::uint64_t writers = 2 * config.layers.size() + 2;
  for (const model::LayerConfig& layer : config.layers) writers += layer.attention.heads + 2;
  constexpr std::uint64_t of_row = 1024;  // a row of the results
  const std::uint64_t rows = saturating_sum(writers * std::max<std::uint64_t>(request.tokens.size(), 1),
                                            writers * writers * request.scores.size());
  bytes.kept = saturating_sum(bytes.kept, 4 * writers * config.d_model * sizeof(double), rows * of_row);
  if (request.patterns.heads.empty()) return bytes;
  const std::uint64_t n = batch.most_keys();
  input::Batch copies;
  copies.sequences.assign(std::max<std::uint64_t>(1, context.packed_rows / std::max<std::uint64_t>(n, 1)),
                          batch.sequences.front());
  const WorkBytes of_copies =
      causal_bytes(model, copies, copies.sequences.size(), false, context.pool.size());
  const std::uint64_t parts = request.patterns.heads.size() * n * n;
  bytes.kept = saturating_sum(bytes.kept, of_copies.kept, parts * (of_row + 6 * sizeof(float)));
  bytes.weights_streamed = std::max(bytes.weights_streamed, of_copies.weights_streamed);
  bytes.weights_resident = std::max(bytes.weights_resident, of_copies.weights_resident);
  std::uint64_t of_layers = 0;
  for (const std::size_t layer : request.patterns.layers())
    of_layers += config.layers[layer].attention.heads * 3 * n * (n + config.layers[layer].attention.d_value);
  bytes.kept = saturating_sum(bytes.kept, of_layers * sizeof(float));
  return bytes;
}

}  // namespace

std::string tokens_text(const input::Sequence& sequence) {
  return fmt::format("{} ({})", escaped(sequence.text.value_or("ids")), counted(sequence.queries(), "token"));
}

std::string token_text(const tokenizer::Vocabulary& vocabulary, std::int64_t id) {
  const auto token = vocabulary.token(id);
  return token && !token->empty() ? std::string(*token) : "#" + std::to_string(id);
}

std::size_t predicting_position(const input::Sequence& sequence, const OpenModel& open,
                                const std::string& option) {
  const std::vector<std::int64_t>& ids = sequence.predicted().ids;
  const auto is_mask = [&](std::int64_t id) { return open.vocabulary.is_mask(id); };
  const auto masks = std::ranges::count_if(ids, is_mask);
  if (masks > 1)
    fail(
        Status::bad_input,
        "{}: got {} mask tokens, need one, because one prediction is explained (attnctl attribute also takes "
        "--position)",
        option, masks);
  if (masks == 1) return static_cast<std::size_t>(std::ranges::find_if(ids, is_mask) - ids.begin());
  if (!open.model.config().predicts_next_token())
    fail(Status::bad_input,
         "{}: the model predicts masked tokens; need a mask token, such as [MASK], in the text", option);
  return input::last_of_text(sequence.predicted());
}

Record input_record(const input::Sequence& sequence) {
  Record record;
  record.set("text", sequence.text).set("tokens", sequence.tokens).set("ids", sequence.ids);
  if (const input::Sequence* const target = sequence.target.get())
    record.set("target_text", target->text)
        .set("target_tokens", target->tokens)
        .set("target_ids", target->ids);
  return record;
}

std::vector<std::string> input_lines(const std::string& label, const input::Sequence& sequence) {
  std::vector<std::string> lines = {label + escaped(sequence.text.value_or("ids"))};
  if (sequence.target) lines.push_back("Target: " + escaped(sequence.target->text.value_or("ids")));
  return lines;
}

std::int64_t best_token(const model::Model& model, const input::Batch& batch, std::size_t position,
                        forward::RunContext& context) {
  BestToken best;
  forward::Observer* const observers[] = {&best};
  const std::vector<std::vector<std::size_t>> queries = {{position}};
  forward::run_forward(model, batch, {}, observers, context, {.logit_queries = queries});
  return best.best();
}

std::span<const Definition> attribution_definitions() {
  return kAttributionDefinitions;
}

Results attribute(const AttributeRequest& request, OpenModel& open, forward::RunContext& context) {
  const model::Model& model = open.model;
  const model::ModelConfig& config = model.config();
  if (!config.head.present)
    fail(Status::bad_input,
         "{}: the checkpoint has no output head, so there are no logits to explain; give a model with an "
         "output "
         "head",
         escaped(model.name()));
  const std::size_t n = request.input.predicted().queries();
  const std::size_t position =
      request.position ? *request.position : predicting_position(request.input, open, "the text");
  if (position >= n)
    fail(Status::bad_input, "--position: got {}; the {} has the positions 0 to {}", position,
         request.input.target ? "target" : "input", n - 1);
  input::Batch batch;
  batch.sequences = {request.input};
  context.streamed_rows = plan_memory(request.memory, bytes_of(request, model, batch, context));
  const causal::RecordedSequence recorded = std::move(causal::record(model, batch, true, context).front());
  std::vector<std::int64_t> tokens = request.tokens;
  if (tokens.empty()) tokens.push_back(best_token(model, batch, position, context));

  Results results;
  results.document.head.set("model", analysis::model_record(model))
      .set("input", input_record(request.input))
      .set("position", position);
  results.text.emplace_back(TextLine{model.name(), ": " + tokens_text(request.input)});
  if (request.input.target)
    results.text.emplace_back(TextLine{"Target", ": " + tokens_text(*request.input.target)});
  results.subtitle = {model.name()};
  std::ranges::move(input_lines("", request.input), std::back_inserter(results.subtitle));
  add_logits(model, open.vocabulary, recorded, position, tokens, context, results);
  std::vector<std::vector<Cell>> rows;
  for (const ScoreChoice& score : request.scores) {
    const std::string name = model::head_name(config, score.head);
    const model::LayerConfig& layer = config.layers[score.head.layer];
    const forward::Sides sides = forward::sides_of(layer.component, request.input);
    if (score.query >= sides.queries() || score.key >= sides.keys())
      fail(Status::bad_input,
           "--score {}:{}:{}: the input has the positions 0 to {} for queries, 0 to {} for keys", name,
           score.query, score.key, sides.queries() - 1, sides.keys() - 1);
    const forward::Visibility visible(layer.attention, sides.keys_of, score.head.head);
    const forward::KeyRange range = visible.of_query(score.query);
    if (score.key < range.first || score.key >= range.last || !visible.sees(score.query, score.key))
      fail(Status::bad_input, "--score {}:{}:{}: query {} does not see key {}", name, score.query, score.key,
           score.query, score.key);
    add_score(model, recorded, score, context, results, rows);
  }
  if (!rows.empty()) {
    std::vector<Column> columns =
        columns_of(kAttributionDefinitions, {"of", "query", "key", "query_writer", "key_writer"});
    columns.emplace_back("contribution", kAttributionDefinitions[1]);
    results.add_table("score_part", make_table("scores", std::move(columns), std::move(rows)));
  }
  if (!request.patterns.heads.empty())
    PatternTables(request, open, position, tokens.front(), context).add_to(results);
  HeatmapPage page = heads_page(results, "logits.contribution");
  page.title = "Direct Contribution of Heads to the Logit";
  results.pictures.push_back({"logits", std::move(page)});
  return results;
}

}  // namespace attnctl::inspect
