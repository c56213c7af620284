#include "attnctl/base/content_hash.hpp"
#include "attnctl/base/error.hpp"
#include "attnctl/base/parse_number.hpp"
#include "attnctl/linalg/blas_kernel.hpp"
#include "attnctl/study/random_twin.hpp"
#include "attnctl/study/run_study.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/commands.hpp"
#include "cli/inputs.hpp"
#include "cli/options.hpp"
#include "cli/selection.hpp"
#include "cli/session.hpp"
#include "cli/study_output.hpp"

namespace attnctl::cli {
namespace {

constexpr std::size_t kProbeSequences = 32;
constexpr const char* kStateFormat = "attnctl.study.state/1";

struct StudyOptions {
  ModelOptions model;
  InputOptions inputs;
  SelectionOptions selection;
  OutputOptions output;
  RunOptions run;
  std::string measures;
  std::optional<std::size_t> max_length, stride;
  std::size_t batch_tokens = 4096;
  std::uint64_t seed = 0;
  std::string shard;
  std::optional<std::string> state, checkpoint;
  double checkpoint_every = 60;
  bool skip_bad = false;
  bool fold_subtypes = false;
  std::size_t null_models = 0;
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

std::vector<std::filesystem::path> files_read(const StudyOptions& options) {
  std::vector<std::filesystem::path> files = input_files(options.inputs);
  const std::vector<std::filesystem::path> model = model_files(options.model);
  files.insert(files.end(), model.begin(), model.end());
  return files;
}

/// One run of `study`: everything is resolved and checked when it is made.
class StudyCommand {
 public:
  explicit StudyCommand(const StudyOptions& options);
  void run();

 private:
  [[nodiscard]] CorpusOptions corpus_options() const;
  [[nodiscard]] StudyIdentity identity();
  [[nodiscard]] std::string corpus_identity();
  [[nodiscard]] StudyHeader header();
  [[nodiscard]] StudyState begin_or_resume();

  const StudyOptions& options_;
  Shard shard_;
  std::vector<const MeasureRow*> measures_;
  std::optional<Target> target_;  // none for a shard
  Session session_;
  OpenModel open_;
  Selection selection_;
  CorpusOptions corpus_;
  std::uint64_t corpus_bytes_ = 0;
};

void check_options(const StudyOptions& options, const Shard& shard) {
  require_inputs(options.inputs, "--input");
  const bool standard_input =
      std::ranges::any_of(options.inputs.items, [](const InputItem& item) { return item.value == "-"; });
  if (standard_input && (shard.count > 1 || options.state || options.checkpoint))
    fail(Status::usage, "--input -: --shard, --state and --checkpoint need files, which can be read again");
  if (shard.count > 1 && !options.state && !options.checkpoint)
    fail(Status::usage, "--shard: need --state FILE to write to, which attnctl merge then joins");
  if (shard.count > 1 && (!options.output.path.empty() || !options.output.format.empty()))
    fail(Status::usage, "--shard writes a state and no results: leave -o and --format to attnctl merge");
  if (options.stride && options.max_length && *options.stride > *options.max_length)
    fail(Status::usage, "--stride: got {}, need at most --max-length {}", *options.stride,
         *options.max_length);
}

StudyCommand::StudyCommand(const StudyOptions& options)
    : options_(options),
      shard_(parse_shard(options.shard)),
      measures_(parse_measures(options.measures)),
      session_(options.run),
      open_((check_options(options, shard_), open_model(options.model, session_.warnings))),
      selection_(select_heads(options.selection, open_.model.config(), false)),
      corpus_(corpus_options()) {
  if (shard_.count == 1) target_ = study_target(options.output, files_read(options));
}

CorpusOptions StudyCommand::corpus_options() const {
  CorpusOptions corpus{.files = {},
                       .batch_tokens = options_.batch_tokens,
                       .max_length = options_.max_length,
                       .stride = options_.stride,
                       .skip_bad = options_.skip_bad};
  if (std::ranges::any_of(measures_, &MeasureRow::of_probe))
    corpus.probe = {.sequences = kProbeSequences, .seed = options_.seed};
  for (const InputItem& item : options_.inputs.items)
    corpus.files.push_back({item.value, input_format(item.value, options_.inputs)});
  return corpus;
}

/// The bytes of the files, not where they lie.
std::string StudyCommand::corpus_identity() {
  std::string text;
  for (const CorpusFile& file : corpus_.files) {
    if (file.path == "-") return "standard input";
    const std::uint64_t hash = file_hash(file.path, session_.pool);
    const std::uint64_t size = std::filesystem::file_size(file.path);
    corpus_bytes_ += size;
    text += fmt::format("{}{} bytes {}", text.empty() ? "" : ", ", size, hash_text(hash));
  }
  return text;
}

StudyIdentity StudyCommand::identity() {
  const auto or_none = [](const std::optional<std::size_t>& number) {
    return number ? std::to_string(*number) : std::string("none");
  };
  std::string heads;
  for (const HeadId head : selection_.heads)
    heads += (heads.empty() ? "" : ",") + head_name(open_.model.config(), head);
  std::string measures;
  for (const MeasureRow* const row : measures_)
    measures += fmt::format("{}{}/{}", measures.empty() ? "" : ",", row->name, row->version);
  return {{"state", kStateFormat},
          {"config", hash_text(content_hash(open_.model.source().config_text))},
          {"weights", hash_text(weights_hash(open_.model, session_.pool))},
          {"heads", heads},
          {"measures", measures},
          {"corpus", corpus_identity()},
          {"batch_tokens", std::to_string(options_.batch_tokens)},
          {"max_length", or_none(options_.max_length)},
          {"stride", or_none(options_.stride)},
          {"seed", std::to_string(options_.seed)},
          {"skip_bad", options_.skip_bad ? "true" : "false"},
          {"fold_subtypes", options_.fold_subtypes ? "true" : "false"},
          {"null_model", std::to_string(options_.null_models)}};
}

StudyHeader StudyCommand::header() {
  const ModelConfig& config = open_.model.config();
  StudyHeader header{.identity = identity(),
                     .shape = shape_of(selection_, config, options_.seed),
                     .measures = measures_,
                     .null_models = options_.null_models,
                     .model = model_record(open_.model),
                     .model_path = open_.model.source().given,
                     .files = {}};
  header.shape.fold_subtypes = options_.fold_subtypes;
  for (const CorpusFile& file : corpus_.files) header.files.push_back(file.path.string());
  return header;
}

/// What --checkpoint holds, where it is there; else nothing yet.
StudyState StudyCommand::begin_or_resume() {
  StudyHeader fresh = header();
  if (!options_.checkpoint || !std::filesystem::exists(*options_.checkpoint))
    return StudyState(std::move(fresh));
  StudyState state = StudyState::read(*options_.checkpoint);
  require_same_study(state.header().identity, escaped(*options_.checkpoint), fresh.identity, "this command");
  return state;
}

void StudyCommand::run() {
  std::optional<StudyOutput> output;
  if (target_) output.emplace(*target_, options_.output, session_);
  StudyState state = begin_or_resume();
  Warnings ignored;  // those of the model's own binding, again
  std::vector<Model> null_models;
  for (std::size_t i = 0; i < options_.null_models; ++i)
    null_models.push_back(random_twin(open_.model, options_.seed + i, ignored));
  session_.progress.begin("study", corpus_bytes_);
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
             .null_models = null_models},
            state);
  session_.progress.end();
  if (options_.state) state.write(*options_.state);
  if (output) output->write(state);
  for (const Warning& warning : state.warnings())
    session_.warnings.add(warning.code, warning.message, warning.count);
  print_warnings(session_);
}

void add_corpus_options(CLI::App& command, StudyOptions& options) {
  const std::string group = "Corpus";
  command
      .add_option("--max-length", options.max_length,
                  "tokens of a sentence, at most (default: the model's positions)")
      ->check(CLI::PositiveNumber)
      ->group(group);
  command
      .add_option("--stride", options.stride,
                  "cut longer sentences into windows that begin so many tokens apart, not refuse them")
      ->check(CLI::PositiveNumber)
      ->group(group);
  command
      .add_option("--batch-tokens", options.batch_tokens,
                  "tokens of a block, the sentences that one worker computes at a time")
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->group(group);
  command
      .add_flag(
          "--skip-bad", options.skip_bad,
          "leave out sentences that are damaged or too long, and list them; else the first one stops the "
          "run")
      ->group(group);
}

void add_state_options(CLI::App& command, StudyOptions& options) {
  const std::string group = "Shards and restarts";
  command
      .add_option("--shard", options.shard,
                  "I/N: blocks I, I + N, I + 2 N, ... counted from 1; writes --state and no results")
      ->type_name("I/N")
      ->group(group);
  command.add_option("--state", options.state, "FILE for attnctl merge")->type_name("FILE")->group(group);
  command
      .add_option("--checkpoint", options.checkpoint,
                  "FILE that the run is saved to, and goes on from where it is there")
      ->type_name("FILE")
      ->group(group);
  command
      .add_option("--checkpoint-every", options.checkpoint_every,
                  "seconds between two checkpoints; 0: after every block")
      ->check(CLI::NonNegativeNumber)
      ->type_name("SECONDS")
      ->capture_default_str()
      ->group(group);
}

std::string measures_help() {
  std::string text = "what to measure (default: all):";
  for (const MeasureRow& row : measure_catalogue()) text += fmt::format(" {},", row.name);
  text.back() = ' ';
  text.pop_back();
  return text;
}

}  // namespace

void add_study(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("study", "What every head does, over a corpus");
  auto options = std::make_shared<StudyOptions>();
  add_model_options(*command, options->model);
  add_file_options(*command, options->inputs);
  add_corpus_options(*command, *options);
  add_head_options(*command, options->selection);
  command->add_option("--measures", options->measures, measures_help())
      ->type_name("LIST")
      ->group("Selection");
  command->add_option("--seed", options->seed, "of measures that draw at random")
      ->capture_default_str()
      ->group("Selection");
  command
      ->add_flag("--fold-subtypes", options->fold_subtypes,
                 "of syntax: relations without their subtypes, nsubj:pass as nsubj")
      ->group("Selection");
  command
      ->add_option("--null-model", options->null_models,
                   "roles must also exceed those of N models of the same shape with shuffled weights")
      ->type_name("N")
      ->check(CLI::Range(0, 1000))
      ->group("Selection");
  add_state_options(*command, *options);
  add_document_options(*command, options->output, study_formats);
  command->add_option("--table", options->output.table, "with csv: this table alone, as one file")
      ->type_name("NAME")
      ->group("Output");
  add_worker_options(*command, options->run);
  command->footer(
      "Measures:\n" +
      [] {
        std::string text;
        for (const MeasureRow& row : measure_catalogue())
          text += fmt::format("  {:<10} {}\n", row.name, row.description);
        return text;
      }() +
      "Examples:\n"
      "  attnctl study data/tiny-bert --input data/tiny-bert/sentences.jsonl --format text\n"
      "  attnctl study data/tiny-llama --input data/tiny-llama/sentences.jsonl --measures metrics | jq "
      "'.heads[0].entropy'\n"
      "  attnctl study data/tiny-llama --input data/tiny-llama/sentences.jsonl --measures probe,roles -o "
      "roles.svg\n"
      "  attnctl study data/tiny-bert --input data/sentences.txt --checkpoint run.state -o study.json\n"
      "  attnctl study data/tiny-bert --input data/sentences.txt --batch-tokens 16 --shard 1/2 --state "
      "1.state");
  command->callback([&action, options] { action = [options] { StudyCommand(*options).run(); }; });
}

}  // namespace attnctl::cli
