#include <array>
#include <cmath>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/error.hpp"
#include "cli/commands.hpp"
#include "cli/experiments/experiments.hpp"
#include "cli/options/options.hpp"
#include "cli/options/target.hpp"
#include "cli/session.hpp"
#include "cli/write_results.hpp"
#include "report/text/text.hpp"
#include "report/text/text_chart.hpp"

namespace attnctl::cli {
namespace {

/// An experiment is a row here, and a file of its own beside this one.
constexpr std::array kExperiments = {
    ExperimentRow{"averaging", "one head returns an average: several values at once want several heads",
                  add_averaging},
    ExperimentRow{"diversity", "random, specialised and trained heads: effective ranks and similarity",
                  add_diversity},
    ExperimentRow{"hull", "which keys a head can point at: the vertices of their convex hull", add_hull},
    ExperimentRow{"heads", "what splitting a width among heads costs and gives", add_heads},
    ExperimentRow{"positions", "positions: unique, relative, of any length; and what there is without them",
                  add_positions},
    ExperimentRow{"scaling", "why scores are divided by sqrt(d_k): variance, saturation, gradients",
                  add_scaling},
    ExperimentRow{"kinds", "window, block, strided, linear and axial attention: cost, and distance to full",
                  add_kinds},
    ExperimentRow{"gradients", "what the gradient of a layer is made of: a path for each head",
                  add_gradients},
    ExperimentRow{"distance", "what reaches a token from far away, in how many steps", add_distance},
};

using Files = std::vector<std::filesystem::path>;

struct ExperimentRequest {
  OutputOptions output;
  std::string picture;  // of an SVG; empty: the charts, or where there are none the first heatmaps
  bool show = false;    // charts in the text
  RunOptions run;
  Experiment experiment;
};

/// Numbers that have nothing in common stand in the column of a summary: a small one with digits of its own.
Cell own_digits(const Cell& cell, const OutputOptions& options) {
  const double* number = std::get_if<double>(&cell);
  if (number == nullptr || options.digits || *number == 0 || !(std::abs(*number) < 0.1)) return cell;
  return fmt::format("{:.3g}", *number);
}

std::string experiment_text(const ExperimentResult& result, const OutputOptions& options, TextOptions style) {
  std::string text = strong("Experiment " + result.name, style) + "\n";
  style.digits = options.digits;
  append_text_table(text, result.rows, style);
  std::vector<std::vector<Cell>> rows;
  for (const auto& [name, value] : result.summary.fields) {
    if (const Cell* single = std::get_if<Cell>(&value.data))
      rows.push_back({name, own_digits(*single, options)});
  }
  if (!rows.empty()) {
    text += '\n';
    append_text_table(text, make_table("summary", {"summary", "value"}, std::move(rows)), style);
  }
  return text;
}

/// What the charts are of.
const Table& drawn_table(const ExperimentResult& result) {
  return result.drawn.columns.empty() ? result.rows : result.drawn;
}

/// The charts as a terminal can draw them.
std::string drawn_text(const ExperimentResult& result, const TextOptions& style) {
  std::string text;
  for (const Chart& chart : result.charts) {
    text += '\n';
    append_text_chart(text, drawn_table(result), chart, style);
  }
  return text;
}

Document experiment_document(const ExperimentResult& result, const Session& session) {
  Document document;
  document.head.set("schema", "attnctl.experiment/1")
      .set("attnctl", tool_record(session))
      .set("name", result.name)
      .set("seed", static_cast<std::size_t>(result.seed))
      .set("parameters", result.parameters);
  document.sections.push_back({"rows", "row", result.rows});
  document.head.set("summary", result.summary);
  document.sections.push_back(warnings_section(session.warnings));
  return document;
}

void draw(OutputFile& out, const ExperimentResult& result, const std::string& picture, Session& session) {
  const bool charts = !result.charts.empty();
  if (picture == "charts" ? charts : picture.empty() && charts) {
    write_picture(out, "Experiment: " + result.name, drawn_table(result), result.charts, session);
    return;
  }
  std::string known = charts ? "charts" : "";
  for (const auto& [name, page] : result.heatmaps) {
    if (picture.empty() || picture == name) {
      write_picture(out, page, session);
      return;
    }
    known += (known.empty() ? "" : ", ") + name;
  }
  if (known.empty()) fail(Status::usage, "experiment {} has no picture; use text, json or csv", result.name);
  fail(Status::usage, "--picture: got {}, experiment {} has {}", escaped(picture), result.name, known);
}

void run_experiment(const ExperimentRequest& request) {
  OutputOptions options = request.output;
  if (options.format == "csv" || options.path.ends_with(".csv")) options.table = "rows";
  const Target target =
      resolve_target(options, {Format::json, Format::jsonl, Format::csv, Format::svg, Format::text},
                     request.experiment.inputs ? request.experiment.inputs() : Files{});
  if (!request.picture.empty() && target.format != Format::svg)
    fail(Status::usage, "--picture: only svg draws; add -o FILE.svg");
  Session session(request.run);
  OutputFile out(target.path);
  const ExperimentResult result = request.experiment.run(session);
  const WriteOptions write{.number = {options.digits}, .pool = &session.pool};
  switch (target.format) {
    case Format::text:
      write_text(out, target, session, [&](const TextOptions& style) {
        return experiment_text(result, options, style) + (request.show ? drawn_text(result, style) : "");
      });
      break;
    case Format::csv:
      write_table(out, result.rows, write, session);
      break;
    case Format::svg:
      draw(out, result, request.picture, session);
      break;
    default:
      write_document(out, experiment_document(result, session), target.format, write, session);
      break;
  }
  check_before_commit(session);
  out.commit();
  print_warnings(session);
}

}  // namespace

void add_seed(CLI::App& command, std::uint64_t& seed) {
  command.add_option("--seed", seed, "of the random numbers")->capture_default_str();
}

void add_experiment(CLI::App& app, Action& action) {
  CLI::App* parent = app.add_subcommand("experiment", "The experiments of the textbook: tables and pictures");
  parent->require_subcommand(1);
  for (const ExperimentRow& row : kExperiments) {
    CLI::App* command = parent->add_subcommand(row.name, row.about);
    auto request = std::make_shared<ExperimentRequest>();
    request->experiment = row.add(*command);
    add_document_options(*command, request->output, {"json", "jsonl", "csv", "svg", "text"});
    command->add_option("--picture", request->picture, "of an svg: charts (default), or heatmaps by name");
    command->add_flag("--show", request->show, "with text: draw the charts too");
    add_run_options(*command, request->run);
    command->callback([&action, request] { action = [request] { run_experiment(*request); }; });
  }
  parent->footer("Examples:\n  attnctl experiment scaling --format text");
}

}  // namespace attnctl::cli
