#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "cli/session.hpp"
#include "textbook/experiments.hpp"

namespace attnctl::cli {

/// The functions of one experiment. They use the parsed options of the experiment.
struct Experiment {
  using Inputs = std::vector<std::filesystem::path>;
  using Outputs = std::vector<OutputPath>;

  std::function<textbook::ExperimentResult(Session& session)> run;
  /// Return the files that the experiment reads, and those that it writes in addition to -o, for
  /// check_outputs().
  std::function<Inputs()> inputs = [] { return Inputs(); };
  std::function<Outputs()> outputs = [] { return Outputs(); };
};

/// Return the options after setting Option::needs (with_model) or Option::excludes (without_model) of each to
/// --model.
[[nodiscard]] std::vector<Option> with_model(std::vector<Option> options);
[[nodiscard]] std::vector<Option> without_model(std::vector<Option> options);
/// Adds --seed.
void add_seed(Command& command, std::uint64_t& seed);

// The experiments of model_experiments.cpp. Each function adds the options of an experiment to `command` and
// returns the experiment to run.
Experiment add_scaling(Command& command);
Experiment add_kinds(Command& command);
Experiment add_gradients(Command& command);
Experiment add_distance(Command& command);

}  // namespace attnctl::cli
