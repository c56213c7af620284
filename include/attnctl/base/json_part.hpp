#pragma once

#include "attnctl/base/json_events.hpp"

#include <nlohmann/json.hpp>

namespace attnctl {

/// As parse_json, for a value that is a part of a file.
[[nodiscard]] nlohmann::ordered_json parse_json_part(const JsonText& text);

}  // namespace attnctl
