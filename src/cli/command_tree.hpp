#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace attnctl::cli {

/// An option or a positional argument, as shell completion needs it.
struct Argument {
  std::vector<std::string> names;  // "-o", "--output"; empty for a positional argument
  std::string description;
  bool takes_value = false;
  bool is_path = false;
  bool is_list = false;              // takes several choices, separated by commas
  std::vector<std::string> choices;  // accepted words; empty if any value is accepted
};

struct Command {
  std::string name;
  std::string description;
  std::vector<Argument> options;
  std::vector<Argument> positionals;
};

/// Returns the visible subcommands of `app`, each with its visible options.
std::vector<Command> command_tree(const CLI::App& app);

/// Returns the visible options of `app` itself, without those of its subcommands.
std::vector<Argument> options_of(const CLI::App& app);

}  // namespace attnctl::cli
