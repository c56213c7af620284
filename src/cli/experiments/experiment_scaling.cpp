#include <memory>

#include <CLI/CLI.hpp>

#include "cli/experiments/experiment_model.hpp"
#include "cli/experiments/experiments.hpp"
#include "cli/options/inputs.hpp"
#include "textbook/scaling.hpp"

namespace attnctl::cli {
namespace {

struct ScalingRequest {
  ScalingOptions made;
  ModelExperimentOptions trained;
  double saturation = 0.99;
};

ExperimentResult run_scaling(const ScalingRequest& request, Session& session) {
  if (!request.trained.given()) return scaling_experiment(request.made, session.pool);
  const ModelRun run(request.trained, request.made.seed, session);
  Temperatures temperatures(run.selection, request.saturation);
  run.observe(temperatures, session);
  ExperimentResult result = scaling_of_model(temperatures.finish(session.pool));
  result.seed = request.made.seed;
  run.describe(result.parameters);
  result.parameters.set("saturation", request.saturation);
  return result;
}

}  // namespace

Experiment add_scaling(CLI::App& command) {
  auto request = std::make_shared<ScalingRequest>();
  ScalingOptions& made = request->made;
  CLI::Option* model = add_model_experiment(command, request->trained);
  add_model_heads(command, request->trained, model);
  command
      .add_option("--saturation", request->saturation,
                  "with --model: a row is saturated where its largest weight is over this")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str()
      ->needs(model);
  command.add_option("--d-k", made.d_k, "sizes of queries and keys")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str()
      ->excludes(model);
  command.add_option("--keys", made.keys, "keys of a query")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str()
      ->excludes(model);
  command
      .add_option("--components", made.components,
                  "components of queries drawn for each d_k; at least 2048 queries")
      ->check(CLI::Range(1, 1 << 26))
      ->capture_default_str()
      ->excludes(model);
  add_seed(command, made.seed);
  command.footer(
      "Examples:\n  attnctl experiment scaling --format text\n"
      "  attnctl experiment scaling --d-k 16,64,256 -o scaling.svg\n"
      "  attnctl experiment scaling --model data/tiny-bert --text \"The cat sat on the mat.\" --format text");
  Experiment experiment([request](Session& session) { return run_scaling(*request, session); });
  experiment.inputs = [request] { return files_read(request->trained.model, request->trained.inputs); };
  return experiment;
}

}  // namespace attnctl::cli
