#include "cli/result_writer.hpp"

#include <atomic>
#include <variant>

#include <fmt/format.h>

#include "report/text.hpp"
#include "report/writers.hpp"
#include "results/results.hpp"

namespace attnctl::cli {
namespace {

Section& warnings_of(Document& document, const Session& session) {
  if (document.sections.empty() || document.sections.back().name != "warnings")
    document.sections.push_back(warnings_section(session.warnings));
  return document.sections.back();
}

}  // namespace

void warn_non_finite(Warnings& warnings, std::string_view where, std::uint64_t count) {
  if (count == 0) return;
  warnings.add(
      "non_finite_result",
      fmt::format("{}: a number is NaN or infinite (null in JSON, empty in CSV, \"-\" in text)", where),
      count);
}

ResultWriter::ResultWriter(const Target& target, const OutputOptions& options, Session& session)
    : target_(target), options_(options), session_(session) {
  if (target.is_folder()) {
    folder_.emplace(target.path);
  } else {
    out_.emplace(target.path);
  }
}

void ResultWriter::write_table(OutputFile& out, const Table& table) {
  report::WriteOptions write{
      .number = {options_.digits}, .pool = &session_.pool, .separator = target_.format.separator};
  if (session_.options.strict && !out.seekable()) {
    warn_non_finite(session_.warnings, table.name, count_non_finite(table));
    check_before_commit(session_);
    report::write_csv_table(out, table, write);
    return;
  }
  std::atomic<std::uint64_t> count = 0;
  write.non_finite = &count;
  report::write_csv_table(out, table, write);
  warn_non_finite(session_.warnings, table.name, count);
}

void ResultWriter::write_tables(const Results& results) {
  if (out_) return write_table(*out_, table_named(results, target_.table));
  for (const Table& table : results.tables)
    write_table(folder_->open(fmt::format("{}{}", table.name, target_.format.extension)), table);
}

void ResultWriter::write_document(Document document) {
  Section& warnings = warnings_of(document, session_);
  Warnings found;
  for (const auto& [name, value] : document.head.fields)
    warn_non_finite(found, name, count_non_finite(value));
  for (const Section& section : document.sections)
    warn_non_finite(found, section.name, count_non_finite(section.items));
  for (const Warning& warning : found.list()) {
    session_.warnings.add(warning.code, warning.message, warning.count);
    std::get<List>(warnings.items.data).emplace_back(warning_record(warning));
  }
  check_before_commit(session_);
  report::write_json(*out_, document,
                     {.number = {options_.digits}, .pool = &session_.pool, .layout = target_.format.layout});
}

void ResultWriter::write_text(const Results& results) {
  std::atomic<std::uint64_t> count = 0;
  report::TextOptions style = text_style(target_);
  style.non_finite = &count;
  style.digits = options_.digits;
  const std::string page = report::text_page(results.text, style);
  warn_non_finite(session_.warnings, "results", count);
  check_before_commit(session_);
  out_->write(page);
}

void ResultWriter::write_view(const View& view) {
  if (const auto* const charts = std::get_if<ChartPage>(&view.page)) {
    warn_non_finite(session_.warnings, charts->title, count_non_finite(charts->table));
  } else {
    for (const Heatmap& heatmap : std::get<HeatmapPage>(view.page).heatmaps)
      warn_non_finite(session_.warnings, heatmap.title, count_non_finite(heatmap.values));
  }
  check_before_commit(session_);
  std::visit([&](const auto& page) { report::write_svg(*out_, page); }, view.page);
}

void ResultWriter::write(std::string_view schema, Results results) {
  auto& fields = results.document.head.fields;
  fields.insert(fields.begin(), {{"schema", std::string(schema)}, {"attnctl", tool_record(session_)}});
  write(results);
}

void ResultWriter::write(const Results& results) {
  switch (target_.format.form) {
    case inspect::Form::document:
      write_document(results.document);
      break;
    case inspect::Form::tables:
      write_tables(results);
      break;
    case inspect::Form::arrays:
      break;  // the commands that write arrays write them during the computation
    case inspect::Form::pictures:
      write_view(view_named(results, options_.picture));
      break;
    case inspect::Form::text:
      write_text(results);
      break;
  }
  check_before_commit(session_);
  out_ ? out_->commit() : folder_->commit();
}

}  // namespace attnctl::cli
