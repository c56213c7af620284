#include <memory>

#include <CLI/CLI.hpp>

#include "cli/experiments/experiments.hpp"
#include "textbook/heads.hpp"

namespace attnctl::cli {

Experiment add_heads(CLI::App& command) {
  auto options = std::make_shared<HeadsOptions>();
  command.add_option("--d", options->d, "width that the heads share")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command.add_option("--heads", options->heads, "numbers of heads; each divides d")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command.add_option("--length", options->length, "tokens")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  add_seed(command, options->seed);
  command.footer(
      "Examples:\n  attnctl experiment heads --format text\n"
      "  attnctl experiment heads --d 256 --heads 1,8,32 -o heads.svg");
  return [options](Session& session) { return heads_experiment(*options, session.pool); };
}

}  // namespace attnctl::cli
