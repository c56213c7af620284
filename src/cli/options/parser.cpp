#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <sstream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/error.hpp"
#include "base/files/input_file.hpp"
#include "base/text.hpp"
#include "cli/options/command.hpp"
#include "cli/options/target.hpp"
#include "report/text.hpp"

namespace attnctl::cli {
namespace {

using WordList = std::vector<std::string>;
using Function = std::function<void(const std::string&)>;

// --- Text of --help

template <typename... Targets>
bool targets(const Option& option) {
  return (std::holds_alternative<Targets>(option.target) || ...);
}

bool is_vector(const Option& option) {
  return targets<std::vector<std::string>*, std::vector<std::size_t>*>(option);
}

std::string limits_text(const Range& range) {
  return range.whole ? fmt::format("{:.0f} to {:.0f}", range.first, range.last)
                     : fmt::format("{:g} to {:g}", range.first, range.last);
}

template <typename T>
std::string default_text(std::vector<T>* values) {
  return values->empty() ? "" : fmt::format("[{}]", fmt::join(*values, ","));
}
template <typename T>
std::string default_text(const T& target) {
  if constexpr (std::is_same_v<T, std::string*>) return *target;
  if constexpr (std::is_same_v<T, std::size_t*>) return std::to_string(*target);
  if constexpr (std::is_same_v<T, double*>) return fmt::format("{:g}", *target);
  return {};
}

/// Returns the text that --help shows after the names of an option: its value and default, whether the option
/// is required, and the options that it needs or excludes.
std::string usage_text(const Option& option, const Command& command) {
  std::string text;
  if (option.takes_value()) {
    text = option.value_text();
    if (option.show_default) {
      const std::string value =
          std::visit([](const auto& target) { return default_text(target); }, option.target);
      if (!value.empty()) text += "=" + value;
    }
    if (is_vector(option) || (option.in_order && option.positional())) text += " ...";
    if (option.required) text += " REQUIRED";
  }
  if (!option.needs.empty()) text += " Needs: " + option.needs;
  std::string excluded;
  for (const Option& other : command.options) {
    if (option.excludes.empty() && other.excludes.empty()) continue;
    const std::string name = other.all_names().back();
    if (name == option.excludes || other.excludes == option.all_names().back()) excluded += " " + name;
  }
  if (!excluded.empty()) text += " Excludes:" + excluded;
  return text.starts_with(' ') ? text.substr(1) : text;
}

/// Breaks long lines of a --help text at output_width(), but at least 60 and at most 120 columns; 80 if the
/// width is unknown. Breaks examples only before options, with a backslash.
std::string wrapped_help(std::string_view help) {
  const std::size_t width = std::clamp<std::size_t>(output_width().value_or(80), 60, 120);
  constexpr std::size_t descriptions = 30;  // first column of the descriptions of options
  std::string text;
  bool example = false;
  while (!help.empty()) {
    const std::string_view line = take_line(help);
    const std::size_t first = line.find_first_not_of(' ');
    const std::size_t gap = std::min(line.find("  ", first), line.size());
    const std::size_t indent = first == 0 ? 0 : std::min(line.find_first_not_of(' ', gap), descriptions);
    example = line == "Examples:" || (example && first != 0);
    text += example ? report::wrapped(line, width - 2, " \\\n      ", " --")
                    : report::wrapped(line, width, "\n" + std::string(indent, ' '));
    text += '\n';
  }
  return text;
}

// --- Values

/// Converts as CLI11 does: numbers may be hexadecimal, an empty word is zero. Returns false if not valid.
template <typename T>
bool convert(const std::string& word, T& value) {
  value = T();
  return word.empty() || CLI::detail::lexical_cast(word, value);
}

template <typename T>
bool store(const WordList& words, T* target) {
  return convert(words.front(), *target);
}
template <typename T>
bool store(const WordList& words, std::optional<T>* target) {
  target->reset();
  const bool none = !std::is_same_v<T, std::string> && words.front().empty();
  return none || convert(words.front(), target->emplace());
}
template <typename T>
bool store(const WordList& words, std::vector<T>* target) {
  target->clear();
  for (const std::string& word : words) {
    if (!convert(word, target->emplace_back())) return false;
  }
  return true;
}
bool store(const WordList& words, const Function& function) {
  function(words.front());
  return true;
}

bool in_range(const std::string& word, const Range& range) {
  double value = 0;
  std::int64_t integer = 0;
  if (!(range.whole ? CLI::detail::lexical_cast(word, integer) : CLI::detail::lexical_cast(word, value)))
    return false;
  if (range.whole) value = static_cast<double>(integer);
  return value >= range.first && value <= range.last;  // false for a NaN
}

std::string value_error(const Option& option, const std::string& word) {
  const WordList& allowed = option.allowed;
  if (!allowed.empty() && std::ranges::find(allowed, word) == allowed.end())
    return fmt::format("got {}{}, need one of {}", escaped(word), did_you_mean(word, allowed),
                       fmt::join(allowed, ", "));
  if (!option.range || in_range(word, *option.range)) return {};
  const std::string& name = option.range->name;
  return fmt::format("got {}, need a {}", escaped(word),
                     name.empty() ? "number from " + limits_text(*option.range) : name + " number");
}

// --- CLI11

CLI::Option* add_option(CLI::App& app, const Option& option) {
  if (bool* const* const flag = std::get_if<bool*>(&option.target))
    return app.add_flag(option.names, **flag, option.help);
  CLI::Option* const added = app.add_option(
      option.names,
      [&option](const WordList& words) {
        if (option.given != nullptr) *option.given = true;
        return option.in_order ||
               std::visit([&](const auto& target) { return store(words, target); }, option.target);
      },
      option.help);
  added->type_name(option.value_text())->required(option.required);
  added->check([&option](const std::string& word) { return value_error(option, word); });
  constexpr int kMany = CLI::detail::expected_max_vector_size;
  if (is_vector(option)) {
    added->expected(kMany)->allow_extra_args(option.positional());
    if (option.split) added->delimiter(',');
  }
  if (option.in_order) added->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  // Two limits, because expected(kMany) sets allow_extra_args, with which CLI11 splits the text "[a, b]".
  if (option.in_order && option.positional()) added->expected(kMany, kMany);
  return added;
}

using OrderedOptions = std::map<const CLI::Option*, Function>;

/// Returns the entries KEY = VALUE of a file in TOML. Removes comments, and white space in lists, and
/// resolves escapes, because CLI11 misreads some of them. Throws Error(bad_input) for a key that is given
/// twice, for a text with #, and for open quotes or brackets.
std::vector<CLI::ConfigItem> read_entries(const std::string& path) {
  constexpr char kQuote = '\x01';      // replaces " in a text until CLI11 has read the text
  constexpr char kBackslash = '\x02';  // the same for a backslash
  const std::string text = read_file(path, std::size_t{1} << 20);
  std::string_view rest = text;
  std::stringstream entries;
  std::set<std::string_view> keys;
  int depth = 0;  // number of open brackets
  for (std::size_t number = 1; !rest.empty(); ++number) {
    char quote = '\0';  // of the text that is open
    const std::string_view line = take_line(rest);
    std::string_view key = line.substr(std::min(line.find_first_not_of(" \t"), line.size()));
    key = key.substr(0, key.find_first_of(" \t=#"));
    if (depth == 0 && !key.empty() && !keys.insert(key).second)
      refuse(escaped(path), "line {}: the key \"{}\" is given twice; remove one of the lines", number,
             escaped(key));
    for (std::size_t i = 0; i < line.size() && line[i] != '#'; ++i) {
      const char c = line[i];
      if (quote == '\0' && depth > 0 && (c == ' ' || c == '\t')) continue;
      if (quote == '\0') depth += (c == '[' ? 1 : 0) - (c == ']' ? 1 : 0);
      if (quote != '\0' && c == '\\') {
        const std::string_view next = line.substr(i + 1, 1);
        if (quote == '"' && (next == "\"" || next == "\\")) ++i;
        entries << (line[i] == '"' ? kQuote : kBackslash);
        continue;
      }
      if (quote == '\0' ? c == '"' || c == '\'' : c == quote) quote = quote == '\0' ? c : '\0';
      entries << c;
    }
    if (quote != '\0')
      refuse(escaped(path), "line {}: a text must end with {} on its line and have no #", number, quote);
    if (depth == 0) entries << '\n';
  }
  if (depth != 0) refuse(escaped(path), "need as many [ as ]");
  std::vector<CLI::ConfigItem> items = CLI::ConfigTOML().from_config(entries);
  for (CLI::ConfigItem& item : items) {
    for (std::string& value : item.inputs) {
      std::ranges::replace(value, kQuote, '"');
      std::ranges::replace(value, kBackslash, '\\');
    }
  }
  return items;
}

/// Sets the options in the file of --config-file, if it is given, except those on the command line.
void read_config_file(CLI::App& app, const OrderedOptions& ordered) {
  const CLI::Option* const file = app.get_option_no_throw("--config-file");
  if (file == nullptr || file->count() == 0) return;
  const std::string& path = file->results().front();
  WordList keys;
  for (const CLI::Option* each : app.get_options())
    if (each != file && each->get_configurable() && !each->get_lnames().empty())
      keys.push_back(each->get_lnames().front());
  for (const CLI::ConfigItem& item : read_entries(path)) {
    const std::string& key = item.parents.empty() ? item.name : item.parents.front();
    if (!item.parents.empty() || std::ranges::find(keys, key) == keys.end())
      fail(Status::usage, "{}: unknown key \"{}\"{}; keys are options without dashes, such as max-length",
           escaped(path), escaped(key), did_you_mean(key, keys));
    CLI::Option* const option = app.get_option("--" + key);
    if (std::ranges::find(app.parse_order(), option) != app.parse_order().end()) continue;
    const bool many = ordered.contains(option) || option->get_expected_max() > 1;
    try {
      option->add_result(many ? item.inputs : WordList{fmt::format("{}", fmt::join(item.inputs, ","))});
      option->run_callback();
    } catch (const CLI::ParseError& error) {
      fail(Status::usage, "{}: {}", escaped(path), error.what());
    }
  }
}

void store_in_order(const CLI::App& app, const OrderedOptions& ordered) {
  std::map<const CLI::Option*, std::size_t> used;
  for (const CLI::Option* parsed : app.parse_order()) {
    const auto found = ordered.find(parsed);
    if (found != ordered.end()) found->second(parsed->results().at(used[parsed]++));
  }
  for (const auto& [option, target] : ordered)  // the values in the file of --config-file
    if (!used.contains(option)) std::ranges::for_each(option->results(), target);
}

/// Adds the options and subcommands to `app`, and the names of options that take a value to `with_value`.
void build(CLI::App& app, const Command& command, std::set<std::string>& with_value) {
  if (command.version) app.set_version_flag("--version", command.version);
  if (!command.footer.empty()) app.footer(command.footer);
  OrderedOptions ordered;
  for (const Option& option : command.options) {
    CLI::Option* const added = add_option(app, option)->group(option.group);
    const std::string text = usage_text(option, command);
    if (!text.empty()) added->option_text(text);
    if (option.in_order) ordered.emplace(added, std::get<Function>(option.target));
    const WordList names = option.all_names();
    if (option.takes_value()) with_value.insert(names.begin(), names.end());
  }
  for (const Option& option : command.options) {
    const std::string name = option.all_names().back();
    if (!option.needs.empty()) app.get_option(name)->needs(app.get_option(option.needs));
    if (!option.excludes.empty()) app.get_option(name)->excludes(app.get_option(option.excludes));
  }
  if (!ordered.empty())
    app.parse_complete_callback([&app, ordered = std::move(ordered)] {
      read_config_file(app, ordered);
      store_in_order(app, ordered);
    });
  if (!command.subcommands.empty()) app.require_subcommand(0, 1);
  for (const Command& subcommand : command.subcommands)
    build(*app.add_subcommand(subcommand.name, subcommand.about), subcommand, with_value);
}

/// Returns the arguments in reverse, as CLI11 expects. Splits `--title=` into the option and an empty value,
/// because CLI11 would use the next argument as the value. `with_value` are the names of options with values.
WordList arguments_of(const std::set<std::string>& with_value, int argc, char** argv) {
  WordList words;
  char** const end = std::find(argv + 1, argv + argc, std::string_view("--"));  // of the options
  for (int i = argc; i-- > 1;) {
    std::string word = argv[i];
    if (argv + i < end && word.starts_with("--") && word.ends_with('=') &&
        with_value.contains(word.substr(0, word.size() - 1))) {
      words.emplace_back();
      word.pop_back();
    }
    words.push_back(std::move(word));
  }
  return words;
}

struct ParsedCommand {
  const CLI::App& app;
  const Command& command;
  std::string name;  // with the names of its parents: "attnctl experiment scaling"

  /// What its subcommands are: "command", or "experiment" for those of `attnctl experiment`.
  [[nodiscard]] std::string_view kind() const {
    return name.find(' ') == std::string::npos ? std::string_view("command") : command.name;
  }
};

/// Returns the innermost command on the command line, or the first one with an unknown argument.
ParsedCommand chosen(const ParsedCommand& outer) {
  const std::vector<CLI::App*> parsed = outer.app.get_subcommands();
  if (parsed.empty() || outer.app.remaining_size() > 0) return outer;
  const std::string& name = parsed.front()->get_name();
  return chosen({*parsed.front(), *std::ranges::find(outer.command.subcommands, name, &Command::name),
                 outer.name + " " + name});
}

/// Returns a message about the first unknown argument of a command or, if all are known, the error of CLI11.
std::string argument_fault(const ParsedCommand& parsed, std::string error) {
  const WordList unknown = parsed.app.remaining();
  const auto found = std::ranges::find_if(unknown, [](const std::string& word) { return word != "--"; });
  if (found == unknown.end()) {
    std::ranges::replace(error, '\n', ' ');
    const std::size_t required = error.find(" is required");
    if (required == std::string::npos) return error;
    const std::string name = error.substr(0, required);
    const auto option = std::ranges::find(parsed.command.options, name, &Option::names);
    if (option != parsed.command.options.end() && !option->allowed.empty())
      return fmt::format("{}; give one of {}", error, fmt::join(option->allowed, ", "));
    return fmt::format("{}; the first argument is {}", error, name);
  }
  WordList known;
  for (const CLI::Option* option : parsed.app.get_options()) known.push_back(option->get_name());
  if (found->starts_with('-')) {
    const std::string name(attnctl::split(*found, '=').front());
    const bool windows = name == "--truncate" && std::ranges::find(known, "--stride") != known.end();
    return fmt::format("unknown option {}{}", escaped(name),
                       windows ? " (--stride cuts long texts into windows)" : did_you_mean(name, known));
  }
  const std::vector<Command>& commands = parsed.command.subcommands;
  if (commands.empty()) {
    const bool files = std::ranges::find(known, "--input") != known.end();
    return fmt::format("unexpected argument \"{}\"{}", escaped(*found),
                       files ? "; give texts in a file, with --input FILE" : "");
  }
  const std::string nearest = did_you_mean(*found, commands, &Command::name);
  return fmt::format("unknown {} \"{}\"{}", parsed.kind(), escaped(*found),
                     nearest.empty() ? ", need one of " + join_texts(commands, &Command::name) : nearest);
}

}  // namespace

Range positive() {
  return {std::numeric_limits<double>::min(), std::numeric_limits<double>::max(), "positive"};
}

Range non_negative() {
  return {0.0, std::numeric_limits<double>::max(), "nonnegative"};
}

Option number(std::string names, OptionTarget target, std::string help, std::optional<Range> range) {
  const bool list = std::holds_alternative<std::vector<std::size_t>*>(target);
  return {.names = std::move(names),
          .target = std::move(target),
          .help = std::move(help),
          .show_default = true,
          .split = list,
          .range = std::move(range)};
}

WordList Option::all_names() const {
  return texts_of(attnctl::split(names, ','), std::identity());
}

std::string Option::value_text() const {
  const bool words = targets<std::string*, std::optional<std::string>*, WordList*, Function>(*this);
  std::string text = !type.empty() || !takes_value() ? type : words ? "TEXT" : "NUMBER";
  if (!allowed.empty() && type.empty()) text += fmt::format(":{{{}}}", fmt::join(allowed, ","));
  if (!range) return text;
  if (range->name.empty()) return text + ":" + limits_text(*range);
  text += ':';
  for (const char c : range->name) text += static_cast<char>(c - 'a' + 'A');
  return text;
}

void Command::add(const std::string& group, std::vector<Option> added) {
  for (Option& option : added) {
    option.group = group;
    options.push_back(std::move(option));
  }
}

std::variant<const Command*, std::string> parse_command_line(const Command& root, int argc, char** argv) {
  CLI::App app{root.about, root.name};
  std::set<std::string> with_value;
  build(app, root, with_value);
  const auto refuse = [&](const char* error) {
    const ParsedCommand parsed = chosen({app, root, root.name});
    const std::string shown =
        parsed.command.subcommands.empty() ? "options" : fmt::format("{}s", parsed.kind());
    fail(Status::usage, "{}; {} --help shows the {}", argument_fault(parsed, error), parsed.name, shown);
  };
  try {
    app.parse(arguments_of(with_value, argc, argv));
  } catch (const CLI::CallForHelp& help) {
    // The help of an unknown command is not that of attnctl.
    const ParsedCommand parsed = chosen({app, root, root.name});
    const WordList unknown = parsed.app.remaining();
    const bool named = !unknown.empty() && !unknown.front().starts_with('-');
    if (named && !parsed.command.subcommands.empty()) refuse(help.what());
    return wrapped_help(app.help());  // the help of the subcommand on the command line
  } catch (const CLI::CallForVersion& version) {
    return std::string(version.what()) + "\n";
  } catch (const OptionText& option) {
    return option.text;
  } catch (const CLI::ParseError& error) {
    refuse(error.what());
  }
  const Command& command = chosen({app, root, root.name}).command;
  if (command.command_line != nullptr) command.command_line->assign(argv, argv + argc);
  return &command;
}

}  // namespace attnctl::cli
