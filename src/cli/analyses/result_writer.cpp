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
#include "report/csv.hpp"
#include "report/json/json.hpp"
#include "report/svg/chart.hpp"
#include "report/svg/svg.hpp"

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
    for (const Table& table : tables) folder_->add(table, options);
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
  write_csv_table(*out_, *table, options);
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
    case Format::jsonl: {
      const Document document = analysis_document(results, session_);
      target_.format == Format::json ? write_json(*out_, document, options)
                                     : write_jsonl(*out_, document, options);
      break;
    }
    case Format::text:
      out_->write(summary_text(results, request_.output, text_style(target_)));
      break;
    case Format::svg:
      if (const ChartPage* page = chart_page(results)) {
        write_svg(*out_, page->title, page->table, page->charts);
      } else {
        write_svg(*out_, heatmap_page(results));
      }
      break;
    case Format::npz:
      break;  // streamed during the pass
  }
  check_before_commit(session_);
  out_->commit();
}

}  // namespace attnctl::cli
