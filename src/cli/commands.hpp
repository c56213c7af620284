#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/options/command.hpp"

namespace attnctl::cli {

/// Runs the program: parses the command line, runs the subcommand and prints at most one line with an error.
/// Returns the exit status (docs/cli.md).
int run(int argc, char** argv);

// Each function returns one subcommand with its options. If the run fails, the action throws an Error, whose
// status becomes the exit status.

using MakeCommand = Command();
MakeCommand analyze_command, weights_command, info_command, tokenize_command, verify_command, bench_command;
MakeCommand experiment_command, study_command, merge_command, plan_command, compare_command;
MakeCommand series_command, explain_command, ablate_command, patch_command, attribute_command, view_command;
/// Returns the command `completion`, which prints a completion script. `root` must outlive the command and
/// must have all subcommands when the action runs.
Command completion_command(const Command& root);

/// Returns the completion script of a shell ("bash", "zsh" or "fish") for the subcommands of `root`. It
/// completes a value with the words of Option::allowed or Option::offered (joined by commas if
/// Option::split is set or Option::type starts with LIST), else with file names if Option::type or the name
/// of a positional argument contains FILE, PATH, DIR, MODEL, .npy or .npz, else with nothing.
[[nodiscard]] std::string completion_script(const Command& root, std::string_view shell);

/// Returns the text that `attnctl explain NAME` prints. Throws Error(usage) if the name is unknown.
[[nodiscard]] std::string explanation(const std::string& name);
/// Returns the names that explanation() knows, sorted.
[[nodiscard]] std::vector<std::string> explained_names();
/// Returns the names that --plot of a command can draw: columns of heads, and TABLE.COLUMN of other tables.
[[nodiscard]] std::vector<std::string> plot_names(std::string_view command);

/// The JSON Schema (draft 2020-12) of one JSON output of attnctl.
struct Schema {
  std::string_view name;  // "analysis" for documents with the schema "attnctl.analysis/2"
  std::string_view text;  // the JSON text, ending with a newline
};

/// Returns the schemas of all JSON outputs, sorted by name.
[[nodiscard]] std::span<const Schema> schemas();

/// Returns the text of one schema. `name` is short ("analysis"), complete ("attnctl.analysis/2") or the
/// name of a command ("analyze").
/// For any other name, throws Error(usage) with the list of names.
[[nodiscard]] std::string_view schema_text(std::string_view name);

}  // namespace attnctl::cli
