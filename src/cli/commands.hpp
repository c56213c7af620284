#pragma once

#include <string>
#include <string_view>

#include "cli/options/command.hpp"

// The subcommands. If the exit status is not 0, the action of the command throws an Error with this status.
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
/// Returns the hidden command `completion`, which the installation uses to write completion scripts. `root`
/// must have all subcommands when the action runs.
Command completion_command(const Command& root);

/// Returns the completion script of a shell ("bash", "zsh" or "fish") for the subcommands of `root`. Throws
/// Error(usage) for any other `shell`.
///
/// The script completes the value of an option with:
/// - the allowed words of the option, if there are any; words can be joined by commas if Option::split is set
///   or if Option::type starts with LIST;
/// - else file names, if the type of the option or the name of the positional argument contains FILE, PATH,
///   DIR, MODEL, .npy or .npz;
/// - else nothing.
[[nodiscard]] std::string completion_script(const Command& root, std::string_view shell);

}  // namespace attnctl::cli
