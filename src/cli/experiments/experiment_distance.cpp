#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "cli/experiments/experiment_model.hpp"
#include "cli/experiments/experiments.hpp"
#include "cli/options/inputs.hpp"
#include "textbook/distance.hpp"

namespace attnctl::cli {
namespace {

struct DistanceRequest {
  DistanceOptions built;
  ModelExperimentOptions trained;
  std::string by = "layer";
};

ExperimentResult run_distance(const DistanceRequest& request, Session& session) {
  if (!request.trained.given()) return distance_experiment(request.built);
  const ModelRun run(request.trained, request.built.seed, session);
  DistanceProfile profile(run.selection);
  run.observe(profile, session);
  ExperimentResult result = distance_of_model(profile.finish(), profile.bins(), request.by == "head");
  result.seed = request.built.seed;
  run.describe(result.parameters);
  result.parameters.set("by", request.by);
  return result;
}

/// Adds the options of the constructed head and of its comparison.
void add_built_options(CLI::App& command, DistanceOptions& options, CLI::Option* model) {
  command.add_option("--n", options.n, "position of the query; the event is at 1")
      ->check(CLI::Range(2, 1 << 14))
      ->capture_default_str()
      ->excludes(model);
  command.add_option("--d", options.d, "size of a token")
      ->check(CLI::Range(2, 4096))
      ->capture_default_str()
      ->excludes(model);
  command.add_option("--d-k", options.d_k, "size of queries and keys")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str()
      ->excludes(model);
  command.add_option("--strength", options.strength, "score of the event, beside 0 of the other tokens")
      ->check(CLI::Range(0.0, 1000.0))
      ->capture_default_str()
      ->excludes(model);
  command.add_option("--noise", options.noise, "norm of each token's own part")
      ->check(CLI::Range(0.0, 1000.0))
      ->capture_default_str()
      ->excludes(model);
  command.add_option("--window", options.window, "tokens that a local layer sees")
      ->check(CLI::Range(2, 1024))
      ->capture_default_str()
      ->excludes(model);
  command.add_option("--decay", options.decay, "what a recurrence keeps in a step")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str()
      ->excludes(model);
}

}  // namespace

Experiment add_distance(CLI::App& command) {
  auto request = std::make_shared<DistanceRequest>();
  CLI::Option* model = add_model_experiment(command, request->trained);
  add_model_heads(command, request->trained, model);
  command.add_option("--by", request->by, "with --model: a row for each layer, or for each head")
      ->check(CLI::IsMember({"layer", "head"}))
      ->capture_default_str()
      ->needs(model);
  add_built_options(command, request->built, model);
  add_seed(command, request->built.seed);
  command.footer(
      "Examples:\n  attnctl experiment distance --format text\n"
      "  attnctl experiment distance --model data/tiny-llama --input data/tiny-llama/sentences.jsonl -o "
      "distance.svg");
  Experiment experiment([request](Session& session) { return run_distance(*request, session); });
  experiment.inputs = [request] { return files_read(request->trained.model, request->trained.inputs); };
  return experiment;
}

}  // namespace attnctl::cli
