#include "cli/commands/study.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "cli/commands.hpp"
#include "linalg/blas.hpp"
#include "study/corpus.hpp"
#include "study/measure.hpp"
#include "study/plan.hpp"

namespace attnctl::cli {
namespace {

constexpr std::string_view kStudyTables =
    "heads,distributions,positional,special,repeats,rare,distance,pairs,rollout,writes,massive,"
    "massive_dimensions,relations,trees,coreference,probe,roles,ablation,ablation_sentences,kept,probe_"
    "ablation,causal_roles";

/// Throws Error(usage) if --plot names a table or column that no study has, or words that are in no title of
/// the table `relations`.
void check_plot(const std::string& plot) {
  const std::string name = plot.substr(0, plot.find('='));
  const std::size_t column = name.find('.') + 1;  // 0 without a table
  const std::string table = name.substr(0, column > 0 ? column - 1 : 0);
  const std::vector<std::string_view> tables = split(kStudyTables, ',');
  if (column > 0 && std::ranges::find(tables, table) == tables.end())
    fail(Status::usage, "--plot {}: a study has no such table{}; need one of {}", escaped(name),
         did_you_mean(table, tables), fmt::join(tables, ", "));
  if (study::definition_of(name) == nullptr) {
    std::set<std::string> known;
    std::vector<std::string_view> with_table;
    for (const NamedDefinitions& each : study::definitions()) {
      for (const Definition& about : each.definitions) {  // some have the name TABLE.COLUMN
        known.insert(name.substr(0, column) + std::string(about.name.substr(about.name.find('.') + 1)));
        if (about.name.ends_with("." + name)) with_table.push_back(about.name);
      }
    }
    if (!with_table.empty())
      fail(Status::usage, "--plot {}: got a column without its table; need {}", escaped(name),
           fmt::join(with_table, " or "));
    fail(Status::usage, "--plot {}: no measure has this column{}; attnctl explain lists the columns",
         escaped(name), did_you_mean(name, known));
  }
  if (table != "relations" || name.size() == plot.size()) return;
  constexpr auto kDirections =
      std::to_array<std::string_view>({"", "to_head", "to_dependent", "to", "head", "dependent"});
  std::vector<std::string_view> words = split(std::string_view(plot).substr(name.size() + 1), ' ');
  std::erase_if(words, [&](std::string_view word) { return std::ranges::count(kDirections, word) > 0; });
  if (words.size() > 1 || (words.size() == 1 && words[0].starts_with("to_")))
    fail(Status::usage,
         "--plot {}: no heatmap can have a title with {}; need one relation, to_head or to_dependent, or "
         "both, such as \"{}=nsubj to_head\"",
         escaped(plot), in_quotes(words.back()), name);
}

/// Throws Error(usage) if no measure of the run has the table or column of --plot.
void check_plotted_measure(const StudyScope& scope, const std::vector<const study::MeasureRow*>& measures) {
  const std::string name = scope.output.plot.substr(0, scope.output.plot.find('='));
  const std::string table = name.substr(0, name.find('.')) + ".";
  const auto has = [&](const study::MeasureRow& row) {
    return std::ranges::any_of(row.definitions, [&](const Definition& about) {
      return about.name == name || about.name.starts_with(table);
    });
  };
  const auto catalogue = study::measure_catalogue();
  const auto needed = std::ranges::find_if(catalogue, has);
  if (needed == catalogue.end() ||
      std::ranges::any_of(measures, [&](const study::MeasureRow* row) { return has(*row); }))
    return;
  fail(Status::usage, "--plot {}: this run does not have the measure {}; {}", escaped(name), needed->name,
       needed->needs.empty() || !scope.measures.empty() ? fmt::format("add {} to --measures", needed->name)
                                                        : fmt::format("it needs {}", needed->needs));
}

}  // namespace

// --- Options and the run that `study`, `plan` and `compare` share

bool reads_standard_input(const StudyScope& scope) {
  return std::ranges::any_of(scope.inputs.items, &InputItem::is_standard_input);
}

void add_corpus_scope(Command& command, StudyScope& scope) {
  command.add(
      {{"--config-file", &scope.config_file,
        "File with lines KEY = VALUE as in TOML, where KEY is an option of this command without its dashes, "
        "such as measures = [\"metrics\", \"roles\"]; options on the command line replace those of the "
        "file; paths in the file are relative to the current folder",
        "FILE"}});
  add_file_options(command, scope.inputs);
  command.add(
      "Corpus",
      {number("--max-length", &scope.settings.corpus.max_length,
              "Largest number of tokens in a sentence (default and limit: positions of the model); a longer "
              "sentence is an error unless --stride or --skip-bad is given",
              positive()),
       number("--stride", &scope.settings.corpus.stride,
              "Split sentences longer than --max-length into windows; this is the number of tokens between "
              "the beginnings of two consecutive windows",
              positive()),
       number(
           "--batch-tokens", &scope.batch_tokens,
           "Largest number of tokens in a block of sentences, unless one sentence is longer; each thread "
           "computes one block at a time (default: 256; for files of less than 64 KiB, bytes / 256, but at "
           "least 16)",
           positive()),
       {"--skip-bad", &scope.settings.corpus.skip_bad,
        "Skip sentences that are invalid or too long; the results count them and list the first 100 "
        "(default: stop at the first one)"}});
  add_head_options(command, scope.selection);
}

void add_study_scope(Command& command, StudyScope& scope) {
  add_corpus_scope(command, scope);
  const std::vector<std::string> names = texts_of(study::measure_catalogue(), &study::MeasureRow::name);
  command.add(
      "Selection",
      {{.names = "--measures",
        .target = &scope.measures,
        .help = fmt::format("Measures to compute (default: all but ablation and probe_ablation), of: {}",
                            fmt::join(names, ", ")),
        .type = "LIST",
        .offered = names},
       {"--causal", &scope.causal,
        "Also compute the measures roles and ablation: remove each head, and show every role beside what "
        "that does to the loss (docs/causal.md)"},
       number("--seed", &scope.settings.seed, "Seed of the random numbers that some measures use"),
       {"--fold-subtypes", &scope.settings.fold_subtypes,
        "For the measure syntax: ignore the subtypes of relations, so that nsubj:pass counts as nsubj"},
       number("--null-model", &scope.settings.null_models,
              "Number of random models with which the roles of heads are also compared; a random model is a "
              "copy of this model in which the numbers of each matrix are shuffled",
              Range{0, 1000}),
       number("--null-shuffle", &scope.settings.null_shuffles,
              fmt::format("For the measures {}: number of copies of each sentence with its tokens (except "
                          "special tokens) in random order; a role from these measures must also exceed the "
                          "value of the same head on these copies",
                          study::order_measures()),
              Range{0, 1000}),
       {"--frequencies", &scope.settings.frequencies,
        "For the measure rare: file of token frequencies, with lines TOKEN<TAB>COUNT (default: the corpus is "
        "read twice, first to count its tokens)",
        "FILE"}});
}

void require_study_scope(const StudyScope& scope) {
  require_inputs(scope.inputs, "--input");
  if (scope.settings.corpus.stride && scope.settings.corpus.max_length &&
      *scope.settings.corpus.stride > *scope.settings.corpus.max_length)
    fail(Status::usage, "--stride: got {}, need at most --max-length {}", *scope.settings.corpus.stride,
         *scope.settings.corpus.max_length);
  if (!scope.output.plot.empty()) check_plot(scope.output.plot);
}

OpenStudy open_study(const StudyScope& scope, Warnings& warnings) {
  auto request = static_cast<const study::StudyRequest&>(scope);
  request.heads = scope.selection;
  for (const InputItem& item : scope.inputs.items)
    request.settings.corpus.files.push_back({item.value, input_format(item.value, scope.inputs)});
  const std::vector<const study::MeasureRow*> measures = study::requested_measures(request, warnings);
  OpenStudy study =
      study::open_study(std::move(request), measures, open_model(scope.model, warnings), warnings);
  check_plotted_measure(scope, study.settings.measures);
  study.memory = scope.run.memory;
  if (study.memory > 0) study::require_streamable(study.settings);
  if (!study.settings.removes_heads()) return study;
  if (reads_standard_input(scope) && scope.ablation.replacement != study::Replacement::zero &&
      scope.ablation.mean_from.empty())
    fail(Status::usage, "--input -: the corpus is read twice; give a file, --mean-from or --replace zero");
  study.settings.ablation = ablation_settings(scope, study.open, study.settings.selection);
  return study;
}

std::vector<std::filesystem::path> study_files(const StudyScope& scope) {
  std::vector<std::filesystem::path> files = files_read(scope);
  if (scope.settings.frequencies) files.emplace_back(*scope.settings.frequencies);
  if (scope.config_file) files.emplace_back(*scope.config_file);
  std::ranges::move(ablation_files(scope.ablation), std::back_inserter(files));
  return files;
}

study::StudyState compute_study(OpenStudy& study, Session& session, const study::Shard& shard,
                                const study::CheckpointOptions& checkpoint) {
  const auto note = [&](const std::string& text) {
    if (!session.options.quiet) std::fprintf(stderr, "attnctl: %s\n", message_line(text).c_str());
  };
  return study::compute_study(study, session.pool, session.progress, shard, checkpoint, note);
}

namespace {

// --- study and merge

Results finished_study(const study::StudyState& state, bool named, const study::StudyThresholds& thresholds,
                       Session& session) {
  state.check_data(named, session.warnings);
  Results results;
  results.document.head.set("schema", "attnctl.study/2")
      .set("attnctl", Record()
                          .set("version", ATTNCTL_VERSION)
                          .set("blas", linalg::blas_name())
                          .set("kernel", study::kernel_names(state)));
  results.append(study::study_results(state, session.pool, thresholds));
  return results;
}

/// Prints the warnings of the session and those of the state, which a page of text on stdout already has.
/// `target` is null for one of several shards, which is never complete.
void print_study_warnings(const study::StudyState& state, const Target* target, Session& session) {
  if (target == nullptr || !target->is_page()) {
    for (const Warning& warning : state.warnings())
      if (target != nullptr || warning.code != "partial")
        session.warnings.add(warning.code, warning.message, warning.count);
  }
  print_warnings(session);
}

study::Shard parse_shard(const std::string& text) {
  if (text.empty()) return {};
  const std::vector<std::string_view> numbers = split(text, '/');
  const auto index = parse_number(numbers.front());
  const auto count = parse_number(numbers.back());
  if (numbers.size() != 2 || !index || !count || *index == 0 || *index > *count)
    fail(Status::usage, "--shard: got \"{}\", need I/N with I from 1 to N, such as 2/7", escaped(text));
  return {*index - 1, *count};
}

void check_options(const StudyOptions& options, const study::Shard& shard) {
  require_study_scope(options);
  if (reads_standard_input(options) && (shard.count > 1 || options.state || options.checkpoint.path))
    fail(Status::usage, "--input -: cannot be used with --shard, --state or --checkpoint; give a file");
  if (shard.count > 1 && !options.state && !options.checkpoint.path)
    fail(Status::usage, "--shard needs --state FILE or --checkpoint FILE, for attnctl merge");
  const OutputOptions& output = options.output;
  if (shard.count > 1 && !(output.path + output.format + output.plot).empty())
    fail(Status::usage,
         "--shard writes a state and no results; remove -o, --format and --plot, and give them to attnctl "
         "merge");
}

/// Returns the target of the results, or nullopt for one of several shards, which writes only a state. Checks
/// all outputs with check_outputs().
std::optional<Target> study_target(const StudyOptions& options, const study::Shard& shard) {
  std::vector<OutputPath> states;
  if (options.state) states.push_back({"--state", *options.state});
  if (options.checkpoint.path && options.checkpoint.path != options.state)
    states.push_back({"--checkpoint", *options.checkpoint.path});
  const std::vector<std::filesystem::path> files = study_files(options);
  if (shard.count == 1) return resolve_target(options.output, files, std::move(states));
  check_outputs(states, files);
  return std::nullopt;
}

}  // namespace

void run_study_command(const StudyOptions& options) {
  const study::Shard shard = parse_shard(options.shard);
  Session session(options.run);
  check_options(options, shard);
  const std::optional<Target> target = study_target(options, shard);
  OpenStudy study = open_study(options, session.warnings);
  std::optional<ResultWriter> output;
  if (target) output.emplace(*target, options.output, session);
  std::optional<OutputFile> state_file;
  if (options.state) state_file.emplace(*options.state);
  order_greedily(options, study, session);
  const study::StudyState state = compute_study(study, session, shard, options.checkpoint);
  if (state_file) {
    std::optional<InterruptHold> hold;
    if (output) hold.emplace();  // the results follow
    state.write(*state_file);
    state_file->commit();  // also if the results cannot be written, because attnctl merge computes them again
  }
  if (output) output->write(finished_study(state, !options.measures.empty(), options.thresholds, session));
  if (!state.done().contains(0))
    study.open.encoder.checks.warn(session.warnings);  // a state with block 0 has them
  print_study_warnings(state, target ? &*target : nullptr, session);
}

void add_shard_options(Command& command, StudyOptions& options) {
  command.add(
      "Shards and restarts",
      {{"--shard", &options.shard,
        "Compute only shard I of N, where I is from 1 to N. If N > 1, write only the state, to --state or "
        "--checkpoint; attnctl merge computes the results from the states of all shards",
        "I/N"},
       {"--state", &options.state, "Write the state of the study to FILE, for attnctl merge", "FILE"},
       {"--checkpoint", &options.checkpoint.path,
        "Save the state to FILE while the study runs and at Ctrl-C; if FILE exists, continue from it",
        "FILE"},
       number("--checkpoint-every", &options.checkpoint.seconds,
              "Seconds between two writes of --checkpoint; 0: after each block", non_negative())});
}

void add_result_options(Command& command, CommandOptions& options) {
  add_document_options(command, options.output,
                       {"json", "jsonl", "csv", "svg", "png", "pdf", "html", "text"});
  add_table_option(command, options.output, std::string(kStudyTables));
  add_plot_option(command, options.output);
  add_worker_options(command, options.run);
}

namespace {

/// Adds the options that change only the output: the state of a study does not depend on them.
void add_threshold_options(Command& command, study::StudyThresholds& thresholds) {
  command.add("Output",
              {number("--sink-epsilon", &thresholds.sink_epsilon,
                      "With the measure special: a head is a sink if its mean weight on position 0 is above "
                      "this number",
                      Range{0.0, 1.0}),
               number("--idle-ratio", &thresholds.idle_ratio,
                      "With the measure residual: a head is idle if the length of what it writes is on "
                      "average below this share of the length of the residual stream",
                      non_negative())});
}

struct MergeOptions : CommandOptions {
  study::StudyThresholds thresholds;
  std::vector<std::string> states;
  std::string state;  // --state
  bool partial = false;
  bool status = false;
};

/// Throws Error(bad_input) for an incomplete state. `problems` names the merged states that are not finished,
/// and `shards` is the number of shards; 0: unknown.
void refuse_partial(const study::StudyState& state, std::uint64_t shards, std::vector<std::string> problems) {
  const std::uint64_t blocks = state.blocks().value_or(0);
  // If all states are finished, each shard must be whole: it has all of its blocks or none.
  if (problems.empty() && !state.done().repeats(shards, blocks)) shards = 0;
  for (const std::uint64_t shard : state.done().missing(shards, 100))
    problems.push_back(fmt::format("shard {}/{} is missing", shard + 1, shards));
  if (problems.empty())
    problems.push_back(
        fmt::format("blocks are missing (the first: {})", fmt::join(state.done().missing(blocks, 5), ", ")));
  fail(Status::bad_input, "{}: {}{} blocks are done; give the finished states of all shards, or --partial",
       shown(fmt::format("{}", fmt::join(problems, ", "))), state.done().size(),
       blocks == 0 ? "" : fmt::format(" of {}", blocks));
}

/// Returns the files of each pattern, and instead of a folder its files with the extension .state, sorted.
std::vector<std::string> state_files(const std::vector<std::string>& given) {
  std::vector<std::string> files;
  for (const std::string& pattern : given) {
    for (std::string& path : matching_files(pattern)) {
      if (!std::filesystem::is_directory(path)) {
        files.push_back(std::move(path));
        continue;
      }
      const std::size_t before = files.size();
      for (const auto& entry : std::filesystem::directory_iterator(path))
        if (entry.path().extension() == ".state") files.push_back(entry.path().string());
      if (files.size() == before)
        fail(Status::environment, "{}: the folder has no *.state files; give another folder, or files",
             escaped(path));
      std::sort(files.begin() + static_cast<std::ptrdiff_t>(before), files.end());
    }
  }
  return files;
}

/// Writes one row per state file.
void list_states(const MergeOptions& options) {
  std::vector<std::filesystem::path> files(options.states.begin(), options.states.end());
  std::ranges::sort(files);
  const Target target = resolve_target(options.output, files);
  Session session(options.run);
  ResultWriter writer(target, options.output, session);
  std::vector<std::vector<Cell>> rows;
  for (const std::filesystem::path& file : files) {
    const auto state = study::StudyState::read(file);
    const std::optional<std::uint64_t> blocks = state.blocks();
    rows.push_back({file.string(), state.header().model_path, count_cell(state.done().size()),
                    blocks ? count_cell(*blocks) : Cell(), blocks.has_value()});
  }
  const Table table = make_table("states", {"file", "model", "blocks", "of", "finished"}, std::move(rows));
  Results results{.text = {TextTable{"", table}}};
  results.add_table("state", table);
  writer.write("attnctl.states/2", std::move(results));
  print_warnings(session);
}

void merge(const MergeOptions& options) {
  std::vector<OutputPath> states;
  if (!options.state.empty()) states.push_back({"--state", options.state});
  const Target target =
      resolve_target(options.output, {options.states.begin(), options.states.end()}, std::move(states));
  Session session(options.run);
  ResultWriter output(target, options.output, session);
  std::optional<OutputFile> state_file;
  if (!options.state.empty()) state_file.emplace(options.state);
  for (auto file = options.states.begin(); file != options.states.end(); ++file) {
    std::error_code ignored;
    const auto same = [&](const std::string& earlier) {
      return std::filesystem::equivalent(earlier, *file, ignored);
    };
    if (std::any_of(options.states.begin(), file, same))
      fail(Status::usage, "{}: is given twice; give each state once", escaped(*file));
  }
  std::uint64_t shards = 0;
  std::vector<std::string> unfinished;
  const auto read = [&](const std::string& file) {
    study::StudyState state = study::StudyState::read(file);
    if (!state.blocks()) unfinished.push_back(escaped(file) + " is not finished");
    if (state.blocks() && shards == 0) shards = state.done().step();
    return state;
  };
  study::StudyState state = read(options.states.front());
  for (std::size_t i = 1; i < options.states.size(); ++i)
    state.merge(read(options.states[i]), escaped(options.states.front()), escaped(options.states[i]));
  if (!options.partial && !state.complete()) refuse_partial(state, shards, std::move(unfinished));
  if (state_file) {
    const InterruptHold hold;  // the results follow
    state.write(*state_file);
  }
  output.write(finished_study(state, false, options.thresholds, session));
  if (state_file) state_file->commit();  // last, so that a failure replaces neither of the two files
  print_study_warnings(state, &target, session);
}

// --- plan

struct PlanOptions : StudyScope {
  study::PlanRequest request;
};

void plan(const PlanOptions& options) {
  require_study_scope(options);
  const Target target = resolve_target(options.output, study_files(options));
  study::PlanRequest request = options.request;
  request.begin = std::chrono::steady_clock::now();
  Session session(options.run);
  OpenStudy study = open_study(options, session.warnings);
  ResultWriter writer(target, options.output, session);
  writer.write("attnctl.plan/2", study::plan_study(study.input(), request, session.pool, session.progress));
  study.open.encoder.checks.warn(session.warnings);
  print_warnings(session);
}

}  // namespace

Command study_command() {
  Command command{.name = "study", .about = "Measure what each head does over a corpus"};
  auto options = std::make_shared<StudyOptions>();
  add_model_options(command, options->model);
  add_study_scope(command, *options);
  add_shard_options(command, *options);
  add_result_options(command, *options);
  add_threshold_options(command, options->thresholds);
  command.add("Run", {memory_option(options->run, kMemoryHelp)});
  const auto line = [](const study::MeasureRow& row) {
    return fmt::format("  {:<10} {}\n", row.name, row.description);
  };
  command.footer =
      "Measures:\n" + join_texts(study::measure_catalogue(), line, "") +
      "Examples:\n"
      "  attnctl study data/tiny-bert --input data/tiny-bert/sentences.jsonl --format text\n"
      "  attnctl study data/tiny-llama --input data/tiny-llama/sentences.jsonl --measures metrics | jq "
      "'.heads[0].entropy'\n"
      "  attnctl study data/tiny-llama --input data/treebank.conllu --measures probe,roles -o roles.svg\n"
      "  attnctl study data/tiny-bert --input data/sentences.txt --checkpoint run.state -o study.json\n"
      "  attnctl study data/tiny-bert --input data/sentences.txt --batch-tokens 16 --shard 1/2 --state "
      "1.state";
  command.action = [options] { run_study_command(*options); };
  return command;
}

Command merge_command() {
  Command command{.name = "merge", .about = "Compute the results of a study from the states of its shards"};
  auto options = std::make_shared<MergeOptions>();
  command.add(
      {{.names = "STATE",
        .target = &options->states,
        .help =
            "State files of the shards of one study, written by attnctl study with --state or --checkpoint, "
            "a folder with files *.state, or a quoted pattern such as 's*.state'",
        .type = "FILE",
        .required = true},
       {"--state", &options->state, "Also write the merged state to FILE, which can be merged again", "FILE"},
       {"--partial", &options->partial,
        "Accept states that do not contain all sentences, and compute the results of those that they "
        "contain"},
       {.names = "--status",
        .target = &options->status,
        .help = "Only list the states, without results: the model and the number of blocks of each, and "
                "whether its run is finished",
        .excludes = "--state"}});
  add_result_options(command, *options);
  add_threshold_options(command, options->thresholds);
  command.footer =
      "Examples:\n"
      "  attnctl study data/tiny-bert --input data/sentences.txt --state all.state && attnctl merge "
      "all.state --format text\n"
      "  attnctl merge --status . --format text";
  command.action = [options] {
    options->states = state_files(options->states);
    options->status ? list_states(*options) : merge(*options);
  };
  return command;
}

Command plan_command() {
  Command command{.name = "plan", .about = "Predict the time and memory of a study on several machines"};
  auto options = std::make_shared<PlanOptions>();
  add_model_options(command, options->model);
  add_study_scope(command, *options);
  command.add("Nodes",
              {number("--nodes", &options->request.nodes,
                      "Number of machines (nodes); each computes one shard", Range{1, 1'000'000}),
               number("--seconds", &options->request.seconds,
                      "Approximate time for trial runs after the corpus is read, in seconds", positive())});
  options->output.default_table = "shards";
  add_document_options(command, options->output, {"json", "jsonl", "csv", "text"});
  add_table_option(command, options->output, "shards,choices,trials");
  add_worker_options(command, options->run);
  command.add("Run", {memory_option(options->run,
                                    "--memory of the study on each node, such as 512M or 2G; the trial runs "
                                    "keep it too (default: no limit)")});
  command.footer =
      "--threads is the number of threads per node. The trial runs use at most the cores of this machine.\n"
      "Examples:\n"
      "  attnctl plan data/tiny-bert --input data/sentences.txt --batch-tokens 16 --nodes 2 --seconds 1 "
      "--format text\n"
      "  attnctl plan data/tiny-llama --input data/sentences.txt --measures metrics --nodes 4 --threads 1 "
      "--seconds 1 | jq '.summary.seconds'";
  command.action = [options] { plan(*options); };
  return command;
}

}  // namespace attnctl::cli
