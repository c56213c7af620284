#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/session.hpp"
#include "textbook/experiments.hpp"

namespace attnctl::cli {

struct Experiment {
  std::function<textbook::ExperimentResult(Session& session)> run;
  /// The value of an option that may be a file; null if there is no such option.
  const std::string* input = nullptr;
  /// Returns the files that the experiment writes in addition to -o, for check_outputs().
  std::function<std::vector<OutputPath>()> outputs = [] { return std::vector<OutputPath>(); };
};

/// Return the options, which now need --model (with_model) or exclude it (without_model).
[[nodiscard]] std::vector<Option> with_model(std::vector<Option> options);
[[nodiscard]] std::vector<Option> without_model(std::vector<Option> options);
void add_seed(Command& command, std::uint64_t& seed);

// The experiments of model_experiments.cpp. Each function adds the options of an experiment to `command` and
// returns the experiment to run, which refers to `options`: the model, the inputs and the heads.
Experiment add_scaling(Command& command, CommandOptions& options);
Experiment add_kinds(Command& command, CommandOptions& options);
Experiment add_gradients(Command& command, CommandOptions& options);
Experiment add_distance(Command& command, CommandOptions& options);

}  // namespace attnctl::cli
