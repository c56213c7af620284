#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace attnctl::test {

/// Checks `value` against a JSON Schema (draft 2020-12). Returns one line per violation, with the JSON
/// pointer of the value. Supports the keywords that schemas/ uses and throws for all others, so that no rule
/// is ignored. References must be local ("#/$defs/head").
[[nodiscard]] std::vector<std::string> schema_breaches(const nlohmann::json& schema,
                                                       const nlohmann::json& value);

}  // namespace attnctl::test
