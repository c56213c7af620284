#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/session.hpp"
#include "textbook/experiments.hpp"

namespace attnctl::cli {

/// The options that experiments share, and the options of single experiments that name files.
struct ExperimentOptions : CommandOptions {
  std::string keys;   // --keys: numbers or a file
  std::string save;   // --save: a folder
  bool show = false;  // draw charts in text output
};
using Experiment = std::function<textbook::ExperimentResult(Session& session)>;

/// Return the options, which now need --model (with_model) or exclude it (without_model).
[[nodiscard]] std::vector<Option> with_model(std::vector<Option> options);
[[nodiscard]] std::vector<Option> without_model(std::vector<Option> options);
void add_seed(Command& command, std::uint64_t& seed);

// The experiments of model_experiments.cpp. Each function adds the options of an experiment to `command` and
// returns the experiment to run, which refers to `options`: the model, the inputs and the heads.
Experiment add_scaling(Command& command, ExperimentOptions& options);
Experiment add_kinds(Command& command, ExperimentOptions& options);
Experiment add_gradients(Command& command, ExperimentOptions& options);
Experiment add_distance(Command& command, ExperimentOptions& options);

}  // namespace attnctl::cli
