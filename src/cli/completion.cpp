#include "cli/completion.hpp"

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/files/output_file.hpp"
#include "cli/commands.hpp"

namespace attnctl::cli {
namespace {

/// An option or a positional argument.
struct Argument {
  std::vector<std::string> names;  // "-o", "--output"; empty for a positional argument
  std::string description;
  bool takes_value = false;
  bool is_path = false;
  bool is_list = false;              // takes several choices, separated by commas
  std::vector<std::string> choices;  // accepted words; empty if any value is accepted
};

/// A subcommand with its arguments.
struct Subcommand {
  std::string name;
  std::string description;
  std::vector<Argument> options;
  std::vector<Argument> positionals;
};

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

bool names_a_path(const std::string& type) {
  for (const char* kind : {"FILE", "PATH", "DIR", "MODEL", ".npy", ".npz"})
    if (type.find(kind) != std::string::npos) return true;
  return false;
}

Argument argument_of(const Option& option) {
  Argument argument;
  if (!option.positional()) argument.names = option.all_names();
  const std::string value = option.value_text();
  argument.description = first_line(option.help);
  argument.takes_value = option.takes_value();
  argument.choices = option.allowed;
  argument.is_path =
      option.allowed.empty() && names_a_path(option.positional() ? option.names + " " + value : value);
  argument.is_list = option.split || value.starts_with("LIST");
  return argument;
}

/// Returns the options of a command, with those that every command has.
std::vector<Argument> options_of(const Command& command) {
  std::vector<Argument> arguments;
  const auto add_flag = [&](std::vector<std::string> names, const char* description) {
    Argument& flag = arguments.emplace_back();
    flag.names = std::move(names);
    flag.description = description;
  };
  add_flag({"-h", "--help"}, "Print this help message and exit");
  if (command.version) add_flag({"--version"}, "Display program version information and exit");
  for (const Option& option : command.options)
    if (!option.positional()) arguments.push_back(argument_of(option));
  return arguments;
}

/// Returns the subcommands of a command that are not hidden.
std::vector<Subcommand> subcommands_of(const Command& root) {
  std::vector<Subcommand> subcommands;
  for (const Command& command : root.subcommands) {
    if (command.hidden) continue;
    Subcommand& added = subcommands.emplace_back();
    added.name = command.name;
    added.description = first_line(command.about);
    added.options = options_of(command);
    for (const Option& option : command.options)
      if (option.positional()) added.positionals.push_back(argument_of(option));
  }
  return subcommands;
}

std::string join(const std::vector<std::string>& words, std::string_view between) {
  return fmt::format("{}", fmt::join(words, between));
}

/// Returns all names of all options or commands: the words that can start an argument.
std::vector<std::string> names_of(const std::vector<Argument>& options) {
  std::vector<std::string> names;
  for (const Argument& option : options) names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

std::vector<std::string> names_of(const std::vector<Subcommand>& commands) {
  std::vector<std::string> names;
  names.reserve(commands.size());
  for (const Subcommand& command : commands) names.push_back(command.name);
  return names;
}

/// Quotes text for a shell with single quotes: ' becomes '\''.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

// --- bash

std::string bash_values(const Argument& argument) {
  if (argument.is_path) return "_attnctl_files";
  if (argument.choices.empty()) return "COMPREPLY=()";
  return fmt::format("{} {}", argument.is_list ? "_attnctl_list" : "_attnctl_words",
                     quoted(join(argument.choices, " ")));
}

void bash_option_cases(const std::string& command, const std::vector<Argument>& options, std::string& out) {
  for (const Argument& option : options) {
    if (!option.takes_value) continue;
    std::vector<std::string> patterns;
    patterns.reserve(option.names.size());
    for (const std::string& name : option.names) patterns.push_back(fmt::format("{}/{}", command, name));
    out += fmt::format("    {}) {}; return ;;\n", join(patterns, " | "), bash_values(option));
  }
}

std::string bash_script(const std::vector<Subcommand>& commands, const std::vector<Argument>& options) {
  std::string out = R"(# bash completion of attnctl
_attnctl_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur"); }
_attnctl_files() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -f -- "$cur")
}
_attnctl_list() {  # the last of a list with commas
  local before=
  [[ $cur == *,* ]] && before=${cur%,*},
  compopt -o nospace 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -P "$before" -W "$1" -- "${cur##*,}")
}
_attnctl() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command= i
  [[ $cur == = ]] && cur=
  [[ $prev == = ]] && prev=${COMP_WORDS[COMP_CWORD - 2]}
  for ((i = 1; i < COMP_CWORD; i++)); do
)";
  out += fmt::format("    case ${{COMP_WORDS[i]}} in {}) command=${{COMP_WORDS[i]}}; break ;; esac\n  done\n",
                     join(names_of(commands), " | "));
  out += "  case $command/$prev in\n";
  bash_option_cases("", options, out);
  for (const Subcommand& command : commands) bash_option_cases(command.name, command.options, out);
  out += "  esac\n  case $command/$cur in\n";
  out += fmt::format("    /-*) _attnctl_words {} ;;\n", quoted(join(names_of(options), " ")));
  out += fmt::format("    /*) _attnctl_words {} ;;\n", quoted(join(names_of(commands), " ")));
  for (const Subcommand& command : commands) {
    out += fmt::format("    {}/-*) _attnctl_words {} ;;\n", command.name,
                       quoted(join(names_of(command.options), " ")));
    if (!command.positionals.empty())
      out += fmt::format("    {}/*) {} ;;\n", command.name, bash_values(command.positionals.front()));
  }
  return out + "  esac\n}\ncomplete -F _attnctl attnctl\n";
}

// --- zsh

/// Escapes text for the [description] of an option: unescaped brackets and colons would end it.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_values(const Argument& argument) {
  if (argument.is_path) return ":file:_files";
  if (argument.choices.empty()) return ":value: ";
  if (argument.is_list) return fmt::format(":list:_values -s , value {}", join(argument.choices, " "));
  return fmt::format(":value:({})", join(argument.choices, " "));
}

void zsh_arguments(const std::vector<Argument>& options, std::string_view indent, std::string& out) {
  for (const Argument& option : options)
    for (const std::string& name : option.names)
      out += fmt::format(" \\\n{}{}", indent,
                         quoted(fmt::format("*{}[{}]{}", name, zsh_text(option.description),
                                            option.takes_value ? zsh_values(option) : "")));
}

std::string zsh_script(const std::vector<Subcommand>& commands, const std::vector<Argument>& options) {
  std::string out = "#compdef attnctl\n# zsh completion of attnctl\n_attnctl() {\n";
  out += "  local -a commands\n  local curcontext=$curcontext state line\n  commands=(\n";
  for (const Subcommand& command : commands)
    out += fmt::format("    {}\n", quoted(zsh_text(command.name) + ":" + zsh_text(command.description)));
  out += "  )\n  _arguments -C";
  zsh_arguments(options, "    ", out);
  out += " \\\n    '1:command:->command' '*::argument:->argument'\n";
  out +=
      "  case $state in\n    command) _describe command commands ;;\n    argument)\n      case $words[1] "
      "in\n";
  for (const Subcommand& command : commands) {
    out += fmt::format("        {}) _arguments", command.name);
    zsh_arguments(command.options, "          ", out);
    for (std::size_t i = 0; i < command.positionals.size(); ++i)
      out += fmt::format(" \\\n          {}",
                         quoted(fmt::format("{}{}", i + 1, zsh_values(command.positionals[i]))));
    out += " ;;\n";
  }
  return out + "      esac ;;\n  esac\n}\n_attnctl \"$@\"\n";
}

// --- fish

std::string fish_values(const Argument& argument) {
  if (!argument.takes_value) return "";
  if (argument.is_path) return " -r -F";
  if (argument.choices.empty()) return " -x";
  const std::string words = join(argument.choices, " ");
  return " -x -a " + quoted(argument.is_list ? "(__fish_append , " + words + ")" : words);
}

void fish_options(const std::string& condition, const std::vector<Argument>& options, std::string& out) {
  for (const Argument& option : options) {
    out += "complete -c attnctl -n " + quoted(condition);
    for (const std::string& name : option.names)
      out += name.rfind("--", 0) == 0 ? " -l " + name.substr(2) : " -s " + name.substr(1);
    out += fish_values(option) + " -d " + quoted(option.description) + "\n";
  }
}

std::string fish_script(const std::vector<Subcommand>& commands, const std::vector<Argument>& options) {
  std::string out = "# fish completion of attnctl\ncomplete -c attnctl -f\n";
  fish_options("__fish_use_subcommand", options, out);
  for (const Subcommand& command : commands) {
    out += fmt::format("complete -c attnctl -n __fish_use_subcommand -a {} -d {}\n", command.name,
                       quoted(command.description));
    const std::string condition = "__fish_seen_subcommand_from " + command.name;
    for (const Argument& positional : command.positionals) {
      const std::string values = positional.is_path ? " -F" : fish_values(positional);
      out += "complete -c attnctl -n " + quoted(condition) + values + "\n";
    }
    fish_options(condition, command.options, out);
  }
  return out;
}

}  // namespace

std::string completion_script(const Command& root, std::string_view shell) {
  const std::vector<Subcommand> commands = subcommands_of(root);
  const std::vector<Argument> options = options_of(root);
  if (shell == "bash") return bash_script(commands, options);
  if (shell == "zsh") return zsh_script(commands, options);
  if (shell == "fish") return fish_script(commands, options);
  fail(Status::usage, "completion: unsupported shell \"{}\"; supported: bash, zsh, fish", escaped(shell));
}

Command completion_command(const Command& root) {
  Command command{.name = "completion", .about = "Print the completion script of a shell", .hidden = true};
  auto shell = std::make_shared<std::string>();
  command.add({{.names = "SHELL", .target = shell.get(), .help = "bash, zsh or fish", .required = true}});
  command.action = [&root, shell] {
    OutputFile out("-");
    out.write(completion_script(root, *shell));
    out.commit();
  };
  return command;
}

}  // namespace attnctl::cli
