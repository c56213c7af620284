#pragma once

#include <span>
#include <string_view>

namespace attnctl::cli {

/// The JSON Schema (draft 2020-12) of one JSON output of attnctl.
struct Schema {
  std::string_view name;  // "analysis" for documents with the schema "attnctl.analysis/1"
  std::string_view text;  // the JSON text, ending with a newline
};

/// Returns the schemas of all JSON outputs, sorted by name.
[[nodiscard]] std::span<const Schema> schemas();

/// Returns the text of one schema. Accepts the short name "analysis" and the full name "attnctl.analysis/1".
/// For any other name, throws Error(usage) with the list of names.
[[nodiscard]] std::string_view schema_text(std::string_view name);

}  // namespace attnctl::cli
