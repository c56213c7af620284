#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/files/output_file.hpp"
#include "cli/options/analysis_request.hpp"
#include "cli/options/inputs.hpp"
#include "cli/options/selection.hpp"
#include "cli/options/target.hpp"
#include "cli/result_writer.hpp"
#include "cli/session.hpp"
#include "inspect/inspection.hpp"
#include "report/npz.hpp"

namespace attnctl::cli {
namespace {

/// Applies a head "3.1" or "enc.3.1", or a layer "3" or "enc.3", to the selection.
void select_shown(AnalysisRequest& request) {
  using Prefix = std::pair<const char*, const char*>;
  constexpr std::array kPrefixes = {Prefix{"enc.", "encoder"}, Prefix{"dec.", "decoder"},
                                    Prefix{"cross.", "cross"}};
  const std::string& show = request.show;
  for (const auto& [prefix, component] : kPrefixes) {
    if (!show.starts_with(prefix) || std::ranges::count(show, '.') != 1) continue;
    request.selection.component = component;
    request.selection.layers = show.substr(show.find('.') + 1);
    return;
  }
  const bool head = show.find('.') != std::string::npos;
  (head ? request.selection.heads : request.selection.layers) = show;
}

/// Applies --show to a request: selects the patterns of head L.H, or of all heads of layer L, as a picture.
/// Throws Error(usage) if other options contradict it.
void apply_show(AnalysisRequest& request) {
  if (request.show.empty()) return;
  if (!request.selection.layers.empty() || !request.selection.heads.empty()) {
    fail(Status::usage, "--show names the heads itself: leave out --layers and --heads");
  }
  if (request.include_given) fail(Status::usage, "--show draws patterns: leave out --include");
  const bool picture =
      request.output.format.empty() || request.output.format == "text" || request.output.format == "svg";
  if (!picture) fail(Status::usage, "--show draws: --format text or svg, got {}", request.output.format);
  if (request.weighting == Weighting::norm && request.output.format != "svg" &&
      !request.output.path.ends_with(".svg")) {
    fail(Status::usage, "--show draws weights from 0 to 1: use --weighting norm-row, or draw an svg");
  }
  select_shown(request);
  request.selection.include = "patterns";
  request.include_given = true;
  if (request.output.path.empty() && request.output.format.empty()) request.output.format = "text";
}

inspect::Form form_of(Format format) {
  switch (format) {
    case Format::json:
    case Format::jsonl:
      return inspect::Form::document;
    case Format::csv:
      return inspect::Form::tables;
    case Format::npz:
      return inspect::Form::arrays;
    case Format::svg:
      return inspect::Form::pictures;
    case Format::text:
      return inspect::Form::text;
  }
  throw std::logic_error("a format without a form");
}

/// Returns the request with all options except the heads.
inspect::InspectRequest inspect_request(const AnalysisRequest& options, Format format) {
  const SelectionOptions& selection = options.selection;
  const inspect::Form form = form_of(format);
  return {.includes =
              inspect::resolve_includes(selection.include, options.include_given, options.with_inputs, form),
          .selection = {},
          .form = form,
          .format = to_string(format),
          .across_layers = selection.across_layers,
          .fold_norm = selection.fold_norm,
          .directions = selection.directions,
          .order = selection.order,
          .similarity = selection.similarity,
          .per_input = selection.per_input,
          .from = options.from,
          .to = options.to,
          .draw = !options.show.empty(),
          .draw_layers = !options.show.empty() && selection.heads.empty(),
          .by_word = options.by_word,
          .pool_from = options.pool_from,
          .weighting = options.weighting,
          .rollout = options.rollout,
          .rollout_from = options.rollout_from,
          .output_rank = options.output_rank,
          .output_ranks = options.output_ranks,
          .sort = options.output.sort,
          .top = options.output.top,
          .limit = options.run.limit,
          .memory = options.run.memory};
}

void write_npz(inspect::Inspection& inspection, const Target& target, const OutputOptions& options,
               Session& session) {
  OutputFile out(target.path);
  NpzWriter npz(out, {.compress = options.compress, .pool = &session.pool});
  inspection.run(npz);
  warn_non_finite(session.warnings, "arrays", npz.non_finite());
  check_before_commit(session);  // close() sends the file to a pipe, so the checks run first
  npz.close();
  out.commit();
}

}  // namespace

void run_analysis(AnalysisRequest options) {
  apply_show(options);
  const Target target = resolve_target(
      options.output, {Format::json, Format::jsonl, Format::csv, Format::npz, Format::svg, Format::text},
      files_read(options.model, options.inputs));
  inspect::InspectRequest request = inspect_request(options, target.format);
  Session session(options.run);
  OpenModel open = open_model(options.model, session.warnings);
  request.selection = select_heads(options.selection, open.model.config(),
                                   !options.with_inputs || options.inputs.has_targets());
  open.model = with_attention_option(open.model, options.selection);
  inspect::InspectSubject subject{open.model, open.vocabulary};
  if (options.with_inputs) {
    subject.batch = read_inputs(options.inputs, open, session.warnings);
    subject.grid = axial_grid(options.selection, options.inputs, open.model, subject.batch);
  }
  inspect::Inspection inspection(
      request, std::move(subject),
      {.pool = session.pool, .warnings = session.warnings, .progress = &session.progress});
  if (target.format == Format::npz) {
    write_npz(inspection, target, options.output, session);
  } else {
    ResultWriter writer(target, options.output, session);
    Results found = inspection.run();
    Results results;
    results.document.head.set("schema", "attnctl.analysis/1")
        .set("attnctl", tool_record(session))
        .set("model", model_record(open.model));
    results.append(std::move(found));
    writer.write(results);
  }
  print_warnings(session);
}

}  // namespace attnctl::cli
