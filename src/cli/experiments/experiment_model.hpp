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

/// An experiment on a trained model, in place of numbers that it makes itself.
struct ModelExperimentOptions {
  ModelOptions model;  // empty: no --model
  InputOptions inputs;
  SelectionOptions selection;

  [[nodiscard]] bool given() const { return !model.model.empty(); }
};

/// --model, and --config and the inputs, which need it. Returns --model.
CLI::Option* add_model_experiment(CLI::App& command, ModelExperimentOptions& options);
/// --layers and --heads, which need --model.
void add_model_heads(CLI::App& command, ModelExperimentOptions& options, CLI::Option* model);

/// A model with its inputs: those of the command line, else one sequence of seeded random ids.
struct ModelRun {
  OpenModel open;
  Batch batch;
  Selection selection;

  ModelRun(const ModelExperimentOptions& options, std::uint64_t seed, Session& session);
  void observe(Observer& observer, Session& session) const;
  /// "model", "inputs", "tokens": for an experiment's parameters.
  void describe(Record& parameters) const;
};

}  // namespace attnctl::cli
