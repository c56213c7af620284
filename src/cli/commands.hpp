#pragma once

#include "cli/options/command.hpp"

// The subcommands. The action of a command throws Error for every status except 0.
namespace attnctl::cli {

Command analyze_command();
Command weights_command();
Command info_command();
Command tokenize_command();
Command verify_command();
Command bench_command();
Command experiment_command();
Command study_command();
Command merge_command();
Command plan_command();
Command schema_command();
/// Returns a hidden command that the installation uses. `root` has all subcommands when the action runs.
Command completion_command(const Command& root);

}  // namespace attnctl::cli
