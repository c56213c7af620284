#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/files/output_file.hpp"
#include "base/text.hpp"
#include "checkpoint/source.hpp"
#include "cli/commands.hpp"
#include "cli/options/options.hpp"
#include "cli/options/study_options.hpp"
#include "cli/options/target.hpp"
#include "cli/result_writer.hpp"
#include "cli/session.hpp"
#include "linalg/blas.hpp"
#include "results/results.hpp"
#include "study/corpus.hpp"
#include "study/run_study.hpp"
#include "study/state/study_state.hpp"

namespace attnctl::cli {
namespace {

/// Output formats of `study` and `merge`.
const std::vector<std::string> kFormats = {"json", "jsonl", "csv", "svg", "text"};

/// Returns the target of the results of `study` and `merge`.
Target study_target(const OutputOptions& options, const std::vector<std::filesystem::path>& inputs,
                    std::vector<OutputPath> states) {
  return resolve_target(options, {Format::json, Format::jsonl, Format::csv, Format::svg, Format::text},
                        inputs, std::move(states));
}

/// Returns the results of a study, with the head of its document.
Results finished_study(const StudyState& state, Session& session) {
  Record tool;
  tool.set("version", version_number()).set("blas", blas_name()).set("kernel", kernel_names(state));
  Results results;
  results.document.head.set("schema", "attnctl.study/1").set("attnctl", std::move(tool));
  results.append(study_results(state, session.pool));
  return results;
}

/// Adds the options for the results of `study` and `merge`, and for their workers.
void add_result_options(Command& command, OutputOptions& output, RunOptions& run) {
  add_document_options(command, output, kFormats);
  add_table_option(command, output, "With csv: write only this table, as one file");
  add_worker_options(command, run);
}

struct StudyOptions {
  StudyScope scope;
  OutputOptions output;
  RunOptions run;
  std::string shard;
  std::optional<std::string> state, checkpoint;
  double checkpoint_every = 60;
};

Shard parse_shard(const std::string& text) {
  if (text.empty()) return {};
  const std::size_t slash = text.find('/');
  const auto index = parse_number(std::string_view(text).substr(0, slash));
  const auto count =
      slash == std::string::npos ? std::nullopt : parse_number(std::string_view(text).substr(slash + 1));
  if (!index || !count || *index == 0 || *index > *count)
    fail(Status::usage, "--shard: got \"{}\", need I/N with I from 1 to N, such as 2/7", escaped(text));
  return {*index - 1, *count};
}

/// One run of `study`. The constructor resolves and checks all options.
class StudyCommand {
 public:
  explicit StudyCommand(const StudyOptions& options);
  void run();

 private:
  [[nodiscard]] std::optional<StudyState> open_checkpoint() const;

  const StudyOptions& options_;
  Shard shard_;
  Session session_;
  OpenStudy study_;
  std::optional<Target> target_;  // nullopt for a shard
};

void check_options(const StudyOptions& options, const Shard& shard) {
  require_study_scope(options.scope);
  if (reads_standard_input(options.scope) && (shard.count > 1 || options.state || options.checkpoint))
    fail(Status::usage, "--input -: --shard, --state and --checkpoint need files, which can be read again");
  if (shard.count > 1 && !options.state && !options.checkpoint)
    fail(Status::usage, "--shard: needs --state FILE, the input of attnctl merge");
  if (shard.count > 1 && (!options.output.path.empty() || !options.output.format.empty()))
    fail(Status::usage, "--shard writes a state and no results; give -o and --format to attnctl merge");
}

StudyCommand::StudyCommand(const StudyOptions& options)
    : options_(options),
      shard_(parse_shard(options.shard)),
      session_(options.run),
      study_((check_options(options, shard_), open_study(options.scope, session_.warnings))) {
  std::vector<OutputPath> states;
  if (options.state) states.push_back({"--state", *options.state});
  if (options.checkpoint && options.checkpoint != options.state)
    states.push_back({"--checkpoint", *options.checkpoint});
  if (shard_.count == 1) {
    target_ = study_target(options.output, files_read(options.scope), std::move(states));
  } else {
    check_outputs(states, files_read(options.scope));
  }
}

/// Returns the state in --checkpoint; nullopt if the file does not exist. Throws Error if the file cannot be
/// read, or if it cannot be written later.
std::optional<StudyState> StudyCommand::open_checkpoint() const {
  if (!options_.checkpoint) return std::nullopt;
  std::optional<StudyState> state;
  if (std::filesystem::exists(*options_.checkpoint)) state = StudyState::read(*options_.checkpoint);
  const OutputFile writable(*options_.checkpoint);
  return state;
}

void StudyCommand::run() {
  std::optional<ResultWriter> output;
  if (target_) output.emplace(*target_, options_.output, session_);
  std::optional<OutputFile> state_file;
  if (options_.state) state_file.emplace(*options_.state);
  std::optional<StudyState> resumed = open_checkpoint();
  const StudySettings& settings = study_.settings;
  const StudyInput input = study_.input();
  StudyBeginning beginning = begin_study(input, session_.pool, session_.progress);
  if (resumed)
    require_same_study(resumed->header().identity, escaped(*options_.checkpoint), beginning.header.identity,
                       "this command");
  StudyState state = resumed ? std::move(*resumed) : StudyState(std::move(beginning.header));
  Warnings ignored;  // random_twins() repeats the warnings of open_model()
  const std::vector<Model> null_models =
      random_twins(input.model, settings.null_models, settings.seed, ignored);
  session_.progress.begin("study", corpus_bytes(settings.corpus));
  run_study({.input = input,
             .pool = session_.pool,
             .progress = session_.progress,
             .null_models = null_models,
             .frequencies = beginning.frequencies ? &*beginning.frequencies : nullptr,
             .shard = shard_,
             .checkpoint = options_.checkpoint,
             .checkpoint_seconds = options_.checkpoint_every},
            state);
  session_.progress.end();
  if (state_file) state.write(*state_file);
  if (output) output->write(finished_study(state, session_));
  for (const Warning& warning : state.warnings())
    session_.warnings.add(warning.code, warning.message, warning.count);
  print_warnings(session_);
}

void add_state_options(Command& command, StudyOptions& options) {
  command.add("Shards and restarts",
              {{"--shard", &options.shard,
                "Compute only blocks I, I + N, I + 2 N, ... (from 1); writes --state and no results", "I/N"},
               {"--state", &options.state, "Write the state of the study to FILE, for attnctl merge", "FILE"},
               {"--checkpoint", &options.checkpoint,
                "Save progress to FILE; if FILE exists, continue from it", "FILE"},
               {.names = "--checkpoint-every",
                .target = &options.checkpoint_every,
                .help = "Seconds between two checkpoints; 0: after every block",
                .type = "SECONDS",
                .show_default = true,
                .range = non_negative()}});
}

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
         "no state has read the whole corpus: {} blocks are done; finish a shard, or give --partial",
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
    session.warnings.add("unlike_kernels",
                         "the states were computed with different BLAS kernels; another division into shards "
                         "may round differently",
                         state.kernels().size());
  }
  print_warnings(session);
}

}  // namespace

Command study_command() {
  Command command{.name = "study", .about = "Measure what every head does, over a corpus"};
  auto options = std::make_shared<StudyOptions>();
  add_study_scope(command, options->scope);
  add_state_options(command, *options);
  add_result_options(command, options->output, options->run);
  command.footer =
      measures_footer() +
      "Examples:\n"
      "  attnctl study data/tiny-bert --input data/tiny-bert/sentences.jsonl --format text\n"
      "  attnctl study data/tiny-llama --input data/tiny-llama/sentences.jsonl --measures metrics | jq "
      "'.heads[0].entropy'\n"
      "  attnctl study data/tiny-llama --input data/tiny-llama/sentences.jsonl --measures probe,roles -o "
      "roles.svg\n"
      "  attnctl study data/tiny-bert --input data/sentences.txt --checkpoint run.state -o study.json\n"
      "  attnctl study data/tiny-bert --input data/sentences.txt --batch-tokens 16 --shard 1/2 --state "
      "1.state";
  command.action = [options] { StudyCommand(*options).run(); };
  return command;
}

Command merge_command() {
  Command command{.name = "merge", .about = "Merge the shards of a study"};
  auto options = std::make_shared<MergeOptions>();
  command.add({{.names = "STATE",
                .target = &options->states,
                .help = "Files written by study --state or --checkpoint",
                .type = "FILE",
                .required = true},
               {"--state", &options->state, "Write the merged state to FILE, to merge it again", "FILE"},
               {"--partial", &options->partial, "Write results even if blocks of the corpus are missing"}});
  add_result_options(command, options->output, options->run);
  command.footer =
      "Examples:\n"
      "  attnctl study data/tiny-bert --input data/sentences.txt --state all.state && attnctl merge "
      "all.state "
      "--format text";
  command.action = [options] { merge(*options); };
  return command;
}

}  // namespace attnctl::cli
