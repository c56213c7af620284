#pragma once

namespace attnctl::cli {

/// Runs the program: parses the command line, runs the subcommand and prints at most one line with an error.
/// Returns the exit status (docs/cli.md).
int run(int argc, char** argv);

}  // namespace attnctl::cli
