#pragma once

#include <span>
#include <string_view>

namespace attnctl::cli {

/// The JSON Schema (draft 2020-12) of one output.
struct Schema {
  std::string_view name;  // "analysis" for documents with the schema "attnctl.analysis/1"
  std::string_view text;  // the JSON text, ending with a newline
};

/// Returns every schema that this version writes, sorted by name.
[[nodiscard]] std::span<const Schema> schemas();

/// Returns the text of one schema. Accepts the short name "analysis" and the full name "attnctl.analysis/1".
/// Throws Error(usage) with the list of names for any other name.
[[nodiscard]] std::string_view schema_text(std::string_view name);

}  // namespace attnctl::cli
