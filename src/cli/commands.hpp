#pragma once

#include <string>
#include <string_view>

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

/// Returns the completion script of a shell ("bash", "zsh" or "fish") for the subcommands of `root`. Throws
/// Error(usage) for any other name.
///
/// The options decide their completions:
/// - the allowed words, if there are any; they are joined by commas if the option splits its value or has a
///   type that starts with LIST;
/// - or else files, if the type or the name of a positional argument contains FILE, PATH, DIR, MODEL, .npy or
///   .npz;
/// - otherwise nothing.
[[nodiscard]] std::string completion_script(const Command& root, std::string_view shell);

}  // namespace attnctl::cli
