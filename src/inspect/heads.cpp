#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "analysis/heads_table.hpp"
#include "inspect/describe.hpp"
#include "inspect/inspection.hpp"

// Output of the inputs and of the heads table.
namespace attnctl::inspect {
namespace {

Section inputs_section(const input::Batch& batch) {
  List items;
  for (const input::Sequence& sequence : batch.sequences) {
    Record record;
    record.set("id", sequence.id);
    if (sequence.text) record.set("text", *sequence.text);
    if (sequence.text_pair) record.set("text_pair", *sequence.text_pair);
    if (sequence.units > 0) record.set("unit", "word");
    if (!sequence.tokens.empty()) record.set("tokens", sequence.tokens);
    if (!sequence.ids.empty()) record.set("ids", make_tensor({sequence.ids.size()}, sequence.ids));
    List offsets;
    for (const tokenizer::TextRange& range : sequence.offsets)
      offsets.emplace_back(List{range.begin, range.end});
    if (!offsets.empty()) {
      record.set("offsets", std::move(offsets)).set("words", sequence.words);
      if (!sequence.text_index.empty()) record.set("sequence_ids", sequence.text_index);
    }
    record.set("length", sequence.queries());
    if (const input::Sequence* const target = sequence.target.get()) {
      if (target->text) record.set("target_text", *target->text);
      if (!target->tokens.empty()) record.set("target_tokens", target->tokens);
      if (!target->ids.empty()) record.set("target_ids", make_tensor({target->ids.size()}, target->ids));
      record.set("target_length", target->queries());
    }
    if (sequence.truncated > 0) record.set("truncated", sequence.truncated);
    items.emplace_back(std::move(record));
  }
  return {"inputs", "input", std::move(items)};
}

/// Returns a table of tokens. The columns from begin to sequence_id are missing if no input is a text, and
/// `side` is missing without targets.
Table inputs_table(const input::Batch& batch) {
  const bool targets = batch.sequences.front().target != nullptr;
  const bool texts =
      !std::ranges::all_of(batch.sequences, [](const input::Sequence& each) { return each.offsets.empty(); });
  TableRows rows{"inputs", columns_of(kInputColumns, {"input", "position", "token", "id"})};
  const auto append = [&](std::initializer_list<std::string_view> names) {
    for (const Column& column : columns_of(kInputColumns, names)) rows.columns.push_back(column);
  };
  if (texts) append({"begin", "end", "word", "sequence_id"});
  if (targets) append({"side"});
  const auto add = [&](const std::string& id, const input::Sequence& sequence, const char* side) {
    for (std::size_t i = 0; i < sequence.queries(); ++i) {
      std::vector<Cell>& row = rows.add(id, i, token_cell(sequence.tokens, i),
                                        sequence.ids.empty() ? Cell() : Cell(sequence.ids[i]));
      if (texts && sequence.offsets.empty()) row.resize(8);
      if (!sequence.offsets.empty()) {
        const auto [begin, end] = sequence.offsets[i];
        const bool pair = !sequence.text_index.empty();
        add_cells(row, row_of(std::size_t{begin}, std::size_t{end}, sequence.words[i],
                              pair && sequence.text_index[i] ? count_cell(*sequence.text_index[i]) : Cell()));
      }
      if (targets) row.emplace_back(std::string(side));
    }
  };
  for (const input::Sequence& sequence : batch.sequences) {
    add(sequence.id, sequence, "input");
    if (sequence.target) add(sequence.id, *sequence.target, "target");
  }
  return rows.table();
}

Table texts_table(const input::Batch& batch) {
  TableRows rows{"texts", columns_of(kInputColumns, {"input", "kind", "text"})};
  for (const input::Sequence& sequence : batch.sequences) {
    const auto add = [&](const char* kind, const std::optional<std::string>& text) {
      if (text) rows.add(sequence.id, kind, *text);
    };
    add("text", sequence.text);
    add("text_pair", sequence.text_pair);
    if (sequence.target) add("target_text", sequence.target->text);
  }
  return rows.table();
}

TextLine title(const model::Model& model) {
  const model::ModelConfig& config = model.config();
  if (config.d_model == 0) {
    std::size_t heads = 0;
    for (const model::LayerConfig& layer : config.layers) heads += layer.attention.heads;
    return {model.name(), fmt::format(": patterns of {}, {}", counted(config.layers.size(), "layer"),
                                      counted(heads, "head"))};
  }
  const model::AttentionConfig& attention = config.layers.front().attention;
  const std::string shared =
      attention.kv_heads == attention.heads ? "" : fmt::format(" ({} key/value)", attention.kv_heads);
  const std::size_t stacked = config.layers_of(config.layers.front().component);
  const std::string layers =
      config.decoder ? fmt::format("{} + {} layers", stacked, config.layers_of(model::Component::decoder))
                     : counted(stacked, "layer");
  return {model.name(), fmt::format(": {}, {} x {}{}, d_model {}, d_head {}, {}", config.family, layers,
                                    counted(attention.heads, "head"), shared, config.d_model,
                                    attention.d_head, counted(model.parameters(), "parameter"))};
}

void append_inputs(std::vector<PageBlock>& blocks, const RunResults& run) {
  constexpr std::size_t kMostTokens = 64;
  const std::vector<input::Sequence>& sequences = run.shown.sequences;
  const std::size_t most = run.request.draw ? sequences.size() : 3;
  std::size_t tokens = 0;
  for (const input::Sequence& sequence : sequences) tokens += sequence.queries();
  const auto add = [&](const input::Sequence& side, const std::string& name) {
    TextLine line{name + ":"};
    if (side.tokens.empty()) line.plain = " " + counted(side.queries(), "position");
    for (std::size_t i = 0; i < std::min(side.tokens.size(), kMostTokens); ++i)
      line.plain += ' ' + run.vocabulary.label(side.tokens[i], run.request.strip_markers);
    if (side.tokens.size() > kMostTokens) line.plain += fmt::format(" ... ({} tokens)", side.tokens.size());
    blocks.emplace_back(std::move(line));
  };
  blocks.emplace_back(
      TextLine{"", fmt::format("{}, {}", counted(sequences.size(), "input"),
                               counted(tokens, sequences.front().units > 0 ? "word" : "token"))});
  for (std::size_t s = 0; s < std::min(sequences.size(), most); ++s) {
    add(sequences[s], sequences[s].id);
    if (sequences[s].target) add(*sequences[s].target, sequences[s].id + " target");
  }
  if (sequences.size() > most)
    blocks.emplace_back(TextLine{"", fmt::format("... and {} more", sequences.size() - most)});
}

/// Adds the arrays `layers` and `heads` of one component. `heads` has the head numbers if they are equal in
/// all selected layers, otherwise [selected, 2] with the layer and the number of each head.
void add_axes(ArrayOutput& out, const analysis::ComponentHeads& component, const model::ModelConfig& config) {
  const std::vector<model::HeadId>& selected = component.selection.heads;
  const std::string prefix = prefix_of(component.component);
  const analysis::HeadAxes axes(selected);
  const auto number = [](std::size_t n) { return static_cast<std::int64_t>(n); };
  std::vector<std::int64_t> layers;
  for (const std::size_t layer : axes.layers()) layers.push_back(number(config.layers[layer].number));
  out.add(prefix + "layers", make_tensor({layers.size()}, layers));
  std::vector<std::int64_t> heads;
  if (axes.regular()) {
    for (std::size_t i = 0; i < selected.size() / layers.size(); ++i)
      heads.push_back(number(selected[i].head));
    return out.add(prefix + "heads", make_tensor({heads.size()}, heads));
  }
  for (const model::HeadId head : selected)
    heads.insert(heads.end(), {number(config.layers[head.layer].number), number(head.head)});
  out.add(prefix + "heads", make_tensor({selected.size(), 2}, heads));
}

Table table_of(const RunResults& run) {
  return analysis::heads_table({.config = run.config(),
                                .selection = run.request.selection,
                                .weights = run.weights ? &*run.weights : nullptr,
                                .patterns = run.pattern_metrics,
                                .batch = &run.shown});
}

TextTable heads_text(const Table& all, const RunResults& run) {
  const InspectRequest& request = run.request;
  const std::string sort = request.sorts_answers() ? "" : request.sort;
  std::vector<std::string> columns;
  const auto add = [&](std::string_view name) {
    if (std::ranges::find(columns, name) == columns.end()) columns.emplace_back(name);
  };
  if (all.columns.front() == "input") add("input");
  add("name");
  if (!sort.empty()) add(sort);
  if (!request.columns.empty()) {
    std::ranges::for_each(request.columns, add);
  } else if (!run.pattern_metrics.empty()) {
    for (const analysis::RowMetric& metric : analysis::row_metrics()) {
      if (metric.in_text) add(metric.about.name);
    }
    for (const char* const name : {"best_offset", "best_offset_share"}) add(name);
  } else {
    for (const Definition& metric : analysis::metric_definitions())
      if (metric.name.ends_with("_rank")) add(metric.name);
  }
  return {"Heads", text_columns(select_rows(all, sort, request.top.value_or(kTextRows)), columns)};
}

}  // namespace

constexpr std::array<Definition, 8> kInputColumns = {
    {{"id", "", "", "",
      "in CSV: number of the token in the vocabulary; in JSON: id of the input, or its number from 0"},
     {"begin", "", "from 0", "", "first character (code point) of the token in its text"},
     {"end", "", "from 0", "", "character after the token; begin and end of an added special token are 0"},
     {"word", "", "from 0", "", "number of the first word of the token; undefined for special tokens"},
     {"sequence_id", "", "0 or 1", "", "number of the token's text in a pair; undefined for special tokens"},
     {"kind", "", "text, text_pair or target_text", "", "key of the text in JSON"},
     {"text", "", "", "", "a text of the input"},
     {"side", "", "input or target", "", "input: text of the encoder; target: text of the decoder"}}};

void add_selection_arrays(ArrayOutput& out, const RunResults& run) {
  const auto add_ids = [&](const char* name, std::size_t s, const std::vector<std::int64_t>& ids) {
    if (!ids.empty()) out.add(fmt::format("{}_{}", name, s), make_tensor({ids.size()}, ids));
  };
  const std::vector<input::Sequence>& sequences = run.shown.sequences;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    add_ids("ids", s, sequences[s].ids);
    if (sequences[s].target) add_ids("target_ids", s, sequences[s].target->ids);
  }
  for (const analysis::ComponentHeads& component : run.components) add_axes(out, component, run.config());
}

void add_inputs(Results& results, const RunResults& run) {
  const bool text = run.request.form == Form::text;
  if (text) results.text.emplace_back(title(run.model));
  if (run.shown.sequences.empty()) return;
  results.document.sections.push_back(inputs_section(run.shown));
  results.tables.push_back(inputs_table(run.shown));
  if (const Table texts = texts_table(run.shown); texts.rows > 0) results.tables.push_back(texts);
  if (text) append_inputs(results.text, run);
}

std::uint64_t values_of_heads(const RunResults& run) {
  const Includes& includes = run.request.includes;
  const bool metrics = includes.has("metrics");
  if (!metrics && !includes.has("weights") && !includes.has("directions")) return 0;
  const std::uint64_t columns = 6 + analysis::metric_definitions().size();
  const std::uint64_t heads = run.selection.heads.size();
  return metrics && run.request.per_input ? run.shown.sequences.size() * heads * (columns + 1)
                                          : heads * columns;
}

void add_heads(Results& results, const RunResults& run) {
  if (!run.weights && run.pattern_metrics.empty()) return;
  const Table heads = table_of(run);
  results.document.sections.push_back({"metrics", "metric", analysis::metrics_table()});
  results.add_table("head", heads);
  if (run.request.form != Form::text) return;
  TextTable shown = heads_text(heads, run);
  const std::size_t left = heads.rows - shown.table.rows;
  append_heads(results.text, std::move(shown), left);
}

void add_heads_arrays(ArrayOutput& out, const RunResults& run) {
  const Table table = table_of(run);
  const std::vector<model::HeadId>& heads = run.request.selection.heads;
  std::vector<Cell> cells(table.columns.size());
  for (const analysis::ComponentHeads& component : run.components) {
    const analysis::HeadAxes axes(component.selection.heads);
    Shape shape = axes.shape();
    if (table.columns.front() == "input") shape.insert(shape.begin(), table.rows / heads.size());
    for (const Definition& metric : analysis::metric_definitions()) {
      const bool known = !metric.name.ends_with("_rank") ? !run.pattern_metrics.empty()
                         : metric.name.starts_with("ov") ? run.weights && run.weights->ov
                                                         : run.weights.has_value();
      if (!known) continue;
      std::vector<double> values;
      for (std::size_t row = 0; row < table.rows; ++row) {
        if (!axes.place(heads[row % heads.size()])) continue;
        table.row(row, cells);
        values.push_back(number_of(cells[*table.find(metric.name)]));
      }
      out.add(prefix_of(component.component) + std::string(metric.name), float_array(shape, values));
    }
  }
}

void append_heads(std::vector<PageBlock>& blocks, TextTable table, std::size_t left,
                  const std::string& advice) {
  const char* const what = table.table.columns.front() == "input" ? "more row" : "more head";
  blocks.emplace_back(std::move(table));
  if (left > 0) blocks.emplace_back(TextLine{"", counted(left, what) + ": --top all" + advice});
}

}  // namespace attnctl::inspect
