#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/ranges.h>

// Commands and their options as data. parser.cpp parses the command line with this data. --help and shell
// completion show the same data.
namespace attnctl::cli {

/// The inclusive limits of a number, shown in --help and errors.
struct Range {
  double first, last;
  bool whole;        // only integers are valid
  std::string name;  // shown instead of the limits: "positive" in errors, "POSITIVE" in --help

  template <typename Number>
  Range(Number lowest, Number highest, std::string shown = {})
      : first(static_cast<double>(lowest)),
        last(static_cast<double>(highest)),
        whole(std::is_integral_v<Number>),
        name(std::move(shown)) {}
};
[[nodiscard]] Range positive();
[[nodiscard]] Range non_negative();

/// Thrown by the target of an option such as --explain: print `text` and do not run the command.
struct OptionText {
  std::string text;
};

/// The variable that an option sets, or a function that receives the value of the option as text. An option
/// whose target is a bool is a flag and takes no value. An option whose target is a vector may be given
/// several times.
using OptionTarget =
    std::variant<bool*, std::string*, std::optional<std::string>*, std::size_t*, std::optional<std::size_t>*,
                 std::optional<int>*, double*, std::optional<double>*, std::vector<std::string>*,
                 std::vector<std::size_t>*, std::function<void(const std::string&)>>;

/// An option, or a positional argument if the name does not start with a dash.
struct Option {
  std::string names;  // "--layers", "-o,--output", "MODEL"
  OptionTarget target;
  std::string help = {};
  /// Placeholder of the value in --help; default: from the type of the target, such as TEXT, NUMBER or
  /// mean|max.
  std::string type = {};
  bool required = false;
  /// Show the initial value of the target in --help, if the target is a string, a number or a list.
  bool show_default = false;
  bool split = false;  // split the value at commas; the target must be a vector
  std::optional<Range> range = {};
  std::vector<std::string> allowed = {};  // allowed values; empty: all values
  std::vector<std::string> offered = {};  // values that completion offers if `allowed` is empty
  std::string needs = {};                 // name of an option that must be given too
  std::string excludes = {};              // name of an option that must not be given too
  bool in_order = false;  // after parsing, call the target for each value, in the order of all such options
                          // on the command line; a positional argument takes any number of values
  bool* given = nullptr;  // set to true if the option is given; not for flags
  std::string group = "Options";  // heading in --help

  [[nodiscard]] bool positional() const { return !names.starts_with('-'); }
  [[nodiscard]] bool takes_value() const { return !std::holds_alternative<bool*>(target); }
  /// Returns all names: {"-o", "--output"}.
  [[nodiscard]] std::vector<std::string> all_names() const;
  /// Returns the description of the value: "TEXT:{json,csv}", "NUMBER:1 to 9". Empty for a flag.
  [[nodiscard]] std::string value_text() const;
};

/// Returns an option for a number, or for numbers separated by commas if the target is a vector. The option
/// has show_default set.
[[nodiscard]] Option number(std::string names, OptionTarget target, std::string help,
                            std::optional<Range> range = {});

/// Returns an option that sets `value` by one of several words, which are in the order of the enum's values.
template <typename Enum>
[[nodiscard]] Option choice(const std::string& names, Enum& value, const std::vector<std::string>& words,
                            const std::string& help) {
  const auto set = [&value, words](const std::string& word) {
    value = static_cast<Enum>(std::ranges::find(words, word) - words.begin());
  };
  return {.names = names,
          .target = set,
          .help = help,
          .type = fmt::format("{}", fmt::join(words, "|")),
          .allowed = words};
}

struct Command {
  std::string name;
  std::string about;
  std::vector<Option> options = {};
  std::vector<Command> subcommands = {};
  std::string footer = {};  // text at the end of --help, with examples
  /// Returns the text of --version; empty: the command has no --version.
  std::function<std::string()> version = {};
  std::function<void()> action = {};  // runs the command; empty: one of the subcommands must be given
  std::vector<std::string>* command_line = nullptr;  // receives the words of the command line; may be null

  /// Adds options. `group` is their heading in --help.
  void add(const std::string& group, std::vector<Option> added);
  void add(std::vector<Option> added) { add("Options", std::move(added)); }
};

/// Parses the command line, and the file of --config-file if the command has this option and an option
/// `in_order`. Sets the targets of the given options. Returns the chosen command, or the text of --help,
/// --version or an OptionText. Throws Error(usage) for an invalid argument, key or value. Also throws the
/// errors of read_file(), and Error(bad_input) if quotes or brackets in the file are not closed
/// or a key is given twice.
[[nodiscard]] std::variant<const Command*, std::string> parse_command_line(const Command& root, int argc,
                                                                           char** argv);

}  // namespace attnctl::cli
