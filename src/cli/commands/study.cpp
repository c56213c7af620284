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
#include "linalg/blas/blas.hpp"
#include "results/results.hpp"
#include "study/corpus/random_twin.hpp"
#include "study/run_study.hpp"
#include "study/state/study_state.hpp"
#include "study/study_results.hpp"

namespace attnctl::cli {
namespace {

constexpr const char* kStateFormat = "attnctl.study.state/3";

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
  add_table_option(command, output, "with csv: this table alone, as one file");
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
  /// The header and the token frequencies, computed before the first block.
  struct Beginning {
    StudyHeader header;
    std::optional<TokenFrequencies> frequencies;
  };

  [[nodiscard]] StudyIdentity identity(Pool& pool) const;
  [[nodiscard]] std::string corpus_identity(Pool& pool) const;
  [[nodiscard]] StudyHeader header(Pool& pool) const;
  [[nodiscard]] Beginning prepare();
  [[nodiscard]] std::optional<StudyState> open_checkpoint() const;
  [[nodiscard]] bool needs_frequencies() const {
    return std::ranges::any_of(measures_, &MeasureRow::needs_frequencies);
  }
  [[nodiscard]] TokenFrequencies frequencies();
  [[nodiscard]] std::uint64_t corpus_bytes() const;

  const StudyOptions& options_;
  const StudyScope& scope_;
  Shard shard_;
  Session session_;
  std::vector<const MeasureRow*> measures_;
  std::optional<Target> target_;  // nullopt for a shard
  OpenModel open_;
  Selection selection_;
  CorpusOptions corpus_;
};

void check_options(const StudyOptions& options, const Shard& shard) {
  require_study_scope(options.scope);
  if (reads_standard_input(options.scope) && (shard.count > 1 || options.state || options.checkpoint))
    fail(Status::usage, "--input -: --shard, --state and --checkpoint need files, which can be read again");
  if (shard.count > 1 && !options.state && !options.checkpoint)
    fail(Status::usage, "--shard: need --state FILE to write to, which attnctl merge then joins");
  if (shard.count > 1 && (!options.output.path.empty() || !options.output.format.empty()))
    fail(Status::usage, "--shard writes a state and no results: leave -o and --format to attnctl merge");
}

StudyCommand::StudyCommand(const StudyOptions& options)
    : options_(options),
      scope_(options.scope),
      shard_(parse_shard(options.shard)),
      session_(options.run),
      measures_((check_options(options, shard_), study_measures(scope_, session_.warnings))),
      open_(open_model(scope_.model, session_.warnings)),
      selection_(select_heads(scope_.selection, open_.model.config(), false)),
      corpus_(corpus_options(scope_, measures_)) {
  if (scope_.measures.empty())
    measures_ = within_limit(measures_, selection_.heads.size(), session_.warnings);
  std::vector<OutputPath> states;
  if (options.state) states.push_back({"--state", *options.state});
  if (options.checkpoint && options.checkpoint != options.state)
    states.push_back({"--checkpoint", *options.checkpoint});
  if (shard_.count == 1) {
    target_ = study_target(options.output, files_read(scope_), std::move(states));
  } else {
    check_outputs(states, files_read(scope_));
  }
}

/// Returns the size of all corpus files in bytes. Standard input counts as 0.
std::uint64_t StudyCommand::corpus_bytes() const {
  std::uint64_t bytes = 0;
  for (const CorpusFile& file : corpus_.files)
    bytes += file.path == "-" ? 0 : std::filesystem::file_size(file.path);
  return bytes;
}

/// Identifies the corpus by the size and the hash of each file, independent of its path.
std::string StudyCommand::corpus_identity(Pool& pool) const {
  std::string text;
  for (const CorpusFile& file : corpus_.files) {
    if (file.path == "-") return "standard input";
    const std::uint64_t hash = file_hash(file.path, pool);
    text += fmt::format("{}{} bytes {}", text.empty() ? "" : ", ", std::filesystem::file_size(file.path),
                        hash_text(hash));
  }
  return text;
}

StudyIdentity StudyCommand::identity(Pool& pool) const {
  const auto or_none = [](const std::optional<std::size_t>& number) {
    return number ? std::to_string(*number) : std::string("none");
  };
  std::string heads;
  for (const HeadId head : selection_.heads)
    heads += (heads.empty() ? "" : ",") + head_name(open_.model.config(), head);
  std::string measures;
  for (const MeasureRow* const row : measures_)
    measures += fmt::format("{}{}/{}", measures.empty() ? "" : ",", row->name, row->version);
  std::string frequencies = needs_frequencies() ? "of the corpus" : "none";
  if (scope_.frequencies) frequencies = hash_text(file_hash(*scope_.frequencies, pool));
  return {{"state", kStateFormat},
          {"config", hash_text(content_hash(open_.model.source().config_text))},
          {"weights", hash_text(weights_hash(open_.model, pool))},
          {"heads", heads},
          {"measures", measures},
          {"corpus", corpus_identity(pool)},
          {"batch_tokens", std::to_string(scope_.batch_tokens)},
          {"max_length", or_none(scope_.max_length)},
          {"stride", or_none(scope_.stride)},
          {"seed", std::to_string(scope_.seed)},
          {"skip_bad", scope_.skip_bad ? "true" : "false"},
          {"fold_subtypes", scope_.fold_subtypes ? "true" : "false"},
          {"null_model", std::to_string(scope_.null_models)},
          {"null_shuffle", std::to_string(scope_.null_shuffles)},
          {"frequencies", frequencies}};
}

StudyHeader StudyCommand::header(Pool& pool) const {
  StudyHeader header =
      study_header(scope_, measures_, shape_of(selection_, open_.model.config(), scope_.seed));
  header.identity = identity(pool);
  header.model = model_record(open_.model);
  header.model_path = open_.model.name();
  for (const CorpusFile& file : corpus_.files) header.files.push_back(file.path.string());
  return header;
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

/// Returns the frequencies of --frequencies, or counts those of the corpus.
TokenFrequencies StudyCommand::frequencies() {
  if (scope_.frequencies) {
    const std::size_t ids = open_.model.config().embedding.vocabulary;
    return read_frequencies(*scope_.frequencies, open_.vocabulary, ids);
  }
  session_.progress.begin("frequencies", corpus_bytes());
  TokenFrequencies counted = count_tokens({.model = open_.model,
                                           .vocabulary = open_.vocabulary,
                                           .encoder = open_.encoder,
                                           .corpus = corpus_,
                                           .progress = session_.progress});
  session_.progress.end();
  return counted;
}

/// Prepares the run. One worker hashes and loads the weights while another reads the corpus.
StudyCommand::Beginning StudyCommand::prepare() {
  Beginning beginning;
  session_.pool.run(2, [&](std::size_t task, std::size_t /*worker*/) {
    if (task == 0) {
      Pool alone(1);
      beginning.header = header(alone);
      load_weights(open_.model, selection_);
    } else if (needs_frequencies()) {
      beginning.frequencies = frequencies();
    }
  });
  return beginning;
}

void StudyCommand::run() {
  std::optional<ResultWriter> output;
  if (target_) output.emplace(*target_, options_.output, session_);
  std::optional<OutputFile> state_file;
  if (options_.state) state_file.emplace(*options_.state);
  std::optional<StudyState> resumed = open_checkpoint();
  Beginning beginning = prepare();
  if (resumed)
    require_same_study(resumed->header().identity, escaped(*options_.checkpoint), beginning.header.identity,
                       "this command");
  StudyState state = resumed ? std::move(*resumed) : StudyState(std::move(beginning.header));
  Warnings ignored;  // random_twins() repeats the warnings of open_model()
  const std::vector<Model> null_models = random_twins(open_.model, scope_.null_models, scope_.seed, ignored);
  session_.progress.begin("study", corpus_bytes());
  run_study({.model = open_.model,
             .vocabulary = open_.vocabulary,
             .encoder = open_.encoder,
             .selection = selection_,
             .corpus = corpus_,
             .shard = shard_,
             .checkpoint = {.path = options_.checkpoint, .seconds = options_.checkpoint_every},
             .kernel = blas_kernel(),
             .pool = session_.pool,
             .progress = session_.progress,
             .null_models = null_models,
             .frequencies = beginning.frequencies ? &*beginning.frequencies : nullptr},
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
                "I/N: blocks I, I + N, I + 2 N, ... counted from 1; writes --state and no results", "I/N"},
               {"--state", &options.state, "FILE for attnctl merge", "FILE"},
               {"--checkpoint", &options.checkpoint,
                "FILE that the run is saved to, and goes on from where it is there", "FILE"},
               {.names = "--checkpoint-every",
                .target = &options.checkpoint_every,
                .help = "seconds between two checkpoints; 0: after every block",
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

Command study_command() {
  Command command{.name = "study", .about = "What every head does, over a corpus"};
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
  Command command{.name = "merge", .about = "Join the shards of a study"};
  auto options = std::make_shared<MergeOptions>();
  command.add({{.names = "STATE",
                .target = &options->states,
                .help = "files that study --state or --checkpoint wrote",
                .type = "FILE",
                .required = true},
               {"--state", &options->state, "FILE for what they come to, to be merged again", "FILE"},
               {"--partial", &options->partial, "results though blocks of the corpus are missing"}});
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
