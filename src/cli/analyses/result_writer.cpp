#include "cli/analyses/result_writer.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "cli/analyses/document.hpp"
#include "cli/analyses/pictures.hpp"
#include "cli/analyses/summary.hpp"
#include "cli/analyses/tables.hpp"
#include "cli/write_results.hpp"
#include "report/csv.hpp"

namespace attnctl::cli {

ResultWriter::ResultWriter(const Target& target, const AnalysisRequest& request, Session& session)
    : target_(target), request_(request), session_(session) {
  if (target.format == Format::csv && target.table.empty()) {
    folder_.emplace(target.path);
  } else {
    out_.emplace(target.path);
  }
}

void ResultWriter::write_csv(const Results& results) {
  const WriteOptions options{.number = {request_.output.digits}, .pool = &session_.pool};
  const std::vector<Table> tables = analysis_tables(results);
  if (folder_) {
    for (const Table& table : tables) write_table(folder_->open(table.name), table, options, session_);
    check_before_commit(session_);
    folder_->commit();
    return;
  }
  const auto table = std::find_if(tables.begin(), tables.end(),
                                  [&](const Table& each) { return each.name == target_.table; });
  if (table == tables.end()) {
    std::string names;
    for (const Table& each : tables) names += (names.empty() ? "" : ", ") + each.name;
    fail(Status::usage, "--table: unsupported \"{}\"; this run has {}", escaped(target_.table), names);
  }
  write_table(*out_, *table, options, session_);
  check_before_commit(session_);
  out_->commit();
}

void ResultWriter::write(const Results& results) {
  const WriteOptions options{.number = {request_.output.digits}, .pool = &session_.pool};
  switch (target_.format) {
    case Format::csv:
      write_csv(results);
      return;
    case Format::json:
    case Format::jsonl:
      write_document(*out_, analysis_document(results, session_), target_.format, options, session_);
      break;
    case Format::text:
      write_text(*out_, target_, session_,
                 [&](const TextOptions& style) { return summary_text(results, request_.output, style); });
      break;
    case Format::svg:
      if (const ChartPage* page = chart_page(results)) {
        write_picture(*out_, page->title, page->table, page->charts, session_);
      } else {
        write_picture(*out_, heatmap_page(results), session_);
      }
      break;
    case Format::npz:
      break;  // streamed during the pass
  }
  check_before_commit(session_);
  out_->commit();
}

}  // namespace attnctl::cli
