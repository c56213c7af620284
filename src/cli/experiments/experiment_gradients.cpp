#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/error.hpp"
#include "cli/experiments/experiment_model.hpp"
#include "cli/experiments/experiments.hpp"
#include "cli/options/inputs.hpp"
#include "textbook/gradients.hpp"

namespace attnctl::cli {
namespace {

struct GradientsRequest {
  GradientsOptions made;
  ModelExperimentOptions trained;
  std::string heads;                    // number of heads; with --model, a list of heads
  std::string target;                   // empty: the token with the largest logit
  std::optional<std::size_t> position;  // nullopt: the last position
};

std::size_t head_count(const std::string& heads) {
  constexpr std::size_t most = 4096;
  const bool is_number = heads.size() < 5 && heads.find_first_not_of("0123456789") == std::string::npos;
  const std::size_t count = is_number ? std::stoul(heads) : 0;
  if (count == 0 || count > most)
    fail(Status::usage, "--heads: got {}, need a number of heads from 1 to {}", escaped(heads), most);
  return count;
}

/// Returns the id of --target: a number, a token of the vocabulary, or its text without the word mark.
std::size_t target_id(const std::string& target, const OpenModel& open) {
  const Vocabulary& vocabulary = open.vocabulary;
  std::optional<std::int64_t> id;
  if (target.find_first_not_of("0123456789") == std::string::npos && target.size() < 10) {
    id = std::stoll(target);
  } else {
    for (const char* mark : {"", "\u0120", "\u2581"}) {
      if (!id) id = vocabulary.id(mark + target);
    }
  }
  if (!id) fail(Status::usage, "--target: \"{}\" is no token of the vocabulary", escaped(target));
  const std::size_t size = open.model.config().embedding.vocabulary;
  if (static_cast<std::size_t>(*id) >= size)
    fail(Status::usage, "--target: the model has ids 0 to {}, got {}", size - 1, *id);
  return static_cast<std::size_t>(*id);
}

LogitAttribution trace_back(const GradientsRequest& request, const ModelRun& run, const Sequence& sequence,
                            std::optional<std::size_t> token, Session& session) {
  const std::size_t position = request.position.value_or(sequence.queries() - 1);
  if (position >= sequence.queries())
    fail(Status::usage, "--position: input {} has positions 0 to {}, got {}", escaped(sequence.id),
         sequence.queries() - 1, position);
  LogitAttribution result = attribute(
      logit_gradient(run.open.model, sequence, {position, token}, session.pool), run.selection.heads);
  result.input = sequence.id;
  result.tokens = sequence.tokens;
  result.position = position;
  if (const auto text = run.open.vocabulary.token(static_cast<std::int64_t>(result.target)))
    result.target_text = *text;
  return result;
}

ExperimentResult run_gradients(const GradientsRequest& request, Session& session) {
  if (!request.trained.given()) {
    GradientsOptions made = request.made;
    if (!request.heads.empty()) made.heads = head_count(request.heads);
    return gradients_experiment(made, session.pool);
  }
  ModelExperimentOptions trained = request.trained;
  trained.selection.heads = request.heads;
  const ModelRun run(trained, request.made.seed, session);
  std::optional<std::size_t> token;
  if (!request.target.empty()) token = target_id(request.target, run.open);
  std::vector<LogitAttribution> inputs;
  session.progress.begin("gradients", run.batch.sequences.size());
  for (const Sequence& sequence : run.batch.sequences) {
    inputs.push_back(trace_back(request, run, sequence, token, session));
    session.progress.advance();
  }
  session.progress.end();
  ExperimentResult result = gradients_of_model(inputs);
  result.seed = request.made.seed;
  run.describe(result.parameters);
  return result;
}

/// Adds the options of the layer with random weights.
void add_made_options(CLI::App& command, GradientsOptions& options, CLI::Option* model) {
  command.add_option("--n", options.n, "tokens")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str()
      ->excludes(model);
  command.add_option("--d", options.d, "size of the model")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str()
      ->excludes(model);
  command.add_option("--d-k", options.d_k, "sizes of queries and keys (default: d / heads)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 4096))
      ->excludes(model);
  command
      .add_option("--checks", options.checks,
                  "entries of each path that are checked against central differences")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str()
      ->excludes(model);
}

}  // namespace

Experiment add_gradients(CLI::App& command) {
  auto request = std::make_shared<GradientsRequest>();
  CLI::Option* model = add_model_experiment(command, request->trained);
  command.add_option("--layers", request->trained.selection.layers, "with --model: layers, such as 0,3-5")
      ->type_name("LIST")
      ->needs(model);
  command
      .add_option("--heads", request->heads,
                  "how many, they divide --d (default: 4); with --model: which, such as 0.1,2.3")
      ->type_name("NUMBER|LIST");
  command
      .add_option("--target", request->target,
                  "with --model: the token (or id) whose logit is traced back (default: the largest logit)")
      ->type_name("TOKEN")
      ->needs(model);
  command
      .add_option("--position", request->position, "with --model: of that logit (default: the last position)")
      ->check(CLI::NonNegativeNumber)
      ->needs(model);
  add_made_options(command, request->made, model);
  add_seed(command, request->made.seed);
  command.footer(
      "Examples:\n  attnctl experiment gradients --format text\n"
      "  attnctl experiment gradients --d-k 1,4,16,64,256 -o gradients.svg\n"
      "  attnctl experiment gradients --model data/tiny-llama --text \"The cat sat\" --format text");
  Experiment experiment([request](Session& session) { return run_gradients(*request, session); });
  experiment.inputs = [request] { return files_read(request->trained.model, request->trained.inputs); };
  return experiment;
}

}  // namespace attnctl::cli
