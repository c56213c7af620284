#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include "analysis/head_axes.hpp"
#include "analysis/model_summary.hpp"
#include "analysis/patterns/capture.hpp"
#include "analysis/patterns/pattern_metrics.hpp"
#include "base/memory.hpp"
#include "cli/commands.hpp"
#include "cli/options/inputs.hpp"
#include "cli/session.hpp"
#include "input/sequences.hpp"
#include "inspect/describe.hpp"
#include "inspect/inspection.hpp"
#include "linalg/blas.hpp"
#include "linalg/gemm.hpp"
#include "linalg/kernels/kernels.hpp"
#include "model/accounting/accounting.hpp"
#include "report/npz.hpp"
#include "report/writers.hpp"

namespace attnctl::cli {
namespace {

using input::Batch;
using inspect::Form;

/// Sums the weights of the pattern of each head. If `end` is true, the last layer is computed completely.
class PatternSums final : public forward::Observer {
 public:
  PatternSums(const model::ModelConfig& config, bool end) : end_(end) {
    for (const model::LayerConfig& layer : config.layers) sums_.emplace_back(layer.attention.heads);
  }
  [[nodiscard]] forward::Needs needs() const override { return {.end = end_}; }
  void panel(const forward::AttentionPanel& panel) override {
    const forward::KeyRange keys = panel.keys();
    std::array<float, 16> lanes{};  // independent sums, which the CPU adds in parallel
    for (std::size_t r = 0; r < panel.pattern.rows; ++r) {
      const std::span<const float> row = panel.pattern.row(r).subspan(keys.first, keys.size());
      std::size_t i = 0;
      for (; i + lanes.size() <= row.size(); i += lanes.size()) {
        for (std::size_t lane = 0; lane < lanes.size(); ++lane) lanes[lane] += row[i + lane];
      }
      for (; i < row.size(); ++i) lanes[i % lanes.size()] += row[i];
    }
    for (const float sum : lanes) sums_[panel.layer][panel.head] += static_cast<double>(sum);
  }

 private:
  bool end_;
  std::vector<std::vector<double>> sums_;  // [layers][heads]
};

/// Makes the forward pass compute the last layer completely, and reads no results.
class EndOfPass final : public forward::Observer {
 public:
  [[nodiscard]] forward::Needs needs() const override { return {.patterns = false, .end = true}; }
  void panel(const forward::AttentionPanel& /*panel*/) override {}
};

/// Returns a configuration for which count_flops() counts only the products that the forward pass computes.
model::ModelConfig counted_config(const model::ModelConfig& config, std::size_t length, bool to_the_end) {
  model::ModelConfig counted = config;
  counted.head.present = false;
  for (model::LayerConfig& layer : counted.layers) {
    model::AttentionConfig& attention = layer.attention;
    // A window of all tokens hides nothing more, but count_flops() counts only the visible scores of a
    // window.
    if (attention.causal && attention.kind.rule == model::AttentionKind::Rule::full)
      attention.kind = {.rule = model::AttentionKind::Rule::window, .size = std::max<std::size_t>(length, 1)};
  }
  if (!to_the_end) {
    model::LayerConfig& last = counted.layers.back();
    last.mlp.width = 0;
    last.attention.value.weight = false;
    last.attention.output.weight = false;
  }
  return counted;
}

/// The stages, which run on all heads. The write_* stages write the patterns that capture() keeps in memory
/// to a temporary file, which is deleted afterwards. They call capture() first if it has not run yet for the
/// same inputs.
class BenchStages {
 public:
  BenchStages(const ModelOptions& options, const OpenModel& open, Session& session)
      : options_(options),
        open_(open),
        session_(session),
        selection_(forward::Selection::all(open.model.config())),
        components_(analysis::split_by_component(selection_, open.model.config())) {}

  void set_inputs(Batch batch) {
    captured_.clear();
    batch_ = std::move(batch);
  }
  /// Returns the number of weights in all patterns, or the largest 64-bit number if it does not fit.
  [[nodiscard]] std::uint64_t pattern_values(const Batch& inputs) const {
    constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
    std::uint64_t values = 0;
    for (const analysis::ComponentHeads& component : components_) {
      const analysis::CaptureLayout layout(component.selection, open_.model.config());
      for (const input::Sequence& sequence : inputs.sequences) {
        const auto count = checked_product(layout.shape(analysis::Captured::pattern, sequence));
        values = saturating_sum(values, count.value_or(kMost));
      }
    }
    return values;
  }

  void load(Warnings& /*warnings*/) {
    Warnings warnings;  // already reported when the model was opened
    const OpenModel open = open_model(options_, warnings);
    (void)open.model.embedding();
    for (std::size_t layer = 0; layer < open.model.config().layers.size(); ++layer)
      (void)open.model.layer(layer, nullptr, model::WeightForm::stored);
    if (open.model.config().head.present) (void)open.model.head(nullptr, model::WeightForm::stored);
  }

  /// Sums the weights of each pattern. If `end` is false, the last layer stops after its patterns.
  template <bool end>
  void sum(Warnings& warnings) {
    PatternSums sums(open_.model.config(), end);
    forward::Observer* const observers[] = {&sums};
    pass(observers, warnings);
  }
  void analyze(Warnings& warnings) {
    analysis::PatternMetrics metrics(selection_, false);
    forward::Observer* const observers[] = {&metrics};
    pass(observers, warnings);
    (void)metrics.finish();
  }

  /// Runs all layers completely, and keeps all patterns in memory.
  void capture(Warnings& warnings) {
    captured_.clear();
    std::deque<analysis::MemorySink> sinks;
    std::deque<analysis::Capture> captures;
    EndOfPass end;
    std::vector<forward::Observer*> observers = {&end};
    for (const analysis::ComponentHeads& component : components_) {
      const analysis::CaptureLayout layout(component.selection, open_.model.config());
      std::vector<analysis::CaptureTarget> targets;
      for (std::size_t s = 0; s < batch_.sequences.size(); ++s) {
        analysis::MemorySink& sink =
            sinks.emplace_back(layout.shape(analysis::Captured::pattern, batch_.sequences[s]));
        targets.push_back({analysis::Captured::pattern, s, &sink});
      }
      observers.push_back(&captures.emplace_back(layout, targets));
    }
    pass(observers, warnings);
    for (std::size_t i = 0; i < sinks.size(); ++i) {
      const std::size_t sequences = batch_.sequences.size();
      captured_.push_back({analysis::Captured::pattern, i % sequences, i / sequences, sinks[i].take()});
    }
  }

  template <Form form>
  void write(Warnings& warnings) {
    if (captured_.empty()) capture(warnings);
    std::error_code error;
    const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
    if (error)
      fail(Status::environment, "$TMPDIR: is not a directory; set it to a directory for temporary files");
    OutputFile out(folder / fmt::format("attnctl-bench-{}", getpid()));  // never committed: no file remains
    inspect::InspectRequest request;
    request.includes.set("patterns", true);
    request.selection = selection_;
    request.form = form;
    Warnings unused;
    const forward::RunContext context{.pool = session_.pool, .warnings = unused};
    const inspect::RunResults run{
        {request, open_.model, open_.vocabulary, batch_, batch_, context}, components_, {}, captured_};
    const report::WriteOptions options{.number = {}, .pool = &session_.pool};
    if (form == Form::document) return report::write_json(out, inspect::results_of(run).document, options);
    if (form == Form::tables)
      return (void)report::write_csv_table(out, table_named(inspect::results_of(run), "patterns"), options);
    report::NpzWriter npz(out, {.pool = &session_.pool});
    inspect::add_selection_arrays(npz, run);
    for (const inspect::InputArray& each : captured_) {
      const std::string prefix = inspect::prefix_of(components_[each.component].component);
      npz.add(fmt::format("{}{}_{}", prefix, name_of(each.what), each.sequence), each.array);
    }
    npz.close();
  }

  void weights(Warnings& warnings) {
    (void)analysis::analyze_weights(open_.model, selection_, {}, session_.pool, warnings);
  }

 private:
  void pass(std::span<forward::Observer* const> observers, Warnings& warnings) const {
    forward::RunContext context{.pool = session_.pool, .warnings = warnings};
    forward::run_forward(open_.model, batch_, selection_, observers, context);
  }

  const ModelOptions& options_;
  const OpenModel& open_;
  Session& session_;
  forward::Selection selection_;
  std::vector<analysis::ComponentHeads> components_;
  Batch batch_;
  std::vector<inspect::InputArray> captured_;
};

/// The layers that a stage computes: none; all layers, but the last one only up to its patterns; or all
/// layers completely.
enum class Layers { none, to_patterns, to_end };

/// When a stage is measured: before all inputs, once per batch of inputs, or after all inputs.
enum class When { before, per_input, after };

struct StageRow {
  std::string_view name;
  void (BenchStages::*run)(Warnings& warnings);
  Layers layers;  // the layers whose products are counted as FLOPs
  When when;
  bool captured;  // keeps the patterns of all inputs in memory
  bool text;      // writes the patterns as JSON or CSV, so --limit applies
};
constexpr std::array kStages = {
    StageRow{"load", &BenchStages::load, Layers::none, When::before, false, false},
    StageRow{"forward", &BenchStages::sum<true>, Layers::to_end, When::per_input, false, false},
    StageRow{"patterns", &BenchStages::sum<false>, Layers::to_patterns, When::per_input, false, false},
    StageRow{"analyze", &BenchStages::analyze, Layers::to_patterns, When::per_input, false, false},
    StageRow{"capture", &BenchStages::capture, Layers::to_end, When::per_input, true, false},
    StageRow{"write_json", &BenchStages::write<Form::document>, Layers::none, When::per_input, true, true},
    StageRow{"write_csv", &BenchStages::write<Form::tables>, Layers::none, When::per_input, true, true},
    StageRow{"write_npz", &BenchStages::write<Form::arrays>, Layers::none, When::per_input, true, false},
    StageRow{"weights", &BenchStages::weights, Layers::none, When::after, false, false},
};

/// Returns the FLOPs of the matrix products that a stage needs for sequences of these lengths. A multiply-add
/// counts as 2. Does not count scores that the causal mask or the kind of attention hides. Returns nullopt
/// for stages without a forward pass. Throws Error(limit) if the count exceeds 64 bits.
std::optional<std::uint64_t> stage_flops(Layers layers, const model::ModelConfig& config,
                                         std::span<const std::size_t> lengths) {
  if (layers == Layers::none) return std::nullopt;
  std::map<std::size_t, std::uint64_t> inputs;  // number of inputs of each length
  for (const std::size_t length : lengths) ++inputs[length];
  std::uint64_t sum = 0;
  for (const auto& [length, count] : inputs) {
    const model::ModelConfig counted = counted_config(config, length, layers == Layers::to_end);
    const auto flops = checked_mul<std::uint64_t>(model::count_flops(counted, length).all, count);
    const auto next = flops ? checked_add<std::uint64_t>(sum, *flops) : std::nullopt;
    if (!next)
      fail(Status::limit, "{} inputs: the number of FLOPs exceeds 64 bits; use fewer inputs", lengths.size());
    sum = *next;
  }
  return sum;
}

/// If the command line has inputs, they replace the seeded inputs and are measured as one batch.
struct BenchOptions : CommandOptions {
  std::vector<std::size_t> lengths;  // empty: 16, 128 and 512, up to the model's positions
  std::optional<std::size_t> batch;  // number of inputs per run; default 1
  std::size_t repeat = 9;
  std::vector<std::string> stages;  // empty: all stages
};

/// Returns the lengths to measure. Throws Error(usage) for a length that the model does not support.
std::vector<std::size_t> choose_lengths(const BenchOptions& options, const model::ModelConfig& config) {
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
    std::ranges::copy_if(std::array<std::size_t, 3>{16, 128, 512}, std::back_inserter(lengths), fits);
    if (lengths.empty()) lengths.push_back(*config.max_positions);
    return lengths;
  }
  for (const std::size_t length : options.lengths) {
    if (!fits(length))
      fail(Status::usage, "--lengths: got {}, the model has {}", length,
           counted(*config.max_positions, "position"));
  }
  return options.lengths;
}

std::vector<std::size_t> lengths_of(const Batch& batch) {
  std::vector<std::size_t> lengths;
  std::ranges::transform(batch.sequences, std::back_inserter(lengths), &input::Sequence::queries);
  return lengths;
}

std::optional<std::size_t> common_length(const Batch& batch) {
  const std::vector<std::size_t> lengths = lengths_of(batch);
  const bool equal = std::ranges::count(lengths, lengths.front()) == std::ssize(lengths);
  return equal ? std::optional(lengths.front()) : std::nullopt;
}

/// Returns the inputs of the command line as one batch, or one seeded batch per length. Throws Error(usage)
/// for --lengths or --batch together with inputs, and the errors of the functions that it calls.
std::vector<Batch> bench_inputs(const BenchOptions& options, OpenModel& open, Warnings& warnings) {
  std::vector<Batch> all;
  if (!options.inputs.items.empty()) {
    if (!options.lengths.empty() || options.batch)
      fail(Status::usage,
           "--lengths and --batch choose random inputs; remove them, or remove the other inputs");
    all.push_back(read_inputs(options.inputs, open, warnings));
  } else {
    for (const std::size_t length : choose_lengths(options, open.model.config())) {
      Batch& batch = all.emplace_back();
      batch.sequences = seeded_inputs(open.model.config(), options.batch.value_or(1), length, length);
      input::finish_batch(batch, open.vocabulary);
    }
  }
  for (const Batch& batch : all) forward::check_batch(open.model, batch);
  return all;
}

constexpr linalg::GemmShape kPeak = {2048, 2048, 2048};
constexpr std::size_t kReadBytes = std::size_t{256} << 20;  // larger than the caches of most CPUs

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

/// Rounds to four decimals, because further digits are noise.
double rounded(double value) {
  return std::round(value * 1e4) / 1e4;
}

/// One run of `bench`. The speed of the machine changes with time, so it is measured at the beginning and
/// after the stages of each batch of inputs. Only the best measurement is used.
class BenchRun {
 public:
  explicit BenchRun(const BenchOptions& options)
      : options_(options),
        target_(resolve_target(options.output, files_read(options))),
        session_(options.run),
        open_(open_model(options.model, session_.warnings)),
        inputs_(bench_inputs(options, open_, session_.warnings)),
        stages_(options.model, open_, session_) {
    std::ranges::copy_if(kStages, std::back_inserter(chosen_), [&](const StageRow& row) {
      return options.stages.empty() || std::ranges::find(options.stages, row.name) != options.stages.end();
    });
  }

  void run() {
    ResultWriter writer(target_, options_.output, session_);
    for (const Batch& inputs : inputs_) check_size(inputs);
    const auto per_input =
        static_cast<std::size_t>(std::ranges::count(chosen_, When::per_input, &StageRow::when));
    const std::size_t stages = per_input * inputs_.size() + (chosen_.size() - per_input);
    session_.progress.begin("bench", stages * options_.repeat, "run");
    measure_machine(3);
    measure_all(When::before, nullptr);
    for (const Batch& inputs : inputs_) {
      stages_.set_inputs(inputs);
      measure_all(When::per_input, &inputs);
      stages_.set_inputs({});
      measure_machine(1);
    }
    measure_all(When::after, nullptr);
    session_.progress.end();
    writer.write("attnctl.bench/2", results());
    print_warnings(session_);
  }

 private:
  void measure_machine(std::size_t repeat) {
    peak_gflops_ = std::max(peak_gflops_, linalg::measure_sgemm(session_.pool, kPeak, repeat));
    read_gbs_ = std::max(read_gbs_, linalg::measure_read(session_.pool, kReadBytes, repeat));
  }

  /// Runs a stage once without timing it, then --repeat times with timing. The peak memory is the largest of
  /// these runs. `warnings` receives only the warnings of the first run, because the other runs repeat them.
  void measure(const StageRow& row, const Batch* inputs, Warnings& warnings) {
    Measurement measurement{row, inputs, {}, {}, {}};
    if (inputs != nullptr)
      measurement.flops = stage_flops(row.layers, open_.model.config(), lengths_of(*inputs));
    Warnings repeated;
    reset_peak_memory();
    (stages_.*row.run)(warnings);
    for (std::size_t i = 0; i < options_.repeat; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      (stages_.*row.run)(repeated);
      const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - begin;
      measurement.ms.push_back(taken.count());
      session_.progress.advance();
    }
    if (const std::uint64_t peak = memory_use().peak; peak != 0)
      measurement.peak_mib = static_cast<double>(peak) / (1 << 20);
    std::ranges::sort(measurement.ms);
    measurements_.push_back(std::move(measurement));
  }

  /// Measures the chosen stages of `when` on the same inputs. Keeps only the warnings of the first stage,
  /// because the other stages repeat them.
  void measure_all(When when, const Batch* inputs) {
    Warnings repeated;
    bool first = true;
    for (const StageRow& row : chosen_) {
      if (row.when != when) continue;
      measure(row, inputs, first ? session_.warnings : repeated);
      first = false;
    }
  }

  /// Throws Error(limit) if the patterns of these inputs exceed --limit as text or --memory in memory, or if
  /// the number of their values exceeds 64 bits.
  void check_size(const Batch& inputs) const {
    const auto any = [&](bool StageRow::*property) {
      return std::ranges::any_of(chosen_, [&](const StageRow& row) { return row.*property; });
    };
    if (!any(&StageRow::captured)) return;
    const std::vector<std::size_t> lengths = lengths_of(inputs);
    const std::size_t tokens = common_length(inputs).value_or(std::reduce(lengths.begin(), lengths.end()));
    const std::string patterns =
        fmt::format("{}: patterns of {}", options_.inputs.items.empty() ? "--lengths" : "inputs",
                    counted(tokens, "token"));
    const std::uint64_t values = stages_.pattern_values(inputs);
    if (values == std::numeric_limits<std::uint64_t>::max())
      fail(Status::limit,
           "{}: the number of attention weights does not fit 64 bits; use fewer or shorter inputs", patterns);
    const std::uint64_t limit = options_.run.limit;
    if (any(&StageRow::text) && values > limit) {
      fail(Status::limit,
           "{} are {} values as text, over --limit {}; remove write_json and write_csv from --stages, or "
           "raise --limit",
           patterns, values, limit);
    }
    const std::uint64_t memory = options_.run.memory;
    if (memory != 0 && values > memory / sizeof(float)) {
      fail(Status::limit,
           "{} are {} values of {} bytes, over --memory {}; remove capture and the write_* stages from "
           "--stages, or raise --memory",
           patterns, values, sizeof(float), memory);
    }
  }

  [[nodiscard]] Table table() const {
    std::vector<std::vector<Cell>> rows;
    for (const Measurement& each : measurements_) {
      std::vector<Cell>& row = rows.emplace_back(9);
      row[0] = std::string(each.row.name);
      row[3] = rounded(each.ms.front());
      row[4] = rounded(each.median());
      row[5] = rounded(each.ms.back());
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

  [[nodiscard]] Results results() const {
    Results results;
    results.document.head.set("model", analysis::model_record(open_.model))
        .set("repeat", options_.repeat)
        .set("peak_gflops", rounded(peak_gflops_))
        .set("read_gbs", rounded(read_gbs_));
    const Table rows = table();
    results.add_table("row", rows);
    results.text.emplace_back(
        TextLine{fmt::format("{} {}, kernels {}, {}: sgemm {:.1f} GFLOP/s, memory read {:.1f} GB/s",
                             linalg::blas_name(), linalg::blas_kernel(), linalg::kernels().name,
                             counted(session_.pool.size(), "thread"), peak_gflops_, read_gbs_)});
    results.text.emplace_back(TextTable{"", rows, 3});
    return results;
  }

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

}  // namespace

Command bench_command() {
  Command command{
      .name = "bench",
      .about = "Measure the time of each stage, compared with a large matrix product on this machine"};
  auto options = std::make_shared<BenchOptions>();
  add_model_options(command, options->model);
  command.add(
      {number("--lengths", &options->lengths,
              "Numbers of tokens per input (default: 16,128,512, up to the model's number of positions)",
              positive()),
       number("--batch", &options->batch, "Number of inputs per run (default: 1)", Range{1, 1'000'000})});
  add_sequence_options(command, options->inputs);
  command.add({number("--repeat", &options->repeat,
                      "Number of timed runs per stage, after one run that is not timed", Range{1, 1'000'000}),
               {.names = "--stages",
                .target = &options->stages,
                .help = "Stages to measure (default: all), of: " + join_texts(kStages, &StageRow::name),
                .type = "LIST",
                .split = true,
                .allowed = texts_of(kStages, &StageRow::name)}});
  options->output.default_table = "rows";
  add_document_options(command, options->output, {"json", "jsonl", "csv", "text"});
  add_run_options(command, options->run);
  command.add("Run",
              {memory_option(options->run, kMemoryEstimateHelp),
               number("--limit", &options->run.limit,
                      "Largest number of values in the patterns that are written as text (npz: no limit)")});
  command.footer =
      "The inputs are random, the same in every run, unless you give inputs. A multiply-add counts as 2 "
      "FLOPs. peak_share is the speed of a stage divided by that of a float32 product of two 2048 x 2048 "
      "matrices with the same threads.\n"
      "Examples:\n"
      "  attnctl bench data/tiny-bert --lengths 16,64 --repeat 3 --format text\n"
      "  attnctl bench data/tiny-llama --stages forward,patterns --lengths 32 --batch 8 --threads 1\n"
      "  attnctl bench data/tiny-bert --lengths 16 --repeat 1 | jq '.rows[] | select(.stage == \"forward\")'";
  command.action = [options] { BenchRun(*options).run(); };
  return command;
}

}  // namespace attnctl::cli
