#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/error.hpp"
#include "base/files/output_file.hpp"
#include "cli/commands.hpp"
#include "cli/commands/study.hpp"
#include "cli/options/options.hpp"
#include "cli/result_writer.hpp"
#include "cli/session.hpp"
#include "study/state/study_state.hpp"

namespace attnctl::cli {
namespace {

struct MergeOptions {
  std::vector<std::string> states;
  std::string state;  // --state
  bool partial = false;
  OutputOptions output;
  RunOptions run;
};

void check_complete(const StudyState& state, bool partial) {
  if (state.complete() || partial) return;
  if (!state.blocks()) {
    fail(Status::bad_input,
         "no state has read the corpus to its end: {} blocks are in; finish a shard, or give --partial",
         state.blocks_done());
  }
  std::string missing;
  for (const std::uint64_t block : state.missing(5))
    missing += (missing.empty() ? "" : ", ") + std::to_string(block);
  fail(Status::bad_input,
       "{} of {} blocks are missing (the first: {}); give the states that have them, or --partial",
       *state.blocks() - state.blocks_done(), *state.blocks(), missing);
}

void merge(const MergeOptions& options) {
  std::vector<OutputPath> states;
  if (!options.state.empty()) states.push_back({"--state", options.state});
  const Target target =
      study_target(options.output, {options.states.begin(), options.states.end()}, std::move(states));
  Session session(options.run);
  ResultWriter output(target, options.output, session);
  std::optional<OutputFile> state_file;
  if (!options.state.empty()) state_file.emplace(options.state);
  StudyState state = StudyState::read(options.states.front());
  for (std::size_t i = 1; i < options.states.size(); ++i) {
    state.merge(StudyState::read(options.states[i]), escaped(options.states.front()),
                escaped(options.states[i]));
  }
  check_complete(state, options.partial);
  if (state_file) state.write(*state_file);
  output.write(finished_study(state, session));
  if (state.kernels().size() > 1) {
    session.warnings.add(
        "unlike_kernels",
        "the states were computed by unlike BLAS kernels: another split may round differently",
        state.kernels().size());
  }
  print_warnings(session);
}

}  // namespace

void add_merge(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("merge", "Join the shards of a study");
  auto options = std::make_shared<MergeOptions>();
  command->add_option("STATE", options->states, "files that study --state or --checkpoint wrote")
      ->required()
      ->type_name("FILE");
  command->add_option("--state", options->state, "FILE for what they come to, to be merged again")
      ->type_name("FILE");
  command->add_flag("--partial", options->partial, "results though blocks of the corpus are missing");
  add_document_options(*command, options->output, study_formats);
  command->add_option("--table", options->output.table, "with csv: this table alone, as one file")
      ->type_name("NAME")
      ->group("Output");
  add_worker_options(*command, options->run);
  command->footer(
      "Examples:\n"
      "  attnctl study data/tiny-bert --input data/sentences.txt --state all.state && attnctl merge "
      "all.state "
      "--format text");
  command->callback([&action, options] { action = [options] { merge(*options); }; });
}

}  // namespace attnctl::cli
