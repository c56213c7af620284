#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <numeric>
#include <span>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "base/text.hpp"
#include "inspect/describe.hpp"
#include "inspect/inspection.hpp"

// Output of patterns, of the answers to --from, and of the other captured arrays.
namespace attnctl::inspect {
namespace {

using analysis::Captured;

Section patterns_section(const RunResults& run) {
  List items;
  for (const InputArray& array : run.arrays) {
    if (array.what != Captured::pattern) continue;
    const forward::Sides sides = run.sides(array.sequence, array.component);
    const std::vector<model::HeadId>& heads = run.heads_of(array);
    for (std::size_t i = 0; i < heads.size(); ++i) {
      Record record{{{"input", run.shown.sequences[array.sequence].id}}};
      set_head(record, run.config(), heads[i])
          .set("queries", sides.queries())
          .set("keys", sides.keys())
          .set("weight", item_of(array.array, i, 2));
      items.emplace_back(std::move(record));
    }
  }
  return {"patterns", "pattern", std::move(items)};
}

/// Returns a table with one row per attention weight. Rows are computed while the table is written, because
/// there can be millions of rows.
Table patterns_table(const RunResults& run) {
  struct ArrayRows {
    const InputArray* array;
    std::size_t first_row;
  };
  std::vector<ArrayRows> blocks;
  std::size_t rows = 0;
  for (const InputArray& array : run.arrays) {
    if (array.what != Captured::pattern) continue;
    blocks.push_back({&array, rows});
    rows += array.array.size();
  }
  Table table{"patterns",
              columns_of(kPatternColumns, {"input", "component", "layer", "head", "name", "query", "key",
                                           "query_token", "key_token", "weight"}),
              rows,
              {}};
  table.row = [&run, blocks](std::size_t index, std::span<Cell> cells) {
    const ArrayRows& block = *std::prev(std::ranges::upper_bound(blocks, index, {}, &ArrayRows::first_row));
    const forward::Sides sides = run.sides(block.array->sequence, block.array->component);
    const std::size_t place = index - block.first_row;
    const std::size_t key = place % sides.keys();
    const std::size_t query = place / sides.keys() % sides.queries();
    const model::HeadId head = run.heads_of(*block.array)[place / sides.keys() / sides.queries()];
    const float weight = std::get<std::span<const float>>(block.array->array.values)[place];
    std::vector<Cell> row =
        row_of(run.shown.sequences[block.array->sequence].id, analysis::head_cells(run.config(), head), query,
               key, token_cell(sides.queries_of.tokens, query), token_cell(sides.key_tokens(), key), weight);
    std::ranges::move(row, cells.begin());
  };
  return table;
}

struct DrawnPattern {
  std::string title;  // "3.1" for head 1 of layer 3, "3 mean" for the mean of layer 3
  std::size_t sequence = 0;
  std::string input;  // name of the sequence
  forward::Sides sides;
  Tensor values;  // [n, m]
};

Tensor mean_of(std::span<const DrawnPattern> patterns) {
  std::vector<double> mean(patterns.front().values.size());
  for (const DrawnPattern& pattern : patterns) {
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += pattern.values.at(i);
  }
  for (double& value : mean) value /= static_cast<double>(patterns.size());
  return make_tensor(patterns.front().values.shape, std::move(mean));
}

/// Returns all captured patterns, ordered by component, input and head. If --show names a layer, the mean
/// over the heads of the layer is before the patterns of the heads.
std::vector<DrawnPattern> drawn_patterns(const RunResults& run) {
  std::vector<DrawnPattern> drawn;
  for (const InputArray& array : run.arrays) {
    if (array.what != Captured::pattern) continue;
    const std::vector<model::HeadId>& heads = run.heads_of(array);
    const auto pattern = [&](std::string title, Tensor values) {
      return DrawnPattern{std::move(title), array.sequence, run.shown.sequences[array.sequence].id,
                          run.sides(array.sequence, array.component), std::move(values)};
    };
    std::vector<DrawnPattern> layer;
    for (std::size_t i = 0; i < heads.size(); ++i) {
      layer.push_back(pattern(model::head_name(run.config(), heads[i]), item_of(array.array, i, 2)));
      if (i + 1 < heads.size() && heads[i + 1].layer == heads[i].layer) continue;
      if (run.request.draw_layers)
        drawn.push_back(pattern(model::layer_name(run.config(), heads[i].layer) + " mean", mean_of(layer)));
      for (DrawnPattern& of_head : layer) drawn.push_back(std::move(of_head));
      layer.clear();
    }
  }
  return drawn;
}

std::vector<std::string> key_labels(const RunResults& run, const forward::Sides& sides) {
  if (sides.keys_of.key_embeddings.rows() > 0) return {};
  return token_labels(run, sides.keys_of);
}

TextMatrix matrix_of(const RunResults& run, const DrawnPattern& pattern, std::string corner) {
  return {.corner = std::move(corner),
          .row_labels = token_labels(run, pattern.sides.queries_of),
          .column_labels = key_labels(run, pattern.sides),
          .values = pattern.values};
}

void append_patterns(std::vector<PageBlock>& blocks, const RunResults& run) {
  const std::vector<DrawnPattern> drawn = drawn_patterns(run);
  if (!run.request.draw_layers) {
    const char* const what =
        run.request.weighting == analysis::Weighting::weights ? "Pattern" : "Norm-based weights";
    for (const DrawnPattern& pattern : drawn) {
      const std::string title =
          run.request.draw ? fmt::format("Pattern of {}, input \"{}\"", pattern.title, pattern.input)
                           : fmt::format("{} of {} (input \"{}\")", what, pattern.title, pattern.input);
      blocks.emplace_back(
          TextMatrices{title,
                       {matrix_of(run, pattern, "query")},
                       run.request.draw ? TextMatrices::Style::heatmaps : TextMatrices::Style::numbers});
    }
    return;
  }
  analysis::for_each_group(drawn, &DrawnPattern::sequence, [&](std::span<const DrawnPattern> patterns) {
    TextMatrices block{
        fmt::format("Patterns of input \"{}\", queries down, keys across", patterns.front().input),
        {},
        TextMatrices::Style::small_heatmaps};
    for (const DrawnPattern& pattern : patterns)
      block.matrices.push_back(matrix_of(run, pattern, pattern.title));
    blocks.emplace_back(std::move(block));
  });
}

void scale_patterns(HeatmapPage& page, analysis::Weighting weighting) {
  page.scale.diverging = false;
  page.fit_scale();
  if (weighting != analysis::Weighting::norm && page.scale.high >= 0.5) page.scale.high = 1;
  page.scale.label = weighting == analysis::Weighting::weights    ? "Attention weight"
                     : weighting == analysis::Weighting::norm_row ? "Share of the norms of weighted values"
                                                                  : "Norm of weighted value";
}

/// Returns a page of pattern heatmaps. For each input, it has one row per layer and one column per head. If
/// there is only one layer, or if the selected heads differ between layers, rows have a default length.
HeatmapPage pattern_page(const RunResults& run) {
  HeatmapPage page;
  const std::vector<model::HeadId>& heads = run.request.selection.heads;
  const analysis::HeadAxes axes(heads);
  const std::size_t layers = axes.layers().size();
  if (axes.regular() && layers > 1) page.columns = heads.size() / layers + (run.request.draw_layers ? 1 : 0);
  for (const DrawnPattern& pattern : drawn_patterns(run)) {
    const std::string input = run.shown.sequences.size() == 1 ? "" : "Input " + pattern.input + ", ";
    page.heatmaps.push_back({input + pattern.title, "Key", "Query", key_labels(run, pattern.sides),
                             token_labels(run, pattern.sides.queries_of), pattern.values});
  }
  const bool single = page.heatmaps.size() == 1;
  page.title = fmt::format(
      "{} Pattern{}", run.request.weighting == analysis::Weighting::weights ? "Attention" : "Norm-Weighted",
      single ? "" : "s");
  if (layers == 1) page.title += " of Layer " + model::layer_name(run.config(), heads.front().layer);
  if (single) page.title += fmt::format(", Head {}", heads.front().head);
  scale_patterns(page, run.request.weighting);
  return page;
}

/// Returns the word of --from or, if --from is a position, the token there without its word mark.
std::string name_of_from(const RunResults& run, const analysis::AttentionQuestion& question) {
  const std::string& from = run.request.from;
  const forward::Sides sides = run.sides(question.sequence);
  const std::vector<std::string>& tokens = sides.queries_of.tokens;
  const std::size_t position = question.from.front();
  return parse_number(from) && position < tokens.size() ? run.vocabulary.plain(tokens[position]) : from;
}

/// Returns a page with a heatmap [heads, keys] for each input: the weights from the word of --from.
HeatmapPage answers_page(const RunResults& run) {
  HeatmapPage page;
  page.title =
      fmt::format("What \"{}\" Attends To",
                  run.questions.size() == 1 ? name_of_from(run, run.questions[0]) : run.request.from);
  analysis::for_each_group(
      run.answers, &analysis::AttentionAnswer::question,
      [&](std::span<const analysis::AttentionAnswer> heads) {
        const std::size_t s = run.questions[heads.front().question].sequence;
        const forward::Sides sides = run.sides(s);
        std::vector<std::string> names;
        std::vector<double> weights;
        for (const analysis::AttentionAnswer& answer : heads) {
          names.push_back(model::head_name(run.config(), answer.head));
          weights.insert(weights.end(), answer.weights.begin(), answer.weights.end());
          weights.resize(names.size() * sides.keys(), kUndefined);
        }
        page.heatmaps.push_back({"Input " + run.shown.sequences[s].id, "Key", "Head", key_labels(run, sides),
                                 std::move(names),
                                 make_tensor({heads.size(), sides.keys()}, std::move(weights))});
      });
  scale_patterns(page, run.request.weighting);
  return page;
}

Section attention_from_section(const RunResults& run) {
  List items;
  for (const analysis::AttentionAnswer& answer : run.answers) {
    const analysis::AttentionQuestion& question = run.questions[answer.question];
    const input::Sequence& sequence = run.shown.sequences[question.sequence];
    const forward::Sides sides = run.sides(question.sequence);
    List top;
    for (const auto& [key, weight] : answer.top) {
      top.emplace_back(
          Record{{{"key", key}, {"token", token_cell(sides.key_tokens(), key)}, {"weight", weight}}});
    }
    List to;
    for (std::size_t i = 0; i < question.to_texts.size(); ++i)
      to.emplace_back(Record{{{"token", question.to_texts[i]}, {"weight", or_null(answer.to[i])}}});
    const std::size_t query = question.from.front();
    Record record{{{"input", sequence.id}}};
    set_head(record, run.config(), answer.head)
        .set("query", query)
        .set("query_token", token_cell(sides.queries_of.tokens, query))
        .set("top", std::move(top))
        .set("to", std::move(to));
    items.emplace_back(std::move(record));
  }
  return {"attention_from", "attention_from", std::move(items)};
}

/// Returns a table with one row per weight of attention_from_section(). Rows are computed on demand.
Table attention_from_table(const RunResults& run) {
  struct AnswerWord {
    std::size_t answer;
    std::size_t word;  // index into the strongest keys and, after them, the words of --to
  };
  std::vector<AnswerWord> places;
  for (std::size_t i = 0; i < run.answers.size(); ++i) {
    const std::size_t words = run.answers[i].top.size() + run.answers[i].to.size();
    for (std::size_t word = 0; word < words; ++word) places.push_back({i, word});
  }
  Table table{"attention_from",
              columns_of(kAttentionFromColumns, {"input", "component", "layer", "head", "name", "query",
                                                 "query_token", "kind", "key", "token", "weight"}),
              places.size(),
              {}};
  table.row = [&run, places](std::size_t index, std::span<Cell> cells) {
    const auto [number, word] = places[index];
    const analysis::AttentionAnswer& answer = run.answers[number];
    const analysis::AttentionQuestion& question = run.questions[answer.question];
    const forward::Sides sides = run.sides(question.sequence);
    const std::size_t query = question.from.front();
    std::vector<Cell> row =
        row_of(run.shown.sequences[question.sequence].id, analysis::head_cells(run.config(), answer.head),
               query, token_cell(sides.queries_of.tokens, query));
    if (word < answer.top.size()) {
      const auto& [key, weight] = answer.top[word];
      add_cells(row, row_of("top", key, token_cell(sides.key_tokens(), key), weight));
    } else {
      const std::size_t i = word - answer.top.size();
      add_cells(row, row_of("to", question.to[i].front(), question.to_texts[i], answer.to[i]));
    }
    std::ranges::move(row, cells.begin());
  };
  return table;
}

/// Returns the indices of the answers, sorted by descending weight on word `to` of --to. If there is no such
/// word, returns 0, 1, 2 and so on. Weights that are undefined or NaN count as 0.
std::vector<std::size_t> order_by_weight(std::span<const analysis::AttentionAnswer> answers, std::size_t to) {
  const auto weight_of = [&](std::size_t i) {
    return to < answers[i].to.size() ? std::max(0.0F, answers[i].to[to].value_or(0)) : 0.0F;
  };
  std::vector<std::size_t> order(answers.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(), weight_of);
  return order;
}

void append_strongest(std::vector<PageBlock>& blocks, const RunResults& run,
                      const analysis::AttentionQuestion& question,
                      std::span<const analysis::AttentionAnswer> answers) {
  if (!question.to.empty()) blocks.emplace_back(TextLine{});
  for (std::size_t to = 0; to < question.to.size(); ++to) {
    std::string heads;
    std::vector<std::size_t> order = order_by_weight(answers, to);
    order.resize(std::min<std::size_t>(order.size(), 5));
    for (const std::size_t i : order) {
      const float weight = answers[i].to[to].value_or(0);
      if (weight > 0)
        heads += fmt::format("{} {} {:.2f}", heads.empty() ? "" : ",",
                             model::head_name(run.config(), answers[i].head), weight);
    }
    blocks.emplace_back(
        TextLine{fmt::format("Strongest on {}:", question.to_texts[to]), heads.empty() ? " no head" : heads});
  }
}

/// Appends the answers to question `number`: one row per head and, unless --sort names a word of --to, a row
/// for the mean of each layer before its heads.
void append_answers(std::vector<PageBlock>& blocks, const RunResults& run, std::size_t number) {
  const analysis::AttentionQuestion& question = run.questions[number];
  const std::string& input = run.shown.sequences[question.sequence].id;
  const forward::Sides sides = run.sides(question.sequence);
  const std::vector<std::string> labels = key_labels(run, sides);
  std::vector<Column> columns = {"head", "strongest keys (position:token weight)"};
  columns.insert(columns.end(), question.to_texts.begin(), question.to_texts.end());
  std::vector<std::vector<Cell>> rows;
  const auto add = [&](const std::string& head, const analysis::AttentionAnswer& answer) {
    std::string keys;
    for (const auto& [key, weight] : answer.top)
      keys += fmt::format("{}{}:{} {:.2f}", keys.empty() ? "" : "  ", key,
                          labels.empty() ? std::to_string(key) : labels[key], weight);
    rows.push_back(row_of(head, keys, answer.to));
  };
  std::size_t left = run.request.selection.heads.size();
  const auto answers = std::span(run.answers).subspan(number * left, left);
  const auto sort = std::ranges::find(question.to_texts, run.request.sort) - question.to_texts.begin();
  const bool sorted = static_cast<std::size_t>(sort) < question.to.size();
  const std::optional<std::size_t>& top = run.request.top;
  const std::size_t most = top && (sorted || *top == kAllHeads) ? *top : kTextRows;
  for (const std::size_t i : order_by_weight(answers, static_cast<std::size_t>(sort))) {
    const std::size_t layer = answers[i].head.layer;
    const bool first = !sorted && (i == 0 || answers[i - 1].head.layer != layer);
    if (rows.size() + (first ? 2U : 1U) > most) break;
    if (first) {
      const auto layer_of = [](const analysis::AttentionAnswer& answer) { return answer.head.layer; };
      const auto count = static_cast<std::size_t>(std::ranges::count(answers, layer, layer_of));
      add(model::layer_name(run.config(), layer) + " mean",
          analysis::mean_of(answers.subspan(i, count), question));
    }
    add(model::head_name(run.config(), answers[i].head), answers[i]);
    --left;
  }
  append_heads(blocks,
               {fmt::format("What \"{}\" looks at (input \"{}\", position {})", name_of_from(run, question),
                            input, question.from.front()),
                make_table("", std::move(columns), std::move(rows)), 3},
               left);
  append_strongest(blocks, run, question, answers);
}

/// Appends the most probable tokens after the last position of a causal model, otherwise at each mask token
/// (if there is none, at the last position).
void append_predictions(std::vector<PageBlock>& blocks, const RunResults& run, const InputArray& logits) {
  const input::Sequence& input = run.shown.sequences[logits.sequence];
  const input::Sequence& sequence = input.target ? *input.target : input;
  const bool next = input.target || run.config().layers.front().attention.causal;
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; !next && i < sequence.ids.size(); ++i) {
    if (run.vocabulary.is_mask(sequence.ids[i])) positions.push_back(i);
  }
  if (positions.empty()) positions.push_back(sequence.queries() - 1);
  const std::vector<std::string> labels = token_labels(run, sequence);
  const std::size_t top = run.request.top.value_or(kAllHeads) == kAllHeads ? 5 : *run.request.top;
  for (const std::size_t position : positions) {
    const Tensor row = item_of(logits.array, position, 1);
    std::vector<std::pair<double, std::size_t>> order;  // of -logit and id; NaN is last
    for (std::size_t id = 0; id < row.size(); ++id)
      order.emplace_back(std::isnan(row.at(id)) ? HUGE_VAL : -row.at(id), id);
    std::ranges::sort(order);
    const auto weight = [&](std::size_t id) { return std::exp(row.at(id) - row.at(order.front().second)); };
    double sum = 0;
    for (std::size_t id = 0; id < row.size(); ++id) sum += weight(id);
    order.resize(std::min(top, order.size()));
    std::vector<std::vector<Cell>> rows;
    for (const auto& [logit, id] : order) {
      const auto token = run.vocabulary.token(static_cast<std::int64_t>(id));
      const std::string name =
          token ? run.vocabulary.label(*token, run.request.strip_markers) : fmt::format("#{}", id);
      rows.push_back(row_of(rows.size() + 1, name, weight(id) / sum));
    }
    const std::string title =
        fmt::format("{} \"{}\" (input \"{}\", position {})", next ? "Next token after" : "Token at",
                    labels[position], input.id, position);
    blocks.emplace_back(TextTable{title, make_table("", {"rank", "token", "probability"}, std::move(rows))});
  }
}

}  // namespace

constexpr std::array<Definition, 1> kPatternColumns = {
    {{"weight", "", "[0, 1]; norm: [0, inf)", "1 / keys for even weights",
      "weight a_ij of query i on key j; with --weighting norm: |a_ij f(x_j)|, f(x) = value of x times W_O",
      "norm: Kobayashi et al. 2020"}}};
constexpr std::array<Definition, 4> kAttentionFromColumns = {
    {{"kind", "", "top or to", "", "top: a key with one of the largest weights; to: a word of --to"},
     {"key", "", "from 0", "", "position of the key, or of the first token of the word of --to"},
     {"token", "", "", "", "the token of the key, or the word of --to"},
     {"weight", "", "[0, 1]; norm: [0, inf)", "top: 1 / keys for even weights; to: pieces of the word / keys",
      "mean over the pieces of the query word, sum over those of a word of --to", "Clark et al. 2019"}}};

void add_patterns(Results& results, const RunResults& run) {
  if (!run.request.includes.patterns) return;
  const Form form = run.request.form;
  if (form == Form::document) results.document.sections.push_back(patterns_section(run));
  if (form == Form::tables) results.tables.push_back(patterns_table(run));
  if (form == Form::text) append_patterns(results.text, run);
  if (form == Form::pictures) results.pictures.push_back({"patterns", pattern_page(run)});
}

void add_answers(Results& results, const RunResults& run) {
  if (run.questions.empty()) return;
  const Form form = run.request.form;
  if (form == Form::document) results.document.sections.push_back(attention_from_section(run));
  if (form == Form::tables) results.tables.push_back(attention_from_table(run));
  if (form == Form::text) {
    for (std::size_t i = 0; i < run.questions.size(); ++i) append_answers(results.text, run, i);
  }
  if (form == Form::pictures) results.pictures.push_back({"attention_from", answers_page(run)});
}

/// Adds records of the captured arrays except patterns: for each input, one record per layer of keys, values
/// and outputs, one of the logits (in text, also the most probable tokens), and one per head of the others.
void add_captured(Results& results, const RunResults& run) {
  const model::ModelConfig& config = run.config();
  List items;
  const auto add = [&](const InputArray& array, std::optional<std::size_t> layer,
                       std::optional<std::size_t> head, const Tensor& values) {
    const Cell name = head ? Cell(model::head_name(config, {*layer, *head})) : Cell();
    items.emplace_back(Record{{{"array", std::string(name_of(array.what))},
                               {"input", run.shown.sequences[array.sequence].id},
                               {"component", analysis::component_cell(config, layer)},
                               {"layer", analysis::number_cell(config, layer)},
                               {"head", analysis::cell_of(head)},
                               {"name", name},
                               {"shape", List(values.shape.begin(), values.shape.end())},
                               {"value", values}}});
  };
  for (const InputArray& array : run.arrays) {
    if (array.what == Captured::pattern) continue;
    if (array.what == Captured::logits) {
      add(array, std::nullopt, std::nullopt, array.array);
      if (run.request.form == Form::text) append_predictions(results.text, run, array);
    } else if (array.what == Captured::output) {
      const std::vector<std::size_t> layers = run.components[array.component].selection.layers();
      for (std::size_t i = 0; i < layers.size(); ++i)
        add(array, layers[i], std::nullopt, item_of(array.array, i, 2));
    } else if (array.what == Captured::keys || array.what == Captured::values) {
      const auto kv_heads = analysis::HeadAxes::of_kv_heads(run.heads_of(array), config);
      std::size_t first = 0;
      for (const std::size_t layer : kv_heads.layers()) {
        const auto count =
            static_cast<std::size_t>(std::ranges::count(kv_heads.heads(), layer, &model::HeadId::layer));
        add(array, layer, std::nullopt, items_of(array.array, first, count, 2));
        first += count;
      }
    } else {
      const std::vector<model::HeadId>& heads = run.heads_of(array);
      for (std::size_t i = 0; i < heads.size(); ++i)
        add(array, heads[i].layer, heads[i].head, item_of(array.array, i, 2));
    }
  }
  if (!items.empty()) results.document.sections.push_back({"arrays", "array", std::move(items)});
}

}  // namespace attnctl::inspect
