#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace attnctl::test {

/// Checks `value` against a JSON Schema (draft 2020-12) and returns a line for each breach, with the JSON
/// pointer of where it stands. Knows the part of the standard that schemas/ uses; a keyword outside of it
/// throws, so that no rule is silently left out. References are local ("#/$defs/head").
[[nodiscard]] std::vector<std::string> schema_breaches(const nlohmann::json& schema,
                                                       const nlohmann::json& value);

}  // namespace attnctl::test
