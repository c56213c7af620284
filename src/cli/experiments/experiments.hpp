#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include "cli/options/options.hpp"
#include "cli/options/target.hpp"
#include "cli/session.hpp"
#include "textbook/experiment.hpp"

namespace CLI {
class App;
}

namespace attnctl::cli {

/// The functions of one experiment, with its parsed options.
struct Experiment {
  template <typename Run>
  requires(std::is_invocable_r_v<ExperimentResult, Run&, Session&>)
      Experiment(Run what)  // NOLINT(google-explicit-constructor): lambdas convert implicitly
      : run(std::move(what)) {}
  Experiment() = default;

  std::function<ExperimentResult(Session& session)> run;
  /// Returns the files that the experiment reads, for check_outputs(). Empty if it reads none.
  std::function<std::vector<std::filesystem::path>()> inputs;
  /// Returns the files that the experiment writes in addition to -o. Empty if it writes none.
  std::function<std::vector<OutputPath>()> outputs;
};

/// A row of the table in experiment.cpp: the name and description of an experiment. `add` adds its options to
/// `command` and returns the experiment to run.
struct ExperimentRow {
  const char* name;
  const char* about;
  Experiment (*add)(CLI::App& command);
};

/// Adds --seed.
void add_seed(CLI::App& command, std::uint64_t& seed);

Experiment add_averaging(CLI::App& command);
Experiment add_diversity(CLI::App& command);
Experiment add_hull(CLI::App& command);
Experiment add_heads(CLI::App& command);
Experiment add_positions(CLI::App& command);
Experiment add_scaling(CLI::App& command);
Experiment add_kinds(CLI::App& command);
Experiment add_gradients(CLI::App& command);
Experiment add_distance(CLI::App& command);

}  // namespace attnctl::cli
