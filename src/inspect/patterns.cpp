#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <set>
#include <span>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "base/numbers.hpp"
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
      items.emplace_back(head_record("input", run.shown.sequences[array.sequence].id, run.config(), heads[i])
                             .set("queries", sides.queries())
                             .set("keys", sides.keys())
                             .set("weight", item_of(array.array, i, 2)));
    }
  }
  return {"patterns", "pattern", std::move(items)};
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
      TextMatrix matrix = matrix_of(run, pattern, "query");
      if (!run.request.draw && run.request.weighting != analysis::Weighting::norm)
        matrix.advice = fmt::format("; --show {} draws it", pattern.title);
      blocks.emplace_back(
          TextMatrices{title,
                       {std::move(matrix)},
                       run.request.draw ? TextMatrices::Style::heatmaps : TextMatrices::Style::numbers});
    }
    return;
  }
  analysis::for_each_group(drawn, &DrawnPattern::sequence, [&](std::span<const DrawnPattern> patterns) {
    TextMatrices block{
        fmt::format(
            "Patterns of input \"{}\": queries down, keys across ({})", patterns.front().input,
            patterns.front().sides.key_tokens().empty() ? "by position" : "the tokens above, in order"),
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

/// Returns a page of pattern heatmaps. For each input, it has one row per layer and one column per head. Rows
/// have a default length if the selected heads differ between layers, and also if there is only one layer and
/// one input, or one column or more than 6.
HeatmapPage pattern_page(const RunResults& run) {
  HeatmapPage page;
  const std::vector<model::HeadId>& heads = run.request.selection.heads;
  const analysis::HeadAxes axes(heads);
  const std::size_t layers = axes.layers().size();
  const std::size_t columns = heads.size() / layers + (run.request.draw_layers ? 1 : 0);
  const bool many = layers > 1 || (run.shown.sequences.size() > 1 && columns > 1 && columns <= 6);
  if (axes.regular() && many) page.columns = columns;
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
      fmt::format("What \"{}\" Looks At",
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
    const forward::Sides sides = run.sides(question.sequence);
    List top;
    for (const auto& [key, weight] : answer.top) {
      top.emplace_back(
          Record{{{"key", key}, {"token", token_cell(sides.key_tokens(), key)}, {"weight", weight}}});
    }
    List to;
    for (std::size_t i = 0; i < question.to_texts.size(); ++i)
      to.emplace_back(Record{{{"token", question.to_texts[i]}, {"weight", answer.to[i]}}});
    const std::size_t query = question.from.front();
    items.emplace_back(
        head_record("input", run.shown.sequences[question.sequence].id, run.config(), answer.head)
            .set("query", query)
            .set("query_token", token_cell(sides.queries_of.tokens, query))
            .set("query_text", name_of_from(run, question))
            .set("queries", question.from)
            .set("top", std::move(top))
            .set("to", std::move(to)));
  }
  return {"attention_from", "attention_from", std::move(items)};
}

/// Returns a table with one row per weight of attention_from_section(). Rows are computed on demand.
Table attention_from_table(const RunResults& run) {
  // Of each row, an answer and an index into its strongest keys and, after them, the words of --to.
  std::vector<std::pair<const analysis::AttentionAnswer*, std::size_t>> places;
  for (const analysis::AttentionAnswer& answer : run.answers) {
    for (std::size_t word = 0; word < answer.top.size() + answer.to.size(); ++word)
      places.emplace_back(&answer, word);
  }
  Table table{"attention_from",
              columns_of(kAttentionFromColumns, {"input", "component", "layer", "head", "name", "query",
                                                 "query_token", "kind", "key", "token", "weight"}),
              places.size(),
              {}};
  table.row = [&run, places](std::size_t index, std::span<Cell> cells) {
    const auto [place, word] = places[index];
    const analysis::AttentionAnswer& answer = *place;
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
/// for the mean of each layer whose heads are all selected, before its heads.
void append_answers(std::vector<PageBlock>& blocks, const RunResults& run, std::size_t number) {
  const analysis::AttentionQuestion& question = run.questions[number];
  const std::string& input = run.shown.sequences[question.sequence].id;
  const forward::Sides sides = run.sides(question.sequence);
  const std::vector<std::string> labels = key_labels(run, sides);
  TableRows rows{"", {"head", "strongest keys (position:token weight)"}};
  rows.columns.insert(rows.columns.end(), question.to_texts.begin(), question.to_texts.end());
  const auto add = [&](const std::string& head, const analysis::AttentionAnswer& answer) {
    std::string keys;
    for (const auto& [key, weight] : answer.top)
      keys += fmt::format("{}{}:{} {:.2f}", keys.empty() ? "" : "  ", key,
                          labels.empty() ? std::to_string(key) : labels[key], weight);
    rows.add(head, keys, answer.to);
  };
  std::size_t left = run.request.selection.heads.size();
  const auto answers = std::span(run.answers).subspan(number * left, left);
  const auto sort = std::ranges::find(question.to_texts, run.request.sort) - question.to_texts.begin();
  const bool sorted = static_cast<std::size_t>(sort) < question.to.size();
  const std::optional<std::size_t>& top = run.request.top;
  const std::size_t most = top && (sorted || *top == kAllHeads) ? *top : kTextRows;
  for (const std::size_t i : order_by_weight(answers, static_cast<std::size_t>(sort))) {
    const std::size_t layer = answers[i].head.layer;
    const auto layer_of = [](const analysis::AttentionAnswer& answer) { return answer.head.layer; };
    const auto count = static_cast<std::size_t>(std::ranges::count(answers, layer, layer_of));
    const bool mean = !sorted && (i == 0 || answers[i - 1].head.layer != layer) &&
                      count == run.config().layers[layer].attention.heads;
    if (rows.rows.size() + (mean ? 2U : 1U) > most) break;
    if (mean) {
      add(model::layer_name(run.config(), layer) + " mean",
          analysis::mean_of(answers.subspan(i, count), question));
    }
    add(model::head_name(run.config(), answers[i].head), answers[i]);
    --left;
  }
  const std::vector<std::size_t>& from = question.from;
  const std::string places = from.size() == 1
                                 ? fmt::format("position {}", from.front())
                                 : fmt::format("positions {}-{}, mean", from.front(), from.back());
  append_heads(
      blocks,
      {fmt::format("What \"{}\" looks at (input \"{}\", {})", name_of_from(run, question), input, places),
       rows.table(), 3},
      left,
      question.to.empty() || !run.request.sort.empty()
          ? ""
          : fmt::format("; --sort {0} shows the strongest on {0} first", question.to_texts.front()));
  append_strongest(blocks, run, question, answers);
}

/// The most probable tokens at a position: their ids and probabilities, most probable first.
struct PredictedTokens {
  std::size_t sequence = 0;
  std::size_t position = 0;
  std::vector<std::pair<std::int64_t, double>> tokens;
};

const input::Sequence& predicted_side(const input::Sequence& sequence) {
  return sequence.target ? *sequence.target : sequence;
}

/// Returns whether logits predict the token after their position.
bool predicts_next(const RunResults& run, const input::Sequence& sequence) {
  return sequence.target || run.config().layers.front().attention.causal;
}

/// Returns the last position of a causal model, otherwise each mask token (if there is none, the last
/// position).
std::vector<std::size_t> predicted_positions(const RunResults& run, const input::Sequence& input) {
  const input::Sequence& sequence = predicted_side(input);
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; !predicts_next(run, input) && i < sequence.ids.size(); ++i) {
    if (run.vocabulary.is_mask(sequence.ids[i])) positions.push_back(i);
  }
  if (positions.empty()) positions.push_back(sequence.queries() - 1);
  return positions;
}

std::size_t most_predicted(const InspectRequest& request) {
  return request.top.value_or(kAllHeads) == kAllHeads ? 5 : *request.top;
}

std::vector<PredictedTokens> predictions_of(const RunResults& run, const InputArray& logits) {
  std::vector<PredictedTokens> predictions;
  for (const std::size_t position : predicted_positions(run, run.shown.sequences[logits.sequence])) {
    const Tensor row = item_of(logits.array, position, 1);
    std::vector<std::pair<double, std::size_t>> order;  // of -logit and id; NaN is last
    for (std::size_t id = 0; id < row.size(); ++id)
      order.emplace_back(std::isnan(row.at(id)) ? HUGE_VAL : -row.at(id), id);
    std::ranges::sort(order);
    const auto weight = [&](std::size_t id) { return std::exp(row.at(id) - row.at(order.front().second)); };
    double sum = 0;
    for (std::size_t id = 0; id < row.size(); ++id) sum += weight(id);
    order.resize(std::min(most_predicted(run.request), order.size()));
    PredictedTokens& predicted = predictions.emplace_back(PredictedTokens{logits.sequence, position, {}});
    for (const auto& [logit, id] : order)
      predicted.tokens.emplace_back(static_cast<std::int64_t>(id), weight(id) / sum);
  }
  return predictions;
}

Cell token_of_id(const RunResults& run, std::int64_t id) {
  const auto token = run.vocabulary.token(id);
  return token ? Cell(std::string(*token)) : Cell();
}

Table predictions_table(const RunResults& run, std::span<const PredictedTokens> predictions) {
  TableRows rows{"predictions",
                 columns_of(kLogitColumns, {"input", "position", "rank", "token", "id", "probability"})};
  for (const PredictedTokens& each : predictions) {
    for (std::size_t i = 0; i < each.tokens.size(); ++i) {
      const auto& [id, probability] = each.tokens[i];
      rows.add(run.shown.sequences[each.sequence].id, each.position, i + 1, token_of_id(run, id), Cell(id),
               probability);
    }
  }
  return rows.table();
}

TextTable predictions_text(const RunResults& run, const PredictedTokens& predicted) {
  const input::Sequence& input = run.shown.sequences[predicted.sequence];
  TableRows rows{"", {"rank", "token", "probability"}};
  for (const auto& [id, probability] : predicted.tokens) {
    const auto token = run.vocabulary.token(id);
    rows.add(rows.rows.size() + 1,
             token ? run.vocabulary.label(*token, run.request.strip_markers) : fmt::format("#{}", id),
             probability);
  }
  return {
      fmt::format("{} \"{}\" (input \"{}\", position {})",
                  predicts_next(run, input) ? "Next token after" : "Token at",
                  token_labels(run, predicted_side(input))[predicted.position], input.id, predicted.position),
      rows.table()};
}

bool has_kv_heads(Captured what) {
  return what == Captured::keys || what == Captured::values;
}

/// Returns the heads that the items of an array, except logits, belong to: key/value heads of keys and
/// values, and the first selected head of each layer of outputs.
std::vector<model::HeadId> item_heads(const RunResults& run, const InputArray& array) {
  std::vector<model::HeadId> heads = run.heads_of(array);
  if (has_kv_heads(array.what)) return analysis::HeadAxes::of_kv_heads(heads, run.config()).heads();
  if (array.what == Captured::output) {
    const auto same_layer = [](model::HeadId a, model::HeadId b) { return a.layer == b.layer; };
    heads.erase(std::unique(heads.begin(), heads.end(), same_layer), heads.end());
  }
  return heads;
}

/// Returns records of the captured arrays except patterns: for each input, one record per layer of keys,
/// values and outputs, one of the logits, and one per head of the others.
List array_records(const RunResults& run) {
  const model::ModelConfig& config = run.config();
  List items;
  const auto add = [&](const InputArray& array, const std::array<Cell, 4>& cells, const Tensor& values) {
    const auto& [component, layer, head, name] = cells;
    items.emplace_back(Record{{{"array", std::string(name_of(array.what))},
                               {"input", run.shown.sequences[array.sequence].id},
                               {"component", component},
                               {"layer", layer},
                               {"head", head},
                               {"name", name},
                               {"shape", values.shape},
                               {"value", values}}});
  };
  for (const InputArray& array : run.arrays) {
    if (array.what == Captured::pattern) continue;
    if (array.what == Captured::logits) {
      add(array, {}, array.array);
      continue;
    }
    const bool of_kv_heads = has_kv_heads(array.what);
    const auto group_of = [&](const model::HeadId& head) {
      return of_kv_heads ? model::HeadId{head.layer, 0} : head;
    };
    std::size_t first = 0;
    const auto add_group = [&](std::span<const model::HeadId> heads) {
      std::array<Cell, 4> cells = analysis::head_cells(config, heads.front());
      if (of_kv_heads || array.what == Captured::output) cells[2] = cells[3] = {};
      add(array, cells,
          of_kv_heads ? items_of(array.array, first, heads.size(), 2) : item_of(array.array, first, 2));
      first += heads.size();
    };
    analysis::for_each_group(item_heads(run, array), group_of, add_group);
  }
  return items;
}

/// Returns a captured array as a table.
Table array_table(const RunResults& run, Captured what) {
  const std::string name(include_name(what));
  const std::vector<NamedDefinitions> groups = definitions();
  const auto own = std::ranges::find(groups, name, &NamedDefinitions::where)->definitions;
  const bool patterns = what == Captured::pattern;
  std::vector<Column> columns;
  if (what == Captured::logits) {
    columns = columns_of(own, {"input", "position", "token", "id", "logit"});
  } else if (patterns) {
    columns = columns_of(own, {"input", "component", "layer", "head", "name", "query", "key", "query_token",
                               "key_token", "weight"});
  } else if (what == Captured::scores) {
    columns = columns_of(own, {"input", "component", "layer", "head", "name", "query", "key", "score"});
  } else if (what == Captured::output) {
    columns = columns_of(own, {"input", "component", "layer", "position", "dimension", "value"});
  } else if (has_kv_heads(what)) {
    columns = columns_of(own, {"input", "component", "layer", "kv_head", "position", "dimension", "value"});
  } else {
    columns =
        columns_of(own, {"input", "component", "layer", "head", "name", "position", "dimension", "value"});
  }
  std::vector<LongBlock> blocks;
  for (const InputArray& array : run.arrays) {
    if (array.what != what) continue;
    const std::string& input = run.shown.sequences[array.sequence].id;
    if (what == Captured::logits) {
      blocks.push_back(
          {row_of(input), array.array, [&run](std::size_t position, std::size_t id, std::span<Cell> cells) {
             cells[0] = analysis::cell_of(position);
             cells[1] = token_of_id(run, static_cast<std::int64_t>(id));
             cells[2] = analysis::cell_of(id);
           }});
      continue;
    }
    const forward::Sides sides = run.sides(array.sequence, array.component);
    const std::vector<model::HeadId> heads = item_heads(run, array);
    for (std::size_t i = 0; i < heads.size(); ++i) {
      std::vector<Cell> first = row_of(input, analysis::head_cells(run.config(), heads[i]));
      first.resize(columns.size() - (patterns ? 5 : 3));  // an output has no head, a key/value head no name
      blocks.push_back({std::move(first), item_of(array.array, i, 2), {}});
      if (patterns) blocks.back().middle = query_and_key(sides.queries_of.tokens, sides.key_tokens());
    }
  }
  return long_table(name, std::move(columns), std::move(blocks));
}

}  // namespace

constexpr std::array<Definition, 1> kPatternColumns = {
    {{"weight", "", "[0, 1]; norm: [0, inf)", "1 / keys for even weights",
      "weight a_ij of query i on key j; with --weighting norm: |a_ij f(x_j)|, f(x) = value of x times W_O",
      "norm: Kobayashi et al. 2020"}}};
constexpr std::array<Definition, 1> kScoreColumns = {
    {{"score", "", "(-inf, inf)", "",
      "input of softmax for a query and a key; undefined if the key is masked"}}};
constexpr std::array<Definition, 1> kQueryColumns = {
    {{"value", "", "(-inf, inf)", "", "element of the query vector of a token, after rotary positions"}}};
constexpr std::array<Definition, 1> kKeyColumns = {
    {{"value", "", "(-inf, inf)", "", "element of the key vector of a token, after rotary positions"}}};
constexpr std::array<Definition, 1> kValueColumns = {
    {{"value", "", "(-inf, inf)", "", "element of the value vector of a token"}}};
constexpr std::array<Definition, 1> kZColumns = {
    {{"value", "", "(-inf, inf)", "",
      "element of z: the sum of the value vectors, weighted by the pattern of the query"}}};
constexpr std::array<Definition, 1> kOutputColumns = {
    {{"value", "", "(-inf, inf)", "",
      "element of the attention output of a layer, with b_O, before the residual"}}};
constexpr std::array<Definition, 5> kLogitColumns = {
    {{"token", "", "", "", "token of the vocabulary"},
     {"id", "", "from 0", "", "number of the token in the vocabulary"},
     {"logit", "", "(-inf, inf)", "", "logit of the token of the vocabulary at the position"},
     {"rank", "", "from 1", "", "place of the token by descending probability"},
     {"probability", "", "[0, 1]", "1 / vocabulary for even logits",
      "softmax of the logits at the position"}}};
constexpr std::array<Definition, 6> kAttentionFromColumns = {
    {{"query", "", "from 0", "", "position of the query, or of the first piece of the word of --from"},
     {"query_token", "", "", "", "the token of the query, or the first piece of the word of --from"},
     {"kind", "", "top or to", "", "top: a key, keys with larger weights first; to: a word of --to"},
     {"key", "", "from 0", "", "position of the key, or of the first token of the word of --to"},
     {"token", "", "", "", "the token of the key, or the word of --to"},
     {"weight", "", "[0, 1]; norm: [0, inf)", "top: 1 / keys for even weights; to: pieces of the word / keys",
      "mean over the pieces of the query word, sum over those of a word of --to", "Clark et al. 2019"}}};

std::uint64_t values_of_patterns(const RunResults& run) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t count = 0;
  for (const InputArray& array : run.arrays) {
    const Shape& shape = array.array.shape;
    const forward::Selection& selection = run.components[array.component].selection;
    std::uint64_t records = selection.heads.size();
    std::uint64_t fields = array.what == Captured::pattern ? 7 : has_kv_heads(array.what) ? 9 : 8;
    if (has_kv_heads(array.what) || array.what == Captured::output) records = selection.layers().size();
    if (array.what == Captured::logits) {
      constexpr std::uint64_t kPredictionColumns = 6;
      const std::size_t positions = predicted_positions(run, run.shown.sequences[array.sequence]).size();
      records = 1;
      fields += kPredictionColumns * positions * std::min(most_predicted(run.request), shape.back());
    }
    count = saturating_sum(count, checked_product(shape).value_or(kMost), records * fields);
  }
  for (const analysis::AttentionQuestion& question : run.questions) {
    const std::uint64_t keys = std::min(question.top, run.sides(question.sequence).keys());
    const std::uint64_t fields = 8 + question.from.size() + 3 * keys + 2 * question.to.size();
    count = saturating_sum(count, run.selection.heads.size() * fields);
  }
  return count;
}

void add_patterns(Results& results, const RunResults& run) {
  if (!run.request.includes.has("patterns")) return;
  const Form form = run.request.form;
  if (form == Form::document) results.document.sections.push_back(patterns_section(run));
  if (form == Form::tables) results.tables.push_back(array_table(run, Captured::pattern));
  if (form == Form::text) append_patterns(results.text, run);
  if (form == Form::pictures) results.pictures.push_back({"patterns", pattern_page(run)});
  if (form == Form::page) results.attention = attention_of(run);
}

void add_answers(Results& results, const RunResults& run) {
  if (run.questions.empty()) return;
  const Form form = run.request.form;
  if (form == Form::document) results.document.sections.push_back(attention_from_section(run));
  if (has_tables(form)) results.tables.push_back(attention_from_table(run));
  if (form == Form::text) {
    for (std::size_t i = 0; i < run.questions.size(); ++i) append_answers(results.text, run, i);
  }
  if (has_pictures(form)) results.pictures.push_back({"attention_from", answers_page(run)});
}

void add_captured(Results& results, const RunResults& run) {
  const Form form = run.request.form;
  std::vector<PredictedTokens> predictions;
  std::set<Captured> captured;
  for (const InputArray& array : run.arrays) {
    if (array.what != Captured::pattern) captured.insert(array.what);
    if (array.what == Captured::logits)
      std::ranges::move(predictions_of(run, array), std::back_inserter(predictions));
  }
  if (form == Form::document && !captured.empty())
    results.document.sections.push_back({"arrays", "array", array_records(run)});
  if (form == Form::tables) {
    for (const Captured what : captured) results.tables.push_back(array_table(run, what));
  }
  if (form == Form::text) {
    for (const PredictedTokens& each : predictions) results.text.emplace_back(predictions_text(run, each));
  } else if (captured.contains(Captured::logits)) {
    results.add_table("prediction", predictions_table(run, predictions));
  }
}

}  // namespace attnctl::inspect
