#include <memory>

#include <CLI/CLI.hpp>

#include "cli/experiments/experiments.hpp"
#include "textbook/averaging.hpp"

namespace attnctl::cli {

Experiment add_averaging(CLI::App& command) {
  auto options = std::make_shared<AveragingOptions>();
  command.add_option("--targets", options->targets, "tokens to return at once, and heads, at most")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command.add_option("--others", options->others, "further tokens")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command.add_option("--d-value", options->d_value, "size of the values")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command.add_option("--sharpness", options->sharpness, "score of what a query looks for, others have 0")
      ->check(CLI::Range(0.0, 700.0))
      ->capture_default_str();
  command.add_option("--steps", options->steps, "of the descent that looks for a smaller error")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  add_seed(command, options->seed);
  command.footer(
      "Examples:\n  attnctl experiment averaging --targets 3 --format text\n"
      "  attnctl experiment averaging -o averaging.svg");
  return [options](Session& session) { return averaging_experiment(*options, session.pool); };
}

}  // namespace attnctl::cli
