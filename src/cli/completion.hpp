#pragma once

#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace attnctl::cli {

/// Returns the completion script of a shell ("bash", "zsh" or "fish") for the commands of `app`. Throws
/// Error(usage) for any other name.
///
/// The type name and the validators of an argument decide its completions:
/// - the words in braces, if there are any ("{json,csv}", as CLI::IsMember writes them); they are joined by
///   commas if the option has the delimiter ',' or a type name that starts with LIST;
/// - or else files, if the type name or the name of a positional argument contains FILE, PATH, DIR, MODEL,
/// .npy or
///   .npz;
/// - otherwise nothing.
/// Commands and options of the empty group are hidden.
[[nodiscard]] std::string completion_script(const CLI::App& app, std::string_view shell);

}  // namespace attnctl::cli
