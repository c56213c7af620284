#include "cli/write_results.hpp"

#include <algorithm>
#include <atomic>
#include <iterator>

#include <fmt/format.h>

#include "report/csv.hpp"
#include "report/json/json.hpp"
#include "report/non_finite.hpp"
#include "report/svg/chart.hpp"

namespace attnctl::cli {

void warn_non_finite(Warnings& warnings, std::string_view where, std::uint64_t count) {
  if (count == 0) return;
  warnings.add(
      "non_finite_result",
      fmt::format("{}: a number is NaN or infinite (null in JSON, empty in CSV, \"-\" in text)", where),
      count);
}

void write_document(OutputFile& out, Document document, Format format, WriteOptions options,
                    Session& session) {
  Warnings found;
  for (const auto& [name, value] : document.head.fields)
    warn_non_finite(found, name, count_non_finite(value));
  for (const Section& section : document.sections)
    warn_non_finite(found, section.name, count_non_finite(section.items));
  for (const Warning& warning : found.list())
    session.warnings.add(warning.code, warning.message, warning.count);
  check_before_commit(session);
  std::ranges::move(std::get<List>(warnings_section(found).items.data),
                    std::back_inserter(std::get<List>(document.sections.back().items.data)));
  format == Format::jsonl ? write_jsonl(out, document, options) : write_json(out, document, options);
}

void write_table(OutputFile& out, const Table& table, WriteOptions options, Session& session) {
  if (session.options.strict && !out.seekable()) {
    warn_non_finite(session.warnings, table.name, count_non_finite(table));
    check_before_commit(session);
    write_csv_table(out, table, options);
    return;
  }
  std::atomic<std::uint64_t> count = 0;
  options.non_finite = &count;
  write_csv_table(out, table, options);
  warn_non_finite(session.warnings, table.name, count);
}

void write_text(OutputFile& out, const Target& target, Session& session,
                const std::function<std::string(const TextOptions& style)>& make) {
  std::atomic<std::uint64_t> count = 0;
  TextOptions style = text_style(target);
  style.non_finite = &count;
  const std::string text = make(style);
  warn_non_finite(session.warnings, "results", count);
  check_before_commit(session);
  out.write(text);
}

void write_picture(OutputFile& out, const HeatmapPage& page, Session& session,
                   std::span<const std::string> texts) {
  for (const Heatmap& heatmap : page.heatmaps)
    warn_non_finite(session.warnings, heatmap.title, count_non_finite(heatmap.values));
  check_before_commit(session);
  write_svg(out, page, texts);
}

void write_picture(OutputFile& out, const std::string& title, const Table& table,
                   std::span<const Chart> charts, Session& session) {
  warn_non_finite(session.warnings, title, count_non_finite(table));
  check_before_commit(session);
  write_svg(out, title, table, charts);
}

}  // namespace attnctl::cli
