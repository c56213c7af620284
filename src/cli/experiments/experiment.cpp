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
#include "cli/result_writer.hpp"
#include "cli/session.hpp"

namespace attnctl::cli {
namespace {

/// The table of experiments. A new experiment is a row here and a file in this folder.
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

struct ExperimentRequest {
  OutputOptions output;
  bool show = false;  // draw charts in text output
  RunOptions run;
  Experiment experiment;
};

/// Shows each small number of the summary with three significant digits, because its values share no unit.
void give_own_digits(Results& results) {
  for (PageBlock& block : results.text) {
    TextTable* const shown = std::get_if<TextTable>(&block);
    if (shown == nullptr || shown->table.name != "summary") continue;
    shown->table.row = [row = shown->table.row](std::size_t index, std::span<Cell> cells) {
      row(index, cells);
      for (Cell& cell : cells) {
        const double* const number = std::get_if<double>(&cell);
        if (number != nullptr && *number != 0 && std::abs(*number) < 0.1)
          cell = fmt::format("{:.3g}", *number);
      }
    };
  }
}

void run_experiment(const ExperimentRequest& request) {
  OutputOptions options = request.output;
  if (options.format == "csv" || options.path.ends_with(".csv")) options.table = "rows";
  const Experiment& experiment = request.experiment;
  const Target target =
      resolve_target(options, {Format::json, Format::jsonl, Format::csv, Format::svg, Format::text},
                     experiment.inputs ? experiment.inputs() : std::vector<std::filesystem::path>(),
                     experiment.outputs ? experiment.outputs() : std::vector<OutputPath>());
  if (!options.picture.empty() && target.format != Format::svg)
    fail(Status::usage, "--picture selects a picture for SVG; add -o FILE.svg");
  Session session(request.run);
  ResultWriter writer(target, options, session);
  const ExperimentResult result = experiment.run(session);
  Results results;
  results.document.head.set("schema", "attnctl.experiment/1").set("attnctl", tool_record(session));
  results.append(results_of(result, request.show));
  if (!options.digits) give_own_digits(results);
  writer.write(results);
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
    command->add_option("--picture", request->output.picture,
                        "Picture for SVG: charts (default), or heatmaps by name");
    command->add_flag("--show", request->show, "Draw the charts in the text too");
    add_run_options(*command, request->run);
    command->callback([&action, request] { action = [request] { run_experiment(*request); }; });
  }
  parent->footer("Examples:\n  attnctl experiment scaling --format text");
}

}  // namespace attnctl::cli
