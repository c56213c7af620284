#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "analysis/heads_table.hpp"
#include "analysis/patterns/capture.hpp"
#include "analysis/weights/weights.hpp"
#include "base/checked.hpp"
#include "base/error.hpp"
#include "base/files/output_file.hpp"
#include "cli/analyses/analysis_part.hpp"
#include "cli/analyses/analysis_plan.hpp"
#include "cli/analyses/document.hpp"
#include "cli/analyses/memory_plan.hpp"
#include "cli/analyses/npz_results.hpp"
#include "cli/analyses/pass_observers.hpp"
#include "cli/analyses/pictures.hpp"
#include "cli/analyses/results.hpp"
#include "cli/analyses/shapes.hpp"
#include "cli/analyses/summary.hpp"
#include "cli/analyses/tables.hpp"
#include "cli/options/analysis_request.hpp"
#include "cli/options/selection.hpp"
#include "cli/options/inputs.hpp"
#include "cli/options/target.hpp"
#include "cli/result_writer.hpp"
#include "cli/session.hpp"
#include "forward/run.hpp"
#include "report/npz.hpp"

namespace attnctl::cli {
namespace {

/// One run of `analyze` or `weights`. The constructor resolves and checks all options. run() computes and
/// writes the results.
class AnalysisRun {
 public:
  explicit AnalysisRun(const AnalysisRequest& request);
  void run();

 private:
  struct Part {
    Captured what;
    std::size_t sequence;
    std::size_t component;  // index into components_
    Shape shape;
  };
  using Targets = PassTargets;

  /// Returns the batch that the results describe.
  [[nodiscard]] const Batch& shown() const { return request_.by_word ? words_ : batch_; }
  void plan_words();
  void plan_parts();
  void plan_parts(std::size_t component);
  void check_sizes();
  void plan_memory_use(std::uint64_t kept_values);
  [[nodiscard]] PassRequest pass_request(const Targets& targets) const;
  void compute(RunResults& results, const Targets& targets);
  [[nodiscard]] Selection shown_heads(HeadsSeen seen) const;
  void run_pass(RunResults& results, const Targets& targets);
  void run_to_npz(RunResults& results);
  [[nodiscard]] Results finished(const RunResults& found) const;
  void run_in_memory(RunResults& results);

  const AnalysisRequest& request_;
  Target target_;
  Includes includes_;
  Session session_;
  OpenModel open_;
  Selection selection_;
  std::vector<ComponentHeads> components_;  // the selection, split by component
  Batch batch_;                             // batch of the forward pass
  std::optional<AxialGrid> grid_;  // --attention axial: batch_ holds the columns and rows of this grid
  std::vector<WordUnits> units_;   // --by-word: words of each sequence
  Batch words_;                    // --by-word: batch that the results describe
  std::vector<Question> questions_;
  std::vector<Part> parts_;                              // arrays of the forward pass to capture
  std::optional<WeightsAnalysis> weights_;               // set by compute()
  std::vector<std::unique_ptr<AnalysisPart>> analyses_;  // further analyses of --include
  Streaming streaming_;
};

AnalysisRun::AnalysisRun(const AnalysisRequest& request)
    : request_(request),
      target_(resolve_target(
          request.output, {Format::json, Format::jsonl, Format::csv, Format::npz, Format::svg, Format::text},
          files_read(request.model, request.inputs))),
      includes_(resolve_includes(request, target_)),
      session_(request.run),
      open_(open_model(request.model, session_.warnings)),
      selection_(select_heads(request.selection, open_.model.config(),
                              !request.with_inputs || request.inputs.has_targets())),
      components_(split_by_component(selection_, open_.model.config())) {
  check_components(request, includes_, components_);
  open_.model = with_attention_option(open_.model, request.selection);
  if (request.with_inputs) {
    batch_ = read_inputs(request.inputs, open_, session_.warnings);
    grid_ = axial_grid(request.selection, request.inputs, open_.model, batch_);
    check_batch(open_.model, batch_);
  }
  if (request.by_word) plan_words();
  questions_ =
      resolve_questions(request, shown(), components_.front().component, open_.vocabulary, session_.warnings);
  plan_parts();
  for (const PartRow* part : includes_.parts) {
    analyses_.push_back(
        part->make({request_, open_, selection_, batch_, shown(), units_, weights_, session_}));
  }
  check_sizes();
}

void AnalysisRun::plan_words() {
  for (const Captured what : captured_parts(includes_)) {
    if (what == Captured::pattern) continue;
    fail(Status::usage, "--by-word pools patterns; leave {} out of --include", name_of(what));
  }
  for (const PartRow* part : includes_.parts) {
    if (part->by_word || !part->of_inputs) continue;
    fail(Status::usage, "--by-word pools patterns; leave {} out of --include", part->include);
  }
  if (open_.model.config().decoder)
    fail(Status::usage, "--by-word is unsupported for models of an encoder and a decoder");
  for (const Sequence& sequence : batch_.sequences) {
    units_.push_back(word_units(sequence, open_.vocabulary));
    words_.sequences.push_back(pooled_sequence(sequence, units_.back(), open_.vocabulary));
  }
}

void AnalysisRun::plan_parts() {
  for (std::size_t c = 0; c < components_.size(); ++c) plan_parts(c);
}

void AnalysisRun::plan_parts(std::size_t component) {
  const CaptureLayout layout(components_[component].selection, open_.model.config());
  for (const Captured what : captured_parts(includes_)) {
    if (what == Captured::logits && component > 0) continue;  // one array per run
    if (!layout.available(what)) {
      const std::string code = what == Captured::logits ? "no_output_head" : "not_in_checkpoint";
      session_.warnings.add(code, fmt::format("the checkpoint has nothing to give {}", name_of(what)));
      continue;
    }
    for (std::size_t s = 0; s < shown().sequences.size(); ++s) {
      parts_.push_back({what, s, component, layout.shape(what, shown().sequences[s])});
    }
  }
}

/// Checks --limit and --memory before computing.
void AnalysisRun::check_sizes() {
  std::uint64_t values = 0;
  const auto add = [&](std::uint64_t count) {
    values = checked_add(values, count).value_or(std::numeric_limits<std::uint64_t>::max());
  };
  for (const Part& part : parts_) {
    add(checked_product(part.shape).value_or(std::numeric_limits<std::size_t>::max()));
  }
  if (includes_.circuits)
    add(2 * selection_.heads.size() * open_.model.config().d_model * open_.model.config().d_model);
  for (const auto& analysis : analyses_) add(analysis->values());
  const bool streamed = target_.format == Format::npz;  // arrays are not kept in memory
  if (!streamed) check_values(values, target_.format, request_.run);
  plan_memory_use(streamed ? 0 : values);
}

Selection AnalysisRun::shown_heads(HeadsSeen seen) const {
  if (seen == HeadsSeen::selected) return selection_;
  Selection heads = Selection::all(open_.model.config());
  if (seen == HeadsSeen::all) return heads;
  const std::vector<std::size_t> layers = selection_.layers();
  std::erase_if(heads.heads, [&](HeadId head) { return !std::ranges::binary_search(layers, head.layer); });
  return heads;
}

void AnalysisRun::run_pass(RunResults& results, const Targets& targets) {
  PassObservers observers(pass_request(targets));
  if (observers.all().empty()) return;
  RunContext context{.pool = session_.pool,
                     .warnings = session_.warnings,
                     .progress = &session_.progress,
                     .streamed_rows = streaming_.rows};
  const Selection seen = shown_heads(observers.heads_seen());
  if (grid_) {
    run_axial(open_.model, batch_, *grid_, seen, observers.all(), context);
  } else {
    run_forward(open_.model, batch_, seen, observers.all(), context);
  }
  if (includes_.metrics) results.pattern_metrics = observers.metrics().finish();
  if (!questions_.empty()) results.answers = observers.answers().finish();
}

PassRequest AnalysisRun::pass_request(const Targets& targets) const {
  return {.request = request_,
          .config = open_.model.config(),
          .selection = selection_,
          .metrics = includes_.metrics,
          .components = components_,
          .targets = targets,
          .units = units_,
          .words = words_,
          .questions = questions_,
          .analyses = analyses_};
}

/// Decides before computing whether the weights stay in memory. Throws Error(limit) if the run does not fit.
void AnalysisRun::plan_memory_use(std::uint64_t kept_values) {
  if (request_.run.memory == 0) return;
  Targets targets(components_.size());
  for (const Part& part : parts_) targets[part.component].push_back({part.what, part.sequence, nullptr});
  PassObservers observers(pass_request(targets));
  WorkBytes work;
  if (!batch_.sequences.empty() && !observers.all().empty()) {
    const RunContext context{.pool = session_.pool, .warnings = session_.warnings};
    work = pass_bytes(open_.model, batch_, shown_heads(observers.heads_seen()), observers.all(), context);
  }
  work.kept += kept_values * sizeof(float);
  for (const Part& part : parts_) {
    constexpr std::size_t huge_page = std::size_t{1} << 21U;  // large arrays are rounded up to one
    if (kept_values > 0 && checked_product(part.shape).value_or(0) >= huge_page / 2) work.kept += huge_page;
  }
  if (includes_.weights || includes_.directions)
    add_weights_bytes(open_.model, selection_, request_.selection, session_.pool.size(), work);
  const auto of_weights = [](const PartRow* part) { return !part->of_inputs; };
  if (includes_.circuits || std::ranges::any_of(includes_.parts, of_weights))
    work.kept += factors_bytes(open_.model, selection_);
  streaming_ = plan_memory(request_.run, work);
}

void AnalysisRun::compute(RunResults& results, const Targets& targets) {
  if (includes_.weights || includes_.directions) {
    const WeightsOptions options{.across_layers = request_.selection.across_layers,
                                 .fold_norm = request_.selection.fold_norm,
                                 .directions = includes_.directions ? request_.selection.directions : 0,
                                 .streamed = streaming_.on};
    weights_ = analyze_weights(open_.model, selection_, options, session_.pool, session_.warnings);
  }
  if (!batch_.sequences.empty()) run_pass(results, targets);
  for (const auto& analysis : analyses_) results.parts.push_back(analysis->finish());
}

Results AnalysisRun::finished(const RunResults& found) const {
  Results results;
  results.document = analysis_document(found, session_);
  results.tables = analysis_tables(found);
  results.pictures = analysis_pictures(found);
  results.picture_hint = "include patterns or weights (similarity of heads)";
  if (target_.format == Format::text) results.text = summary_blocks(found, request_.output);
  return results;
}

void AnalysisRun::run_in_memory(RunResults& results) {
  std::deque<MemorySink> sinks;
  Targets targets(components_.size());
  for (const Part& part : parts_)
    targets[part.component].push_back(
        {part.what, part.sequence, &sinks.emplace_back(part.shape, part.what == Captured::scores)});
  ResultWriter writer(target_, request_.output, session_);
  compute(results, targets);
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    results.arrays.push_back(
        {std::string(name_of(parts_[i].what)), parts_[i].sequence, parts_[i].component, sinks[i].take()});
  }
  writer.write(finished(results));
}

void AnalysisRun::run_to_npz(RunResults& results) {
  OutputFile out(target_.path);
  NpzWriter npz(out, {.compress = request_.output.compress, .pool = &session_.pool});
  add_selection_arrays(npz, results);
  Targets targets(components_.size());
  for (const Part& part : parts_) {
    const bool of_run = part.what == Captured::logits;
    const std::string prefix = of_run ? "" : prefix_of(components_[part.component].component);
    const std::string name = fmt::format("{}{}_{}", prefix, name_of(part.what), part.sequence);
    targets[part.component].push_back(
        {part.what, part.sequence, &npz.add_streamed(name, part.shape, part.what == Captured::scores)});
  }
  compute(results, targets);
  for (const Results& part : results.parts) {
    const std::string prefix = prefix_of(components_.front().component);  // only one is allowed
    for (const Tensor& each : part.arrays) npz.add(prefix + each.name, each);
  }
  add_weights_arrays(npz, results, session_.warnings);
  warn_non_finite(session_.warnings, "arrays", npz.non_finite());
  check_before_commit(session_);  // close() sends the file to a pipe, so the checks run first
  npz.close();
  out.commit();
}

void AnalysisRun::run() {
  RunResults results{.model = open_.model,
                     .vocabulary = open_.vocabulary,
                     .batch = shown(),
                     .selection = selection_,
                     .components = components_,
                     .includes = includes_,
                     .fold_norm = request_.selection.fold_norm,
                     .order = request_.selection.order,
                     .weighting = request_.weighting,
                     .show = !request_.show.empty(),
                     .show_layers = !request_.show.empty() && request_.selection.heads.empty(),
                     .weights = weights_,
                     .pattern_metrics = {},
                     .arrays = {},
                     .questions = questions_,
                     .answers = {},
                     .parts = {}};
  if (target_.format == Format::npz) {
    run_to_npz(results);
  } else {
    run_in_memory(results);
  }
  print_warnings(session_);
}

}  // namespace

void run_analysis(const AnalysisRequest& request) {
  AnalysisRun(request).run();
}

}  // namespace attnctl::cli
