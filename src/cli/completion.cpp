#include <algorithm>
#include <iterator>
#include <memory>
#include <vector>

#include <fmt/ranges.h>

#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/session.hpp"

namespace attnctl::cli {
namespace {

/// Returns whether the value is a path, by its type or by the name of a positional argument.
bool is_path(const Option& option) {
  if (!option.allowed.empty()) return false;
  const std::string type = (option.positional() ? option.names + " " : "") + option.value_text();
  for (const char* kind : {"FILE", "PATH", "DIR", "MODEL", ".npy", ".npz"})
    if (type.find(kind) != std::string::npos) return true;
  return false;
}

bool is_list(const Option& option) {
  return option.split || option.value_text().starts_with("LIST");
}

/// Returns a copy of a command with the options that the parser adds (--help and, if Command::version is set,
/// --version) and a positional argument for its subcommands. Option::allowed of each option has the words to
/// offer.
Command complete(const Command& command) {
  bool* const flag = nullptr;
  Command result{.name = command.name, .about = command.about};
  result.options = {{"-h,--help", flag, "Print this help message and exit"}};
  if (command.version)
    result.options.push_back({"--version", flag, "Display program version information and exit"});
  std::ranges::copy(command.options, std::back_inserter(result.options));
  for (Option& option : result.options) {
    if (option.names == "--explain" || (command.name == "explain" && option.positional()))
      option.offered = explained_names();
    if (option.names == "--plot") option.offered = plot_names(command.name);
    if (option.allowed.empty() && !is_path(option)) option.allowed = option.offered;
  }
  Option names{.names = "COMMAND", .target = static_cast<std::string*>(nullptr)};
  for (const Command& subcommand : command.subcommands) {
    names.allowed.push_back(subcommand.name);
    result.subcommands.push_back(complete(subcommand));
  }
  if (!names.allowed.empty()) result.options.push_back(std::move(names));
  return result;
}

std::vector<Option> options_of(const Command& command, bool positional) {
  std::vector<Option> options;
  std::ranges::copy_if(command.options, std::back_inserter(options),
                       [&](const Option& option) { return option.positional() == positional; });
  return options;
}

std::string words_of(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

/// Quotes text for a shell with single quotes: ' becomes '\''.
std::string quoted(const std::string& text) {
  return fmt::format("'{}'", fmt::join(split(text, '\''), "'\\''"));
}

std::string bash_values(const Option& option) {
  if (is_path(option)) return fmt::format("_attnctl_files {}", quoted(words_of(option.offered)));
  if (option.allowed.empty()) return "COMPREPLY=()";
  return fmt::format("{} {}", is_list(option) ? "_attnctl_list" : "_attnctl_words",
                     quoted(words_of(option.allowed)));
}

/// Adds a command and those below it, each with its pattern for bash, such as "experiment\ hull".
void add_commands(const std::string& path, const Command& command,
                  std::vector<std::pair<std::string, const Command*>>& commands) {
  commands.emplace_back(path, &command);
  for (const Command& each : command.subcommands)
    add_commands(path + (path.empty() ? "" : "\\ ") + each.name, each, commands);
}

std::string bash_script(const Command& root) {
  std::string out = R"(# bash completion of attnctl
_attnctl_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur"); }
_attnctl_files() {  # completes files, and the words of $1
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur"; compgen -f -- "$cur")
}
_attnctl_list() {  # completes the last word of a list separated by commas
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
  std::vector<std::pair<std::string, const Command*>> commands;
  add_commands("", root, commands);
  out += "    case ${command:+$command }${COMP_WORDS[i]} in\n";
  for (const auto& [path, command] : commands)
    if (!path.empty()) out += fmt::format("      {}) command+=${{command:+ }}${{COMP_WORDS[i]}} ;;\n", path);
  out += "    esac\n  done\n  case $command/$prev in\n";
  for (const auto& [path, command] : commands) {
    for (const Option& option : options_of(*command, false)) {
      const auto pattern = [&name = path](const std::string& each) {
        return fmt::format("{}/{}", name, each);
      };
      if (option.takes_value())
        out += fmt::format("    {}) {}; return ;;\n", join_texts(option.all_names(), pattern, " | "),
                           bash_values(option));
    }
  }
  out += "  esac\n  case $command/$cur in\n";
  for (const auto& [path, command] : commands) {
    const auto names = [](const Option& option) { return words_of(option.all_names()); };
    out += fmt::format("    {}/-*) _attnctl_words {} ;;\n", path,
                       quoted(join_texts(options_of(*command, false), names, " ")));
    const std::vector<Option> positionals = options_of(*command, true);
    if (!positionals.empty()) out += fmt::format("    {}/*) {} ;;\n", path, bash_values(positionals.front()));
  }
  return out + "  esac\n}\ncomplete -F _attnctl attnctl\n";
}

/// Escapes square brackets, colons and backslashes in a zsh description. An unescaped ] would end the
/// [description] of an option, and a colon separates the name of a command from its description.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_values(const Option& option) {
  if (is_path(option) && !option.offered.empty())
    return fmt::format(":file:{{compadd {}; _files}}", words_of(option.offered));
  if (is_path(option)) return ":file:_files";
  if (option.allowed.empty()) return ":value: ";
  if (is_list(option)) return fmt::format(":list:_values -s , value {}", words_of(option.allowed));
  return fmt::format(":value:({})", zsh_text(words_of(option.allowed)));
}

void zsh_command(const Command& command, const std::string& indent, std::string& out) {
  const bool parent = !command.subcommands.empty();
  if (parent) out += indent + "state=\n" + indent + "commands=(\n";
  for (const Command& each : command.subcommands)
    out += fmt::format("{}  {}\n", indent, quoted(zsh_text(each.name) + ":" + zsh_text(each.about)));
  out += indent + (parent ? ")\n" + indent + "_arguments -C" : "_arguments");
  const auto add = [&](const std::string& spec) { out += fmt::format(" \\\n{}  {}", indent, quoted(spec)); };
  std::size_t number = 0;
  for (const Option& option : command.options) {
    if (option.positional() && !parent) add(fmt::format("{}{}", ++number, zsh_values(option)));
    if (option.positional()) continue;
    for (const std::string& name : option.all_names())
      add(fmt::format("*{}[{}]{}", name, zsh_text(option.help),
                      option.takes_value() ? zsh_values(option) : ""));
  }
  if (!parent) return;
  out += fmt::format(
      " \\\n{0}  '1:command:->command' '*::argument:->argument'\n{0}case $state in\n"
      "{0}  command) _describe command commands ;;\n{0}  argument)\n{0}    case $words[1] in\n",
      indent);
  for (const Command& each : command.subcommands) {
    out += fmt::format("{}      {})\n", indent, each.name);
    zsh_command(each, indent + "        ", out);
    out += " ;;\n";
  }
  out += fmt::format("{0}    esac ;;\n{0}esac", indent);
}

std::string zsh_script(const Command& root) {
  std::string out = "#compdef attnctl\n# zsh completion of attnctl\n_attnctl() {\n";
  out += "  local -a commands\n  local curcontext=$curcontext state line\n";
  zsh_command(root, "  ", out);
  return out + "\n}\n_attnctl \"$@\"\n";
}

std::string fish_values(const Option& option) {
  if (!option.takes_value()) return "";
  if (is_path(option))
    return option.offered.empty() ? " -r -F" : " -r -F -a " + quoted(words_of(option.offered));
  if (option.allowed.empty()) return " -x";
  const std::string words = words_of(option.allowed);
  return " -x -a " + quoted(is_list(option) ? "(__fish_append , " + words + ")" : words);
}

/// Appends the lines of a command and of those below it. `given` is a condition for fish, which is true if
/// the names of the command are on the command line; it is empty for the root.
void fish_command(const std::string& given, const Command& command, std::string& out) {
  const std::string line =
      "complete -c attnctl -n " + quoted(given.empty() ? "__fish_use_subcommand" : given);
  for (const Option& option : command.options) {
    if (option.positional() && command.subcommands.empty())
      out += line + (is_path(option) ? " -F" : fish_values(option)) + "\n";
    if (option.positional()) continue;
    out += line;
    for (const std::string& name : option.all_names())
      out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    out += fish_values(option) + " -d " + quoted(option.help) + "\n";
  }
  for (const Command& each : command.subcommands) {
    const std::string here = given.empty() ? line
                                           : "complete -c attnctl -n " +
                                                 quoted(given + "; and not __fish_seen_subcommand_from " +
                                                        join_texts(command.subcommands, &Command::name, " "));
    out += fmt::format("{} -a {} -d {}\n", here, each.name, quoted(each.about));
    fish_command(given + (given.empty() ? "" : "; and ") + "__fish_seen_subcommand_from " + each.name, each,
                 out);
  }
}

}  // namespace

std::string completion_script(const Command& root, std::string_view shell) {
  const Command tree = complete(root);
  if (shell == "bash") return bash_script(tree);
  if (shell == "zsh") return zsh_script(tree);
  std::string out = "# fish completion of attnctl\ncomplete -c attnctl -f\n";
  fish_command("", tree, out);
  return out;
}

Command completion_command(const Command& root) {
  Command command{.name = "completion", .about = "Print the completion script of a shell"};
  auto shell = std::make_shared<std::string>();
  command.add({{.names = "SHELL",
                .target = shell.get(),
                .help = "Shell that reads the script, as in: source <(attnctl completion bash)",
                .required = true,
                .allowed = {"bash", "zsh", "fish"}}});
  command.footer = "Examples:\n  attnctl completion fish > attnctl.fish";
  command.action = [&root, shell] { write_to_stdout(completion_script(root, *shell)); };
  return command;
}

}  // namespace attnctl::cli
