#include "study/plan.hpp"

#include <chrono>
#include <memory>
#include <string>

#include "cli/commands.hpp"
#include "cli/options/options.hpp"
#include "cli/options/study_options.hpp"
#include "cli/options/target.hpp"
#include "cli/result_writer.hpp"
#include "cli/session.hpp"
#include "results/results.hpp"

namespace attnctl::cli {
namespace {

struct PlanOptions {
  StudyScope scope;
  OutputOptions output;
  RunOptions run;
  PlanRequest request;
};

void plan(const PlanOptions& options) {
  require_study_scope(options.scope);
  OutputOptions output = options.output;
  const bool csv = output.format == "csv" || output.path.ends_with(".csv");
  if (csv && output.table.empty()) output.table = "shards";
  const Target target = resolve_target(output, {Format::text, Format::json, Format::jsonl, Format::csv},
                                       files_read(options.scope));
  PlanRequest request = options.request;
  request.begin = std::chrono::steady_clock::now();
  Session session(options.run);
  OpenStudy study = open_study(options.scope, session.warnings);
  ResultWriter writer(target, options.output, session);
  Results results;
  results.document.head.set("schema", "attnctl.plan/1").set("attnctl", tool_record(session));
  results.append(plan_study(study.input(), request, session.pool, session.progress));
  writer.write(results);
  print_warnings(session);
}

}  // namespace

Command plan_command() {
  Command command{.name = "plan", .about = "Predict the time and memory of a study on several nodes"};
  auto options = std::make_shared<PlanOptions>();
  add_study_scope(command, options->scope);
  command.add("Nodes",
              {{.names = "--nodes",
                .target = &options->request.nodes,
                .help = "Number of nodes, with one shard each",
                .type = "N",
                .show_default = true,
                .range = Range{1, 1'000'000}},
               number("--seconds", &options->request.seconds,
                      "Approximate measuring time after the corpus is read, in seconds", positive())});
  add_document_options(command, options->output, {"json", "jsonl", "csv", "text"});
  add_table_option(command, options->output,
                   "With csv: write this table: shards (default), choices or trials");
  add_worker_options(command, options->run);
  command.footer =
      "--threads is the number of threads per node. The measurement uses at most the cores of this machine.\n"
      "Examples:\n"
      "  attnctl plan data/tiny-bert --input data/sentences.txt --batch-tokens 16 --nodes 2 --seconds 1 "
      "--format text\n"
      "  attnctl plan data/tiny-llama --input data/sentences.txt --measures metrics --nodes 4 --threads 1 "
      "--seconds 1 | jq '.summary.seconds'";
  command.action = [options] { plan(*options); };
  return command;
}

}  // namespace attnctl::cli
