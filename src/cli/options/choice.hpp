#pragma once

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/error.hpp"

namespace attnctl::cli {

/// Returns a validator that turns a name into the value of an enum, for CLI::Option::transform. The error for
/// an unknown name lists the known names.
template <typename Enum>
CLI::Validator choice(std::vector<std::pair<std::string, Enum>> names) {
  return CLI::Validator(
      [names = std::move(names)](std::string& text) {
        std::string known;
        for (const auto& [name, value] : names) {
          if (name == text) {
            text = std::to_string(static_cast<std::underlying_type_t<Enum>>(value));
            return std::string();
          }
          known += (known.empty() ? "" : ", ") + name;
        }
        return fmt::format("got {}, need one of {}", escaped(text), known);
      },
      "");
}

}  // namespace attnctl::cli
