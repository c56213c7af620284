#include <memory>

#include <CLI/CLI.hpp>

#include "cli/commands.hpp"
#include "cli/options/analysis_request.hpp"

namespace attnctl::cli {

void add_weights(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("weights", "The weights-only analyses: similarity of heads, ranks, directions");
  auto request = std::make_shared<AnalysisRequest>();
  request->with_inputs = false;
  add_model_options(*command, request->model);
  add_selection_options(*command, request->selection, "weights,directions");
  add_output_options(*command, request->output);
  add_run_options(*command, request->run);
  command->footer(
      "Examples:\n"
      "  attnctl weights data/tiny-llama --format text\n"
      "  attnctl weights data/tiny-llama --layers 2 --format svg > similarity.svg\n"
      "  attnctl weights data/tiny-llama --include subspaces,composition --format text\n"
      "  attnctl weights data/tiny-bert --across-layers --order cluster --format svg > heads.svg\n"
      "  attnctl weights data/tiny-bert --across-layers --include weights | jq "
      "'.subspace_similarity[0].heads'");
  command->callback([&action, request, command] {
    request->include_given = command->count("--include") > 0;
    action = [request] { run_analysis(*request); };
  });
}

}  // namespace attnctl::cli
