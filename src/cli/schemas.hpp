#pragma once

#include <span>
#include <string_view>

namespace attnctl::cli {

/// The JSON Schema (draft 2020-12) of one output.
struct Schema {
  std::string_view name;  // "analysis", for the output that says "attnctl.analysis/1"
  std::string_view text;  // the schema itself, with a line end
};

/// Every schema that this version writes, in the order of their names.
[[nodiscard]] std::span<const Schema> schemas();

/// The text of one: "analysis" and "attnctl.analysis/1" mean the same. Anything else is a usage error that
/// lists the names.
[[nodiscard]] std::string_view schema_text(std::string_view name);

}  // namespace attnctl::cli
