#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "study/state/study_state.hpp"

// The results of a study: the document, tables and text around the results of its measures.

namespace attnctl {
namespace {

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
    for (const Metric& metric : row->metrics) {
      Record record;
      record.set("name", std::string(metric.name))
          .set("measure", std::string(row->name))
          .set("unit", std::string(metric.unit))
          .set("range", std::string(metric.range))
          .set("null", text_cell(metric.null))
          .set("definition", std::string(metric.definition))
          .set("source", std::string(metric.source));
      items.emplace_back(std::move(record));
    }
  }
  return {"metrics", "metric", std::move(items)};
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
  if (!state.complete()) {
    warnings.push_back({"partial", "not all blocks of the corpus were computed",
                        state.blocks().value_or(0) - state.blocks_done()});
  }
  if (state.kernels().size() > 1) {
    warnings.push_back({"unlike_kernels",
                        "shards used different BLAS kernels, which round differently: " + kernel_names(state),
                        state.kernels().size()});
  }
  return warnings;
}

void add_heads(Results& results, const StudyShape& shape, std::vector<ResultRow> fields) {
  fields.resize(shape.heads.size());
  std::vector<ResultRow> rows;
  for (std::size_t h = 0; h < shape.heads.size(); ++h) {
    ResultRow& row = rows.emplace_back();
    row = {{"head", RowHead{h, true}}, {"kv_head", count_cell(shape.heads[h].kv_head)}};
    std::ranges::move(fields[h], std::back_inserter(row));
  }
  add_rows(results, shape, "heads", "head", std::move(rows));
}

Table strongest_table(const StudyResults& results) {
  std::vector<std::vector<Cell>> rows;
  for (const StrongHead& each : results.strongest)
    rows.push_back({each.what, each.head, real_cell(each.value), each.null, count_cell(each.rows)});
  return make_table("strongest", {"what", "head", "value", "null", "rows"}, std::move(rows));
}

}  // namespace

std::string kernel_names(const StudyState& state) {
  return fmt::format("{}", fmt::join(state.kernels(), "+"));
}

Results study_results(const StudyState& state, Pool& pool) {
  StudyResults found = state.finish(pool);
  const StudyHeader& header = state.header();
  Record summary;
  summary.set("blocks", state.blocks_done()).set("of", state.blocks() ? Value(*state.blocks()) : Value());
  summary.set("strongest", strongest_table(found));
  for (const auto& [name, value] : found.summary.fields) summary.set(name, value);

  Results results;
  results.document.head.set("model", model_record_of(header))
      .set("corpus", corpus_record(state))
      .set("settings", settings_record(state))
      .set("summary", std::move(summary));
  results.document.sections = {metrics_section(header)};
  add_heads(results, header.shape, std::move(found.head_fields));
  const CorpusCounts& counts = state.counts();
  results.text.emplace_back(
      TextLine{header.model_path, fmt::format(": {} heads over {} sentences, {} tokens",
                                              header.shape.heads.size(), counts.sentences, counts.tokens)});
  results.picture_hint = "add --measures roles to draw the roles of heads";
  if (!found.strongest.empty()) {
    found.text.emplace_back(
        TextTable{"Strongest heads (null: the value of uniform attention)", strongest_table(found)});
  }
  results.append(std::move(found));
  results.document.sections.push_back(skipped_section(state));
  List warnings;
  for (const Warning& warning : all_warnings(state)) {
    warnings.emplace_back(warning_record(warning));
    results.text.emplace_back(TextLine{"Warning", fmt::format(": {} ({})", warning.message, warning.count)});
  }
  results.document.sections.push_back({"warnings", "warning", std::move(warnings)});
  return results;
}

}  // namespace attnctl
