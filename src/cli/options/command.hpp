#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

// Commands and their options as data. parser.cpp is the only source that parses them; --help and shell
// completion show the same data.
namespace attnctl::cli {

/// The inclusive limits of a number. --help and errors name the type of the limits.
template <typename Number>
struct Range {
  Number first, last;
  std::string name = {};  // "positive"; default: the type and both limits
};
[[nodiscard]] Range<double> positive();
[[nodiscard]] Range<double> non_negative();
using Limits = std::variant<std::monostate, Range<int>, Range<std::size_t>, Range<double>>;

/// Words to choose from. `set` receives its index.
struct Choice {
  std::vector<std::string> words;
  std::function<void(std::size_t)> set;
};
/// Returns a choice among the values of an enum.
template <typename Enum>
[[nodiscard]] Choice choice(Enum& value, const std::vector<std::pair<const char*, Enum>>& words) {
  Choice result;
  std::vector<Enum> values;
  for (const auto& [word, each] : words) {
    result.words.emplace_back(word);
    values.push_back(each);
  }
  result.set = [&value, values = std::move(values)](std::size_t index) { value = values[index]; };
  return result;
}

/// The variable that an option sets, or a function that receives its text. An option with a bool is a flag
/// and takes no value. An option with a vector may be given several times.
using OptionTarget =
    std::variant<bool*, std::string*, std::optional<std::string>*, std::size_t*, std::optional<std::size_t>*,
                 std::optional<int>*, double*, std::vector<std::string>*, std::vector<std::size_t>*,
                 std::function<void(const std::string&)>, Choice>;

/// An option or, if its name has no dashes, a positional argument.
struct Option {
  std::string names;  // "--layers", "-o,--output", "MODEL"
  OptionTarget target;
  std::string help = {};
  std::string type = {};  // placeholder of the value in --help; default: by the target, such as TEXT or UINT
  bool required = false;
  bool show_default = false;  // show the value of the target in --help
  bool split = false;         // split the value at commas, for a vector
  Limits range = {};
  std::vector<std::string> allowed = {};  // allowed words; empty: any
  std::string needs = {};                 // name of an option that must be given too
  std::string excludes = {};              // name of an option that must not be given too
  bool in_order = false;  // call the target for each value in the order of the command line, after parsing
  bool* given = nullptr;  // set to true if the option is given
  std::string group = "Options";  // heading in --help

  [[nodiscard]] bool positional() const { return !names.starts_with('-'); }
  [[nodiscard]] bool takes_value() const { return !std::holds_alternative<bool*>(target); }
  /// Returns all names: {"-o", "--output"}.
  [[nodiscard]] std::vector<std::string> all_names() const;
  /// Returns the description of the value: "TEXT:{json,csv}", "UINT:INT in [1 - 9]". Empty for a flag.
  [[nodiscard]] std::string value_text() const;
};

/// Returns an option for a number, or for numbers separated by commas. --help shows the default.
[[nodiscard]] Option number(std::string names, OptionTarget target, std::string help, Limits range = {});

struct Command {
  std::string name;
  std::string about;
  bool hidden = false;
  std::vector<Option> options = {};
  std::vector<Command> subcommands = {};
  bool needs_subcommand = false;
  std::string footer = {};                    // end of --help, with the examples
  std::function<std::string()> version = {};  // text of --version; empty: no such option
  std::function<void()> action = {};          // empty: the command only has subcommands

  /// Adds options below a heading of --help.
  void add(const std::string& group, std::vector<Option> added);
  void add(std::vector<Option> added) { add("Options", std::move(added)); }
};

/// Parses the command line and sets the targets of the given options. Returns the chosen command, or the text
/// of --help or --version. Throws Error(usage).
[[nodiscard]] std::variant<const Command*, std::string> parse_command_line(const Command& root, int argc,
                                                                           char** argv);

}  // namespace attnctl::cli
