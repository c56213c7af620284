#include "cli/commands/study_output.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "cli/commands/study_document.hpp"
#include "cli/write_results.hpp"

namespace attnctl::cli {

Target study_target(const OutputOptions& options, const std::vector<std::filesystem::path>& inputs) {
  return resolve_target(options, {Format::json, Format::jsonl, Format::csv, Format::svg, Format::text},
                        inputs);
}

StudyOutput::StudyOutput(const Target& target, const OutputOptions& options, Session& session)
    : target_(target), options_(options), session_(session) {
  if (target.format == Format::csv && target.table.empty()) {
    folder_.emplace(target.path);
  } else {
    out_.emplace(target.path);
  }
}

void StudyOutput::write_csv(const StudyState& state, const StudyResults& results) {
  const WriteOptions write{.number = {options_.digits}, .pool = &session_.pool};
  const std::vector<Table> tables = study_tables(state, results);
  if (folder_) {
    for (const Table& table : tables) write_table(folder_->open(table.name), table, write, session_);
    check_before_commit(session_);
    folder_->commit();
    return;
  }
  const auto table = std::ranges::find(tables, target_.table, &Table::name);
  if (table == tables.end()) {
    std::string names;
    for (const Table& each : tables) names += (names.empty() ? "" : ", ") + each.name;
    fail(Status::usage, "--table: unsupported \"{}\"; this run has {}", escaped(target_.table), names);
  }
  write_table(*out_, *table, write, session_);
  check_before_commit(session_);
  out_->commit();
}

void StudyOutput::write(const StudyState& state) {
  const WriteOptions write{.number = {options_.digits}, .pool = &session_.pool};
  const StudyResults results = state.finish(session_.pool);
  switch (target_.format) {
    case Format::csv:
      write_csv(state, results);
      return;
    case Format::text:
      write_text(*out_, target_, session_,
                 [&](const TextOptions& style) { return study_text(state, results, options_, style); });
      break;
    case Format::svg:
      if (!results.page) fail(Status::usage, "--format svg draws the roles of heads: need --measures roles");
      write_picture(*out_, *results.page, session_, results.page_texts);
      break;
    default:
      write_document(*out_, study_document(state, results), target_.format, write, session_);
      break;
  }
  check_before_commit(session_);
  out_->commit();
}

}  // namespace attnctl::cli
