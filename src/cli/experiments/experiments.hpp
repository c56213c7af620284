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

/// What an experiment's options leave to be run.
struct Experiment {
  template <typename Run>
  requires(std::is_invocable_r_v<ExperimentResult, Run&, Session&>)
      Experiment(Run what)  // NOLINT(google-explicit-constructor): a lambda is an experiment
      : run(std::move(what)) {}
  Experiment() = default;

  std::function<ExperimentResult(Session& session)> run;
  /// Returns the files that it reads, for check_outputs(); empty: it reads none.
  std::function<std::vector<std::filesystem::path>()> inputs;
  /// Returns the files that it writes besides -o; empty: it writes none.
  std::function<std::vector<OutputPath>()> outputs;
};

/// One experiment of the table in experiment.cpp: its name, what it shows, and its options, which are added
/// to `command`; what it returns runs it.
struct ExperimentRow {
  const char* name;
  const char* about;
  Experiment (*add)(CLI::App& command);
};

/// --seed.
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
