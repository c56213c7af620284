#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/files/output_file.hpp"
#include "base/memory.hpp"
#include "base/warnings.hpp"
#include "cli/commands.hpp"
#include "cli/commands/bench_stages.hpp"
#include "cli/options/inputs.hpp"
#include "cli/options/options.hpp"
#include "cli/options/target.hpp"
#include "cli/result_writer.hpp"
#include "cli/session.hpp"
#include "forward/run.hpp"
#include "input/batch.hpp"
#include "input/sequences.hpp"
#include "linalg/blas.hpp"
#include "linalg/kernels/kernels.hpp"
#include "linalg/machine_speed.hpp"
#include "model/config/config.hpp"

namespace attnctl::cli {
namespace {

struct BenchInputOptions {
  std::vector<std::size_t> lengths;  // empty: 16, 128 and 512, up to the model's positions
  std::optional<std::size_t> batch;  // number of inputs per run; default 1
  InputOptions given;                // used instead of seeded inputs, all in one run
};

constexpr std::size_t kLengths[] = {16, 128, 512};

/// Returns the lengths to measure. Throws Error(usage) for a length that the model does not support.
std::vector<std::size_t> choose_lengths(const BenchInputOptions& options, const ModelConfig& config) {
  if (const PatchGrid& grid = config.embedding.pixels; grid.present()) {
    const std::size_t tokens = grid.patches() + 1;
    for (const std::size_t length : options.lengths) {
      if (length != tokens)
        fail(Status::usage, "--lengths: got {}, images of this model have {} tokens", length, tokens);
    }
    return {tokens};
  }
  const auto fits = [&](std::size_t length) { return length <= config.max_positions.value_or(length); };
  std::vector<std::size_t> lengths;
  if (options.lengths.empty()) {
    std::ranges::copy_if(kLengths, std::back_inserter(lengths), fits);
    if (lengths.empty()) lengths.push_back(*config.max_positions);
    return lengths;
  }
  for (const std::size_t length : options.lengths) {
    if (!fits(length))
      fail(Status::usage, "--lengths: got {}, the model has {} positions", length, *config.max_positions);
  }
  return options.lengths;
}

Batch seeded(std::size_t length, std::size_t count, const OpenModel& open) {
  SeededInputs seeds(open.model.config());
  Batch batch;
  for (std::size_t i = 0; i < count; ++i) batch.sequences.push_back(seeds.next(length, length));
  finish_batch(batch, open.vocabulary);
  return batch;
}

std::vector<std::size_t> lengths_of(const Batch& batch) {
  std::vector<std::size_t> lengths;
  std::ranges::transform(batch.sequences, std::back_inserter(lengths), &Sequence::queries);
  return lengths;
}

/// Returns the number of tokens per input; nullopt if the inputs differ in length.
std::optional<std::size_t> common_length(const Batch& batch) {
  const std::vector<std::size_t> lengths = lengths_of(batch);
  const bool equal = std::ranges::count(lengths, lengths.front()) == std::ssize(lengths);
  return equal ? std::optional(lengths.front()) : std::nullopt;
}

/// Returns one batch per row of the output. Throws Error(usage) for a length that the model does not support,
/// and if --lengths or --batch is given together with inputs. Also throws the errors of read_inputs().
std::vector<Batch> bench_inputs(const BenchInputOptions& options, OpenModel& open, Warnings& warnings) {
  std::vector<Batch> all;
  if (!options.given.items.empty()) {
    if (!options.lengths.empty() || options.batch)
      fail(Status::usage, "--lengths and --batch are for seeded inputs; remove them, or remove the inputs");
    all.push_back(read_inputs(options.given, open, warnings));
  } else {
    for (const std::size_t length : choose_lengths(options, open.model.config()))
      all.push_back(seeded(length, options.batch.value_or(1), open));
  }
  for (const Batch& batch : all) check_batch(open.model, batch);
  return all;
}

struct BenchOptions {
  ModelOptions model;
  BenchInputOptions inputs;
  std::size_t repeat = 9;
  std::vector<std::string> stages;  // empty: all stages
  OutputOptions output;
  RunOptions run;
};

constexpr GemmShape kPeak = {2048, 2048, 2048};
constexpr std::size_t kReadBytes = std::size_t{256} << 20;  // larger than the caches

struct Measurement {
  StageRow row;
  const Batch* inputs = nullptr;  // null: the stage has no inputs
  std::vector<double> ms;         // in ascending order
  std::optional<std::uint64_t> flops;
  std::optional<double> peak_mib;

  [[nodiscard]] double median() const {
    const std::size_t middle = ms.size() / 2;
    return ms.size() % 2 == 1 ? ms[middle] : (ms[middle - 1] + ms[middle]) / 2;
  }
};

/// Rounds to four decimals. Further digits are noise.
double rounded(double value) {
  return std::round(value * 1e4) / 1e4;
}

std::vector<StageRow> choose_stages(const BenchOptions& options) {
  std::vector<StageRow> chosen;
  std::ranges::copy_if(stage_rows(), std::back_inserter(chosen), [&](const StageRow& row) {
    return options.stages.empty() || std::ranges::find(options.stages, row.name) != options.stages.end();
  });
  return chosen;
}

/// One run of `bench`. The speed of the machine drifts, so it is measured before, between and after the
/// stages. The best measurement counts.
class BenchRun {
 public:
  BenchRun(const BenchOptions& options, Target target);
  void run();

 private:
  void measure_machine(std::size_t repeat);
  void measure(const StageRow& row, const Batch* inputs, Warnings& warnings);
  void measure_all(bool (*chosen)(const StageRow&), const Batch* inputs);
  void measure_inputs(const Batch& inputs);
  void check_size(const Batch& inputs) const;
  [[nodiscard]] Table table() const;
  [[nodiscard]] Results results() const;

  const BenchOptions& options_;
  Target target_;
  Session session_;
  OpenModel open_;
  std::vector<Batch> inputs_;
  std::vector<StageRow> chosen_;
  BenchStages stages_;
  std::vector<Measurement> measurements_;
  double peak_gflops_ = 0;
  double read_gbs_ = 0;
};

BenchRun::BenchRun(const BenchOptions& options, Target target)
    : options_(options),
      target_(std::move(target)),
      session_(options.run),
      open_(open_model(options.model, session_.warnings)),
      inputs_(bench_inputs(options.inputs, open_, session_.warnings)),
      chosen_(choose_stages(options)),
      stages_(options.model, open_, session_) {}

void BenchRun::measure_machine(std::size_t repeat) {
  peak_gflops_ = std::max(peak_gflops_, measure_sgemm(session_.pool, kPeak, repeat));
  read_gbs_ = std::max(read_gbs_, measure_read(session_.pool, kReadBytes, repeat));
}

/// Runs a stage once without measuring it, then --repeat times. `warnings` receives the warnings of the first
/// run. The other runs repeat them.
void BenchRun::measure(const StageRow& row, const Batch* inputs, Warnings& warnings) {
  Measurement measurement{row, inputs, {}, {}, {}};
  if (inputs != nullptr)
    measurement.flops = stage_flops(row.stage, open_.model.config(), lengths_of(*inputs));
  Warnings repeated;
  reset_peak_memory();
  stages_.run(row.stage, warnings);
  for (std::size_t i = 0; i < options_.repeat; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    stages_.run(row.stage, repeated);
    const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - begin;
    measurement.ms.push_back(taken.count());
    session_.progress.advance();
  }
  if (const std::uint64_t peak = memory_use().peak; peak != 0)
    measurement.peak_mib = static_cast<double>(peak) / (1 << 20);
  std::ranges::sort(measurement.ms);
  measurements_.push_back(std::move(measurement));
}

/// Measures the chosen stages on the same inputs. Keeps the warnings of the first stage only, because the
/// others repeat them.
void BenchRun::measure_all(bool (*chosen)(const StageRow&), const Batch* inputs) {
  Warnings repeated;
  bool first = true;
  for (const StageRow& row : chosen_) {
    if (!chosen(row)) continue;
    measure(row, inputs, first ? session_.warnings : repeated);
    first = false;
  }
}

/// Throws Error(limit) before any work if these inputs are too long for the chosen stages.
void BenchRun::check_size(const Batch& inputs) const {
  const auto any = [&](bool StageRow::*property) {
    return std::ranges::any_of(chosen_, [&](const StageRow& row) { return row.*property; });
  };
  if (!any(&StageRow::captured)) return;
  const std::vector<std::size_t> lengths = lengths_of(inputs);
  const std::size_t tokens = common_length(inputs).value_or(std::reduce(lengths.begin(), lengths.end()));
  const std::string patterns = fmt::format(
      "{}: patterns of {} tokens", options_.inputs.given.items.empty() ? "--lengths" : "inputs", tokens);
  const std::uint64_t values = stages_.pattern_values();
  const std::uint64_t limit = options_.run.limit;
  if (any(&StageRow::text) && values > limit) {
    fail(Status::limit,
         "{} are {} values as text, over --limit {}; remove write_json and write_csv from --stages, or raise "
         "--limit",
         patterns, values, limit);
  }
  const std::uint64_t memory = options_.run.memory;
  if (memory != 0 && values > memory / sizeof(float)) {
    fail(
        Status::limit,
        "{} are {} values of {} bytes, over --memory {}; remove capture and the write_* stages from --stages",
        patterns, values, sizeof(float), memory);
  }
}

void BenchRun::measure_inputs(const Batch& inputs) {
  stages_.set_inputs(inputs);
  check_size(inputs);
  measure_all([](const StageRow& row) { return row.of_inputs; }, &inputs);
  stages_.set_inputs({});
}

Table BenchRun::table() const {
  std::vector<std::vector<Cell>> rows;
  for (const Measurement& each : measurements_) {
    std::vector<Cell>& row = rows.emplace_back();
    row = {std::string(each.row.name),
           Cell(),
           Cell(),
           rounded(each.ms.front()),
           rounded(each.median()),
           rounded(each.ms.back()),
           Cell(),
           Cell(),
           Cell()};
    if (each.inputs != nullptr) {
      if (const auto length = common_length(*each.inputs)) row[1] = static_cast<std::int64_t>(*length);
      row[2] = static_cast<std::int64_t>(each.inputs->sequences.size());
    }
    if (each.peak_mib) row[8] = rounded(*each.peak_mib);
    if (!each.flops) continue;
    const double gflops = static_cast<double>(*each.flops) / each.median() / 1e6;
    row[6] = rounded(gflops);
    row[7] = rounded(gflops / peak_gflops_);
  }
  return make_table(
      "rows",
      {"stage", "length", "batch", "ms_min", "ms_median", "ms_max", "gflops", "peak_share", "peak_mib"},
      std::move(rows));
}

Results BenchRun::results() const {
  Results results;
  results.document.head.set("schema", "attnctl.bench/1")
      .set("attnctl", tool_record(session_))
      .set("model", model_record(open_.model))
      .set("repeat", options_.repeat)
      .set("peak_gflops", rounded(peak_gflops_))
      .set("read_gbs", rounded(read_gbs_));
  const Table rows = table();
  results.document.sections.push_back({"rows", "row", rows});
  results.tables.push_back(rows);
  results.text.emplace_back(TextLine{
      fmt::format("{} {}, kernels {}, {} threads: sgemm {:.1f} GFLOP/s, memory read {:.1f} GB/s", blas_name(),
                  blas_kernel(), kernels().name, session_.pool.size(), peak_gflops_, read_gbs_)});
  results.text.emplace_back(TextTable{"", rows, 3});
  return results;
}

void BenchRun::run() {
  ResultWriter writer(target_, options_.output, session_);
  const auto of_inputs = static_cast<std::size_t>(std::ranges::count(chosen_, true, &StageRow::of_inputs));
  const std::size_t stages = of_inputs * inputs_.size() + (chosen_.size() - of_inputs);
  session_.progress.begin("bench", stages * options_.repeat);
  measure_machine(3);
  measure_all([](const StageRow& row) { return row.stage == Stage::load; }, nullptr);
  for (const Batch& inputs : inputs_) {
    measure_inputs(inputs);
    measure_machine(1);
  }
  measure_all([](const StageRow& row) { return row.stage == Stage::weights; }, nullptr);
  session_.progress.end();
  writer.write(results());
  print_warnings(session_);
}

void bench(const BenchOptions& options) {
  OutputOptions output = options.output;
  if (output.format == "csv" || output.path.ends_with(".csv")) output.table = "rows";
  Target target = resolve_target(output, {Format::text, Format::json, Format::jsonl, Format::csv},
                                 files_read(options.model, options.inputs.given));
  BenchRun(options, std::move(target)).run();
}

std::vector<std::string> stage_names() {
  std::vector<std::string> names;
  for (const StageRow& row : stage_rows()) names.emplace_back(row.name);
  return names;
}

}  // namespace

Command bench_command() {
  Command command{.name = "bench",
                  .about = "Measure the time of each stage, compared with the GEMM peak of this machine"};
  auto options = std::make_shared<BenchOptions>();
  add_model_options(command, options->model);
  command.add(
      {{.names = "--lengths",
        .target = &options->inputs.lengths,
        .help = "Tokens per input (default: 16,128,512, up to the model's number of positions)",
        .type = "LIST",
        .split = true,
        .range = positive()},
       number("--batch", &options->inputs.batch, "Inputs per run (default: 1)", Range{1, 1'000'000})});
  add_sequence_options(command, options->inputs.given);
  command.add({number("--repeat", &options->repeat, "Timed runs per stage, after one warm-up run",
                      Range{1, 1'000'000}),
               {.names = "--stages",
                .target = &options->stages,
                .help = "Stages to measure (default: all)",
                .split = true,
                .allowed = stage_names()}});
  add_document_options(command, options->output, {"json", "jsonl", "csv", "text"});
  add_run_options(command, options->run);
  command.footer =
      "A multiply-add counts as 2 FLOPs. peak_share is relative to an sgemm of 2048 x 2048 x 2048 in the "
      "same run, with\n"
      "the same threads.\n"
      "Examples:\n"
      "  attnctl bench data/tiny-bert --lengths 16,64 --repeat 3 --format text\n"
      "  attnctl bench data/tiny-llama --stages forward,patterns --lengths 32 --batch 8 --threads 1\n"
      "  attnctl bench data/tiny-bert --lengths 16 --repeat 1 | jq '.rows[] | select(.stage == \"forward\")'";
  command.action = [options] { bench(*options); };
  return command;
}

}  // namespace attnctl::cli
