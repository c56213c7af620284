#include "attnctl/analysis/experiments/scaling.hpp"

#include <memory>

#include <CLI/CLI.hpp>

#include "cli/experiments.hpp"

namespace attnctl::cli {

Experiment add_scaling(CLI::App& command) {
  auto options = std::make_shared<ScalingOptions>();
  command.add_option("--d-k", options->d_k, "sizes of queries and keys")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command.add_option("--keys", options->keys, "keys of a query")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command.add_option("--components", options->components, "components of queries drawn for each d_k")
      ->check(CLI::Range(1, 1 << 26))
      ->capture_default_str();
  add_seed(command, options->seed);
  command.footer(
      "Examples:\n  attnctl experiment scaling --format text\n"
      "  attnctl experiment scaling --d-k 16,64,256 -o scaling.svg");
  return [options](Session& session) { return scaling_experiment(*options, session.pool); };
}

}  // namespace attnctl::cli
