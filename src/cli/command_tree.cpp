#include "cli/command_tree.hpp"

#include <CLI/CLI.hpp>

#include "base/text.hpp"

namespace attnctl::cli {
namespace {

/// Returns the words of "TEXT:{json,csv}", or an empty list without braces.
std::vector<std::string> words_in_braces(const std::string& type) {
  std::vector<std::string> words;
  const std::size_t open = type.find('{');
  const std::size_t close = type.find('}', open == std::string::npos ? 0 : open);
  if (open == std::string::npos || close == std::string::npos) return words;
  for (const std::string_view word : split(std::string_view(type).substr(open + 1, close - open - 1), ','))
    words.emplace_back(word);
  return words;
}

bool names_a_path(const std::string& type) {
  for (const char* kind : {"FILE", "PATH", "DIR", "MODEL", ".npy", ".npz"})
    if (type.find(kind) != std::string::npos) return true;
  return false;
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

Argument argument_of(const CLI::Option& option) {
  Argument argument;
  for (const std::string& name : option.get_snames()) argument.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) argument.names.push_back("--" + name);
  const std::string type = option.get_type_name();
  argument.description = first_line(option.get_description());
  argument.takes_value = option.get_positional() || option.get_items_expected_max() > 0;
  argument.choices = words_in_braces(type);
  const std::string value = option.get_positional() ? option.get_name(true) + " " + type : type;
  argument.is_path = argument.choices.empty() && names_a_path(value);
  argument.is_list = option.get_delimiter() == ',' || type.rfind("LIST", 0) == 0;
  return argument;
}

std::vector<Argument> arguments_of(const CLI::App& app, bool positional) {
  std::vector<Argument> arguments;
  for (const CLI::Option* option : app.get_options())
    if (!option->get_group().empty() && option->get_positional() == positional)
      arguments.push_back(argument_of(*option));
  return arguments;
}

}  // namespace

std::vector<Argument> options_of(const CLI::App& app) {
  return arguments_of(app, false);
}

std::vector<Command> command_tree(const CLI::App& app) {
  std::vector<Command> commands;
  const auto visible = [](const CLI::App* sub) {
    return !sub->get_name().empty() && !sub->get_group().empty();
  };
  for (const CLI::App* sub : app.get_subcommands(visible))
    commands.push_back(
        {sub->get_name(), first_line(sub->get_description()), options_of(*sub), arguments_of(*sub, true)});
  return commands;
}

}  // namespace attnctl::cli
