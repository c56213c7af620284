#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/error.hpp"
#include "base/files/output_file.hpp"
#include "cli/commands.hpp"
#include "cli/commands/bench_inputs.hpp"
#include "cli/commands/bench_stages.hpp"
#include "cli/commands/peak_memory.hpp"
#include "cli/options/inputs.hpp"
#include "cli/options/options.hpp"
#include "cli/options/target.hpp"
#include "cli/result_writer.hpp"
#include "cli/session.hpp"
#include "linalg/blas.hpp"
#include "linalg/kernels/kernels.hpp"
#include "linalg/machine_speed.hpp"

namespace attnctl::cli {
namespace {

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
  const BenchInputs* inputs = nullptr;  // null: the stage has no inputs
  std::vector<double> ms;               // in ascending order
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
  void measure(const StageRow& row, const BenchInputs* inputs, Warnings& warnings);
  void measure_all(bool (*chosen)(const StageRow&), const BenchInputs* inputs);
  void measure_inputs(const BenchInputs& inputs);
  void check_size(const BenchInputs& inputs) const;
  [[nodiscard]] Table table() const;
  [[nodiscard]] Results results() const;

  const BenchOptions& options_;
  Target target_;
  Session session_;
  OpenModel open_;
  std::vector<BenchInputs> inputs_;
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
void BenchRun::measure(const StageRow& row, const BenchInputs* inputs, Warnings& warnings) {
  Measurement measurement{row, inputs, {}, {}, {}};
  if (inputs != nullptr) measurement.flops = stage_flops(row.stage, open_.model.config(), inputs->lengths());
  Warnings repeated;
  restart_peak_memory();
  stages_.run(row.stage, warnings);
  for (std::size_t i = 0; i < options_.repeat; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    stages_.run(row.stage, repeated);
    const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - begin;
    measurement.ms.push_back(taken.count());
    session_.progress.advance();
  }
  measurement.peak_mib = peak_memory_mib();
  std::ranges::sort(measurement.ms);
  measurements_.push_back(std::move(measurement));
}

/// Measures the chosen stages on the same inputs. Keeps the warnings of the first stage only, because the
/// others repeat them.
void BenchRun::measure_all(bool (*chosen)(const StageRow&), const BenchInputs* inputs) {
  Warnings repeated;
  bool first = true;
  for (const StageRow& row : chosen_) {
    if (!chosen(row)) continue;
    measure(row, inputs, first ? session_.warnings : repeated);
    first = false;
  }
}

/// Throws Error(limit) before any work if these inputs are too long for the chosen stages.
void BenchRun::check_size(const BenchInputs& inputs) const {
  const auto any = [&](bool StageRow::*property) {
    return std::ranges::any_of(chosen_, [&](const StageRow& row) { return row.*property; });
  };
  if (!any(&StageRow::captured)) return;
  const std::string patterns =
      fmt::format("{}: patterns of {} tokens", options_.inputs.given.items.empty() ? "--lengths" : "inputs",
                  inputs.length().value_or(inputs.tokens()));
  const std::uint64_t values = stages_.pattern_values();
  const std::uint64_t limit = options_.run.limit;
  if (any(&StageRow::text) && values > limit) {
    fail(
        Status::limit,
        "{} are {} values as text, over --limit {}; leave write_json and write_csv out of --stages, or raise "
        "--limit",
        patterns, values, limit);
  }
  const std::uint64_t memory = options_.run.memory;
  if (memory != 0 && values > memory / sizeof(float)) {
    fail(Status::limit,
         "{} are {} values of {} bytes, over --memory {}; leave capture and what writes out of --stages",
         patterns, values, sizeof(float), memory);
  }
}

void BenchRun::measure_inputs(const BenchInputs& inputs) {
  stages_.set_inputs(inputs.batch);
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
      if (const auto length = each.inputs->length()) row[1] = static_cast<std::int64_t>(*length);
      row[2] = static_cast<std::int64_t>(each.inputs->batch.sequences.size());
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
  for (const BenchInputs& inputs : inputs_) {
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

void add_bench(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("bench", "Where the time goes, against this machine's GEMM peak");
  auto options = std::make_shared<BenchOptions>();
  add_model_options(*command, options->model);
  command
      ->add_option("--lengths", options->inputs.lengths,
                   "tokens of an input (default 16,128,512, as far as the model has positions)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::PositiveNumber)
      ->type_name("LIST");
  command->add_option("--batch", options->inputs.batch, "inputs of a run (default 1)")
      ->check(CLI::Range(1, 1'000'000));
  add_sequence_options(*command, options->inputs.given);
  command->add_option("--repeat", options->repeat, "measured runs of a stage, behind one that warms up")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--stages", options->stages, "what is measured (default: all)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember(stage_names()));
  add_document_options(*command, options->output, {"json", "jsonl", "csv", "text"});
  add_run_options(*command, options->run);
  command->footer(
      "A multiply-add is 2 FLOPs; peak_share is of a 2048-cubed sgemm on the same threads in the same run.\n"
      "Examples:\n"
      "  attnctl bench data/tiny-bert --lengths 16,64 --repeat 3 --format text\n"
      "  attnctl bench data/tiny-llama --stages forward,patterns --lengths 32 --batch 8 --threads 1\n"
      "  attnctl bench data/tiny-bert --lengths 16 --repeat 1 | jq '.rows[] | select(.stage == "
      "\"forward\")'");
  command->callback([&action, options] { action = [options] { bench(*options); }; });
}

}  // namespace attnctl::cli
