#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace attnctl::cli {

/// What the completion of a shell needs to know of an option or a positional argument.
struct Argument {
  std::vector<std::string> names;  // "-o", "--output"; none for a positional
  std::string description;
  bool takes_value = false;
  bool is_path = false;
  bool is_list = false;              // choices are joined by commas
  std::vector<std::string> choices;  // the words that it takes; none where it is free
};

struct Command {
  std::string name;
  std::string description;
  std::vector<Argument> options;
  std::vector<Argument> positionals;
};

/// The visible commands below `app`, each with its visible options.
std::vector<Command> command_tree(const CLI::App& app);

/// The visible options of `app` itself.
std::vector<Argument> options_of(const CLI::App& app);

}  // namespace attnctl::cli
