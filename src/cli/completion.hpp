#pragma once

#include <string>
#include <string_view>

#include "cli/options/command.hpp"

namespace attnctl::cli {

/// Returns the completion script of a shell ("bash", "zsh" or "fish") for the subcommands of `root`. Throws
/// Error(usage) for any other name.
///
/// The options decide their completions:
/// - the allowed words, if there are any; they are joined by commas if the option splits its value or has a
///   type that starts with LIST;
/// - or else files, if the type or the name of a positional argument contains FILE, PATH, DIR, MODEL, .npy or
///   .npz;
/// - otherwise nothing.
[[nodiscard]] std::string completion_script(const Command& root, std::string_view shell);

}  // namespace attnctl::cli
