#pragma once

#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace attnctl::cli {

/// The completion script of a shell ("bash", "zsh" or "fish") for the commands of `app`; any other name is a
/// usage error.
///
/// What an argument completes to follows from its type name and validators in the command tree: words where
/// they stand in braces ("{json,csv}", as CLI::IsMember writes them), joined by commas where the option has
/// the delimiter ',' or a type name that starts with LIST; files where the type name, or the name of a
/// positional argument, says FILE, PATH, DIR, MODEL, .npy or .npz; else nothing.
/// Commands and options of the empty group stay hidden.
[[nodiscard]] std::string completion_script(const CLI::App& app, std::string_view shell);

}  // namespace attnctl::cli
