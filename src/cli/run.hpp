#pragma once

namespace attnctl::cli {

/// The whole program: parses the command line, runs the subcommand, prints at most one line of error, and
/// returns the exit status (docs/cli.md).
int run(int argc, char** argv);

}  // namespace attnctl::cli
