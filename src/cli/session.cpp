#include "cli/session.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <iterator>
#include <utility>
#include <variant>

#include <fmt/ranges.h>

#include "base/error.hpp"
#include "base/files/input_file.hpp"
#include "base/memory.hpp"
#include "linalg/blas.hpp"
#include "report/page.hpp"
#include "report/text.hpp"
#include "report/writers.hpp"

namespace attnctl::cli {

void write_to_stdout(std::string_view text) {
  OutputFile out("-");
  out.write(text);
  out.commit();
}

Session::Session(const ResourceOptions& run)
    : pool(run.threads == 0 ? available_threads() : run.threads),
      progress(run.progress, run.quiet),
      options(run) {
  if (run.memory != 0) give_back_freed_memory();
  linalg::set_blas_callers(pool.size());
}

Record tool_record(const Session& session) {
  return Record()
      .set("version", ATTNCTL_VERSION)
      .set("blas", linalg::blas_name())
      .set("kernel", linalg::blas_kernel())
      .set("threads", session.pool.size());
}

Section warnings_section(const Warnings& warnings) {
  List items;
  for (const Warning& warning : warnings.list()) items.emplace_back(warning_record(warning));
  return {"warnings", "warning", std::move(items)};
}

void print_warnings(const Session& session) {
  if (session.options.quiet) return;
  for (const Warning& warning : session.warnings.list()) {
    const std::string times = warning.count > 1 ? fmt::format(" ({} times)", warning.count) : "";
    std::fprintf(stderr, "attnctl: warning: %s%s\n", message_line(warning.message).c_str(), times.c_str());
  }
}

void check_before_commit(const Session& session) {
  check_mapped_files();
  if (!session.options.strict) return;
  for (const Warning& warning : session.warnings.list()) {
    if (warning.code.starts_with("non_finite")) fail(Status::non_finite, "{} (--strict)", warning.message);
  }
}

void warn_unused_options(const Target& target, const OutputOptions& options, Warnings& warnings) {
  if (!options.columns.empty() && target.format.form != inspect::Form::text)
    warnings.add("unused_columns", "--columns chooses columns only in text");
  if (options.drawing != report::PictureOptions() && target.format.form != inspect::Form::pictures)
    warnings.add("unused_picture_options",
                 "--title, --font-size, --font-family, --colormap, --width, --vmin and --vmax change only "
                 "svg, png and pdf");
  if (options.page != report::PageOptions() && target.format.form != inspect::Form::page)
    warnings.add("unused_page_options", "--page-top-k and --page-limit change only html");
}

void warn_non_finite(Warnings& warnings, std::string_view where, std::uint64_t count) {
  if (count == 0) return;
  warnings.add(
      "non_finite_result",
      fmt::format("{}: a number is NaN or infinite (null in JSON, empty in CSV, \"-\" in text)", where),
      count);
}

ResultWriter::ResultWriter(const Target& target, const OutputOptions& options, Session& session)
    : target_(target), options_(options), session_(session) {
  warn_unused_options(target, options, session.warnings);
  if (target.is_folder()) {
    folder_.emplace(target.path);
  } else {
    out_.emplace(target.path);
  }
}

void ResultWriter::write_table(OutputFile& out, const Table& table) {
  if (session_.options.strict && !out.seekable()) {
    warn_non_finite(session_.warnings, table.name, count_non_finite(table));
    check_before_commit(session_);
  }
  const std::uint64_t count = report::write_csv_table(
      out, table,
      {.number = {options_.digits}, .pool = &session_.pool, .separator = target_.format.separator});
  warn_non_finite(session_.warnings, table.name, count);
}

void ResultWriter::write_document(Document document) {
  if (document.sections.empty() || document.sections.back().name != "warnings")
    document.sections.push_back(warnings_section(session_.warnings));
  Warnings found;
  for (const auto& [name, value] : document.head.fields)
    warn_non_finite(found, name, count_non_finite(value));
  for (const Section& section : document.sections)
    warn_non_finite(found, section.name, count_non_finite(section.items));
  for (const Warning& warning : found.list()) {
    session_.warnings.add(warning.code, warning.message, warning.count);
    std::get<List>(document.sections.back().items.data).emplace_back(warning_record(warning));
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
  report::PictureOptions drawing = options_.drawing;
  drawing.warnings = &session_.warnings;
  if (const auto* const charts = std::get_if<ChartPage>(&view.page)) {
    warn_non_finite(session_.warnings, charts->title, count_non_finite(charts->table));
    if (!drawing.colormap.empty() || drawing.vmin || drawing.vmax)
      session_.warnings.add("unused_picture_options",
                            "--colormap, --vmin and --vmax change only heatmaps; this picture has charts");
  } else {
    for (const Heatmap& heatmap : std::get<HeatmapPage>(view.page).heatmaps)
      warn_non_finite(session_.warnings, heatmap.title, count_non_finite(heatmap.values));
  }
  check_before_commit(session_);
  std::visit([&](const auto& page) { report::write_picture(*out_, page, target_.format.picture, drawing); },
             view.page);
}

namespace {

/// Returns the words of a command without the options of its output and of the number of threads.
std::vector<std::string> without_output(const std::vector<std::string>& words) {
  constexpr std::string_view kOptions[] = {"-o",           "--output",     "--format",
                                           "--page-top-k", "--page-limit", "--threads"};
  std::vector<std::string> kept = {"attnctl"};
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i].starts_with("-o") && words[i].size() > 2) continue;  // -oFILE
    const std::string name = words[i].substr(0, words[i].find('='));
    if (std::ranges::find(kOptions, name) == std::end(kOptions)) {
      kept.push_back(words[i]);
    } else if (name == words[i]) {
      ++i;  // skips the value also
    }
  }
  return kept;
}

}  // namespace

void ResultWriter::write_page(const Results& results) {
  Warnings& warnings = session_.warnings;
  for (const Table& table : results.tables) warn_non_finite(warnings, table.name, count_non_finite(table));
  for (const Attention& attention : results.attention) {
    warn_non_finite(warnings, "patterns", count_non_finite(attention.patterns));
    warn_non_finite(warnings, "scores", count_non_finite(attention.scores));
    warn_non_finite(warnings, "queries", count_non_finite(attention.query_vectors));
    warn_non_finite(warnings, "keys", count_non_finite(attention.key_vectors));
  }
  check_before_commit(session_);
  report::PageHead head;
  head.command = without_output(options_.command_line);
  head.title =
      results.subtitle.empty() ? fmt::format("{}", fmt::join(head.command, " ")) : results.subtitle[0];
  for (const auto& [name, value] : results.document.head.fields) {
    if (name == "weighting") head.weighting = std::get<std::string>(std::get<Cell>(value.data));
  }
  report::write_page(*out_, results, head, warnings, options_.page, session_.pool);
}

void ResultWriter::write(std::string_view schema, Results results) {
  Record tool = tool_record(session_);
  if (target_.format.form == inspect::Form::page)  // its bytes are the same for any number of threads
    std::erase_if(tool.fields, [](const auto& field) { return field.first == "threads"; });
  auto& fields = results.document.head.fields;
  fields.insert(fields.begin(), {{"schema", std::string(schema)}, {"attnctl", std::move(tool)}});
  write(results);
}

void ResultWriter::write(const Results& results) {
  switch (target_.format.form) {
    case inspect::Form::document:
      write_document(results.document);
      break;
    case inspect::Form::tables:
      if (out_) {
        write_table(*out_, table_named(results, target_.table));
        break;
      }
      for (const Table& table : results.tables)
        write_table(folder_->open(fmt::format("{}{}", table.name, target_.format.extension)), table);
      break;
    case inspect::Form::arrays:
      break;  // the commands that write arrays write them during the computation
    case inspect::Form::pictures:
      write_view(options_.plot.empty() ? view_named(results, options_.picture)
                                       : View{"", heads_page(results, options_.plot)});
      break;
    case inspect::Form::page:
      write_page(results);
      break;
    case inspect::Form::text:
      write_text(results);
      break;
  }
  check_before_commit(session_);
  out_ ? out_->commit() : folder_->commit();
}

}  // namespace attnctl::cli
