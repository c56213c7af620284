#include "cli/commands/bench_stages.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <filesystem>
#include <map>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "analysis/patterns/capture.hpp"
#include "analysis/patterns/pattern_metrics.hpp"
#include "analysis/weights/weights.hpp"
#include "base/checked.hpp"
#include "base/error.hpp"
#include "base/files/output_file.hpp"
#include "inspect/describe.hpp"
#include "model/accounting/accounting.hpp"
#include "report/csv.hpp"
#include "report/json.hpp"
#include "report/npz.hpp"

namespace attnctl::cli {
namespace {

constexpr std::array kStages = {
    StageRow{Stage::load, "load", false, false, false},
    StageRow{Stage::forward, "forward", true, false, false},
    StageRow{Stage::patterns, "patterns", true, false, false},
    StageRow{Stage::analyze, "analyze", true, false, false},
    StageRow{Stage::capture, "capture", true, true, false},
    StageRow{Stage::write_json, "write_json", true, true, true},
    StageRow{Stage::write_csv, "write_csv", true, true, true},
    StageRow{Stage::write_npz, "write_npz", true, true, false},
    StageRow{Stage::weights, "weights", false, false, false},
};

/// Sums the pattern of each head. If `end`, the last layer runs to its end.
class PatternSums final : public Observer {
 public:
  PatternSums(const ModelConfig& config, bool end) : end_(end) {
    for (const LayerConfig& layer : config.layers) sums_.emplace_back(layer.attention.heads);
  }
  [[nodiscard]] Needs needs() const override { return {.end = end_}; }
  void begin(const Model& /*model*/, const Batch& /*batch*/) override {}
  void panel(const AttentionPanel& panel) override {
    const KeyRange keys = panel.keys();
    std::array<float, 16> lanes{};  // independent sums, so that additions overlap
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

/// Makes the last layer run to its end, and reads no results.
class EndOfPass final : public Observer {
 public:
  [[nodiscard]] Needs needs() const override { return {.patterns = false, .end = true}; }
  void begin(const Model& /*model*/, const Batch& /*batch*/) override {}
  void panel(const AttentionPanel& /*panel*/) override {}
};

/// Returns a configuration for count_flops() that counts only the required products.
ModelConfig counted_config(const ModelConfig& config, std::size_t length, bool to_the_end) {
  ModelConfig counted = config;
  counted.head.present = false;
  for (LayerConfig& layer : counted.layers) {
    AttentionConfig& attention = layer.attention;
    if (attention.causal && attention.kind.rule == AttentionKind::Rule::full)  // counts only visible scores
      attention.kind = {.rule = AttentionKind::Rule::window, .size = std::max<std::size_t>(length, 1)};
    if (layer.experts.count > 0)
      layer.mlp.width = layer.mlp.width * layer.experts.per_token + layer.experts.shared_width;
  }
  if (!to_the_end) {
    LayerConfig& last = counted.layers.back();
    last.mlp.width = 0;
    last.attention.value.weight = false;
    last.attention.output.weight = false;
  }
  return counted;
}

/// Returns an output that is never committed, so that no file remains.
OutputFile scratch_file(const char* extension) {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  if (error) fail(Status::environment, "$TMPDIR: cannot write to this directory");
  return OutputFile(folder / fmt::format("attnctl-bench-{}.{}", getpid(), extension));
}

}  // namespace

std::span<const StageRow> stage_rows() {
  return kStages;
}

std::optional<std::uint64_t> stage_flops(Stage stage, const ModelConfig& config,
                                         std::span<const std::size_t> lengths) {
  const bool to_the_end = stage == Stage::forward || stage == Stage::capture;
  if (!to_the_end && stage != Stage::patterns && stage != Stage::analyze) return std::nullopt;
  std::map<std::size_t, std::uint64_t> inputs;  // number of inputs of each length
  for (const std::size_t length : lengths) ++inputs[length];
  std::uint64_t sum = 0;
  for (const auto& [length, count] : inputs) {
    const ModelConfig counted = counted_config(config, length, to_the_end);
    const auto flops = checked_mul<std::uint64_t>(count_flops(counted, length).all, count);
    const auto next = flops ? checked_add<std::uint64_t>(sum, *flops) : std::nullopt;
    if (!next)
      fail(Status::limit, "{} inputs: the number of FLOPs exceeds 64 bits; use fewer inputs", lengths.size());
    sum = *next;
  }
  return sum;
}

BenchStages::BenchStages(const ModelOptions& options, const OpenModel& open, Session& session)
    : options_(options),
      open_(open),
      session_(session),
      selection_(Selection::all(open.model.config())),
      components_(split_by_component(selection_, open.model.config())) {}

void BenchStages::set_inputs(Batch batch) {
  captured_.clear();
  batch_ = std::move(batch);
}

std::uint64_t BenchStages::pattern_values() const {
  std::uint64_t values = 0;
  for (const ComponentHeads& component : components_) {
    const CaptureLayout layout(component.selection, open_.model.config());
    for (const Sequence& sequence : batch_.sequences) {
      const auto count = checked_product(layout.shape(Captured::pattern, sequence));
      const auto sum = count ? checked_add<std::uint64_t>(values, *count) : std::nullopt;
      if (!sum)
        fail(Status::limit, "--lengths: {} tokens: the number of weights exceeds 64 bits",
             sequence.queries());
      values = *sum;
    }
  }
  return values;
}

void BenchStages::load() const {
  Warnings warnings;  // already reported when the model was opened
  const OpenModel open = open_model(options_, warnings);
  (void)open.model.embedding();
  for (std::size_t layer = 0; layer < open.model.config().layers.size(); ++layer)
    (void)open.model.layer(layer);
  if (open.model.config().head.present) (void)open.model.head();
}

void BenchStages::pass(std::span<Observer* const> observers, Warnings& warnings) const {
  RunContext context{.pool = session_.pool, .warnings = warnings};
  run_forward(open_.model, batch_, selection_, observers, context);
}

void BenchStages::capture(Warnings& warnings) {
  captured_.clear();
  std::deque<MemorySink> sinks;
  std::deque<Capture> captures;
  EndOfPass end;
  std::vector<Observer*> observers = {&end};
  for (const ComponentHeads& component : components_) {
    const CaptureLayout layout(component.selection, open_.model.config());
    std::vector<CaptureTarget> targets;
    for (std::size_t s = 0; s < batch_.sequences.size(); ++s) {
      MemorySink& sink = sinks.emplace_back(layout.shape(Captured::pattern, batch_.sequences[s]));
      targets.push_back({Captured::pattern, s, &sink});
    }
    observers.push_back(&captures.emplace_back(layout, targets));
  }
  pass(observers, warnings);
  for (std::size_t i = 0; i < sinks.size(); ++i) {
    const std::size_t sequences = batch_.sequences.size();
    captured_.push_back(
        {std::string(name_of(Captured::pattern)), i % sequences, i / sequences, sinks[i].take()});
  }
}

inspect::InspectRequest BenchStages::request(inspect::Form form) const {
  inspect::InspectRequest request;
  request.includes.patterns = true;
  request.selection = selection_;
  request.form = form;
  return request;
}

inspect::RunResults BenchStages::results(const inspect::InspectRequest& request, Warnings& warnings) const {
  return {.request = request,
          .model = open_.model,
          .vocabulary = open_.vocabulary,
          .batch = batch_,
          .warnings = warnings,
          .components = components_,
          .arrays = captured_};
}

void BenchStages::write_json() const {
  OutputFile out = scratch_file("json");
  Warnings warnings;
  const inspect::InspectRequest asked = request(inspect::Form::document);
  const inspect::RunResults shown = results(asked, warnings);
  attnctl::write_json(out, results_of(shown).document, {.number = {}, .pool = &session_.pool});
}

void BenchStages::write_csv() const {
  OutputFile out = scratch_file("csv");
  Warnings warnings;
  const inspect::InspectRequest asked = request(inspect::Form::tables);
  const inspect::RunResults shown = results(asked, warnings);
  const Results found = results_of(shown);
  write_csv_table(out, table_named(found, "patterns"), {.number = {}, .pool = &session_.pool});
}

void BenchStages::write_npz() const {
  OutputFile out = scratch_file("npz");
  NpzWriter npz(out, {.pool = &session_.pool});
  Warnings warnings;
  const inspect::InspectRequest asked = request(inspect::Form::arrays);
  inspect::add_selection_arrays(npz, results(asked, warnings));
  for (const inspect::InputArray& each : captured_) {
    const std::string prefix = inspect::prefix_of(components_[each.component].component);
    npz.add(fmt::format("{}{}_{}", prefix, each.name, each.sequence), each.array);
  }
  npz.close();
}

void BenchStages::run(Stage stage, Warnings& warnings) {
  const ModelConfig& config = open_.model.config();
  const bool writes = stage == Stage::write_json || stage == Stage::write_csv || stage == Stage::write_npz;
  if (writes && captured_.empty()) capture(warnings);
  switch (stage) {
    case Stage::load:
      return load();
    case Stage::forward:
    case Stage::patterns: {
      PatternSums sums(config, stage == Stage::forward);
      Observer* const observers[] = {&sums};
      return pass(observers, warnings);
    }
    case Stage::analyze: {
      PatternMetrics metrics(selection_, false);
      Observer* const observers[] = {&metrics};
      pass(observers, warnings);
      (void)metrics.finish();
      return;
    }
    case Stage::capture:
      return capture(warnings);
    case Stage::write_json:
      return write_json();
    case Stage::write_csv:
      return write_csv();
    case Stage::write_npz:
      return write_npz();
    case Stage::weights:
      (void)analyze_weights(open_.model, selection_, {}, session_.pool, warnings);
      return;
  }
}

}  // namespace attnctl::cli
