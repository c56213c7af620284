#pragma once

#include "attnctl/analysis/experiments/experiment.hpp"

#include <cstdint>
#include <functional>

#include "cli/options.hpp"
#include "cli/session.hpp"

namespace CLI {
class App;
}

namespace attnctl::cli {

/// What an experiment's options leave to be run.
using Experiment = std::function<ExperimentResult(Session& session)>;

/// One experiment of the table in experiments.cpp: its name, what it shows, and its options, which are added
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
Experiment add_scaling(CLI::App& command);
Experiment add_kinds(CLI::App& command);

}  // namespace attnctl::cli
