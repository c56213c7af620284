#include "cli/commands/study_document.hpp"

#include <map>
#include <utility>

#include "base/error.hpp"
#include "cli/version.hpp"
#include "linalg/blas/blas.hpp"

namespace attnctl::cli {
namespace {

/// "SkylakeX", or "Haswell+SkylakeX" of shards that were computed by unlike ones.
std::string kernel_name(const StudyState& state) {
  std::string names;
  for (const std::string& kernel : state.kernels()) names += (names.empty() ? "" : "+") + kernel;
  return names;
}

Record model_record_of(const StudyHeader& header) {
  Record record = *std::get<std::shared_ptr<const Record>>(header.model.data);
  for (auto& [name, value] : record.fields) {
    if (name == "path") value = header.model_path;
  }
  return record;
}

Record corpus_record(const StudyState& state) {
  const CorpusCounts& counts = state.counts();
  const std::vector<std::string>& files = state.header().files;
  Record record;
  record.set("files", List(files.begin(), files.end()))
      .set("sentences", counts.sentences)
      .set("words", counts.words)
      .set("tokens", counts.tokens)
      .set("skipped", counts.skipped);
  return record;
}

Record settings_record(const StudyState& state) {
  Record record;
  for (const auto& [name, value] : state.header().identity) record.set(name, value);
  return record;
}

Section metrics_section(const StudyHeader& header) {
  List items;
  for (const MeasureRow* const row : header.measures) {
    for (const Metric& metric : row->metrics()) {
      Record record;
      record.set("name", std::string(metric.name))
          .set("measure", std::string(row->name))
          .set("unit", std::string(metric.unit))
          .set("range", std::string(metric.range))
          .set("null", metric.null.empty() ? Value() : Value(std::string(metric.null)))
          .set("definition", std::string(metric.definition))
          .set("source", std::string(metric.source));
      items.emplace_back(std::move(record));
    }
  }
  return {"metrics", "metric", std::move(items)};
}

Section heads_section(const StudyHeader& header, const StudyResults& results) {
  List items;
  for (std::size_t h = 0; h < header.shape.heads.size(); ++h) {
    const StudyHead& head = header.shape.heads[h];
    Record record;
    record.set("head", head.name)
        .set("component", head.component)
        .set("layer", head.layer)
        .set("index", head.id.head)
        .set("kv_head", head.kv_head);
    for (const HeadField& field : results.head_fields) record.set(field.name, field.values.at(h));
    items.emplace_back(std::move(record));
  }
  return {"heads", "head", std::move(items)};
}

Section skipped_section(const StudyState& state) {
  List items;
  for (const auto& [key, message] : state.skipped()) {
    Record record;
    record.set("block", key.first).set("message", message);
    items.emplace_back(std::move(record));
  }
  return {"skipped", "skipped", std::move(items)};
}

std::vector<Warning> all_warnings(const StudyState& state) {
  std::vector<Warning> warnings = state.warnings();
  if (state.counts().skipped > 0)
    warnings.push_back({"skipped", "bad sentences were left out (--skip-bad)", state.counts().skipped});
  if (!state.complete())
    warnings.push_back(
        {"partial", "not all blocks of the corpus are in", state.blocks().value_or(0) - state.blocks_done()});
  if (state.kernels().size() > 1) {
    warnings.push_back(
        {"unlike_kernels",
         "shards were computed by unlike BLAS kernels, which round differently: " + kernel_name(state),
         state.kernels().size()});
  }
  return warnings;
}

Section warnings_section(const StudyState& state) {
  List items;
  for (const Warning& warning : all_warnings(state)) {
    Record record;
    record.set("code", warning.code).set("message", warning.message).set("count", warning.count);
    items.emplace_back(std::move(record));
  }
  return {"warnings", "warning", std::move(items)};
}

Table heads_table(const StudyHeader& header, const StudyResults& results) {
  std::vector<std::string> columns = StudyShape::head_columns();
  columns.emplace_back("kv_head");
  std::vector<std::vector<Cell>> rows;
  for (std::size_t h = 0; h < header.shape.heads.size(); ++h) {
    rows.push_back(header.shape.head_cells(h));
    rows.back().emplace_back(static_cast<std::int64_t>(header.shape.heads[h].kv_head));
  }
  for (const HeadField& field : results.head_fields) {
    for (const auto& [name, cells] : field.columns) {
      columns.push_back(name);
      for (std::size_t h = 0; h < rows.size(); ++h) rows[h].push_back(cells.at(h));
    }
  }
  return make_table("heads", std::move(columns), std::move(rows));
}

Table strongest_table(const StudyResults& results) {
  std::vector<std::vector<Cell>> rows;
  for (const StrongHead& each : results.strongest)
    rows.push_back({each.what, each.head, real_cell(each.value), each.null, count_cell(each.rows)});
  return make_table("strongest", {"what", "head", "value", "null", "rows"}, std::move(rows));
}

}  // namespace

Document study_document(const StudyState& state, const StudyResults& results) {
  Record tool;
  tool.set("version", version_number()).set("blas", blas_name()).set("kernel", kernel_name(state));
  Record summary;
  summary.set("blocks", state.blocks_done()).set("of", state.blocks() ? Value(*state.blocks()) : Value());
  summary.set("strongest", strongest_table(results));
  for (const auto& [name, value] : results.summary.fields) summary.set(name, value);
  Document document;
  document.head.set("schema", "attnctl.study/1")
      .set("attnctl", std::move(tool))
      .set("model", model_record_of(state.header()))
      .set("corpus", corpus_record(state))
      .set("settings", settings_record(state))
      .set("summary", std::move(summary));
  document.sections.push_back(metrics_section(state.header()));
  document.sections.push_back(heads_section(state.header(), results));
  for (const Section& section : results.sections) document.sections.push_back(section);
  document.sections.push_back(skipped_section(state));
  document.sections.push_back(warnings_section(state));
  return document;
}

std::vector<Table> study_tables(const StudyState& state, const StudyResults& results) {
  std::vector<Table> tables = {heads_table(state.header(), results)};
  tables.insert(tables.end(), results.tables.begin(), results.tables.end());
  return tables;
}

std::string study_text(const StudyState& state, const StudyResults& results, const OutputOptions& options,
                       TextOptions style) {
  style.digits = options.digits;
  const StudyHeader& header = state.header();
  const CorpusCounts& counts = state.counts();
  std::string text =
      fmt::format("{}: {} heads over {} sentences, {} tokens\n", strong(escaped(header.model_path), style),
                  header.shape.heads.size(), counts.sentences, counts.tokens);
  std::vector<StudyText> pages = results.texts;
  if (!results.strongest.empty()) {
    pages.push_back({"Strongest heads (null: what even weights would give)", strongest_table(results)});
  }
  for (const StudyText& each : pages) {
    text += "\n" + strong(each.title, style) + "\n";
    append_text_table(text, each.table, style);
  }
  for (const Warning& warning : all_warnings(state))
    text += fmt::format("\n{}: {} ({})\n", strong("Warning", style), escaped(warning.message), warning.count);
  return text;
}

}  // namespace attnctl::cli
