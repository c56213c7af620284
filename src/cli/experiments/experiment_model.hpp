#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "cli/options/options.hpp"
#include "cli/session.hpp"
#include "forward/observer.hpp"
#include "forward/run.hpp"
#include "input/batch.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace attnctl::cli {

/// Options that run an experiment on a trained model instead of on generated numbers.
struct ModelExperimentOptions {
  ModelOptions model;  // empty if --model is not given
  InputOptions inputs;
  SelectionOptions selection;

  [[nodiscard]] bool given() const { return !model.model.empty(); }
};

/// Adds --model, and the options that require it: --config and the inputs. Returns --model.
CLI::Option* add_model_experiment(CLI::App& command, ModelExperimentOptions& options);
/// Adds --layers and --heads, which require --model.
void add_model_heads(CLI::App& command, ModelExperimentOptions& options, CLI::Option* model);

/// A model with its inputs: those of the command line, or one sequence of seeded random ids if there are
/// none.
struct ModelRun {
  OpenModel open;
  Batch batch;
  Selection selection;

  ModelRun(const ModelExperimentOptions& options, std::uint64_t seed, Session& session);
  void observe(Observer& observer, Session& session) const;
  /// Adds "model", "inputs" and "tokens" to the parameters of an experiment.
  void describe(Record& parameters) const;
};

}  // namespace attnctl::cli
